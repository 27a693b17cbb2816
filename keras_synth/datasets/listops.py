"""ListOps: nested lists of digits and operators, with their values.

Nangia and Bowman, 2018, https://aclanthology.org/N18-4013/, with the rules of
Long Range Arena, https://arxiv.org/abs/2011.04006.
"""

import statistics
from typing import Any

import numpy as np

from keras_synth.datasets.words import check_integers, new_rng

_OPERATOR_RATE = 0.25  # of arguments above the last level
_SHORTEST = 4  # tokens: an operator, two digits and the end
_PATIENCE = 100_000  # draws in search of another expression


OPERATORS: dict[str, Any] = {
    "[MIN": min,
    "[MAX": max,
    "[MED": lambda values: int(statistics.median(values)),
    "[SM": lambda values: sum(values) % 10,
}


def generated_listops(
    num_examples: int,
    seed: int = 0,
    max_depth: int = 5,
    max_args: int = 10,
    min_length: int = _SHORTEST,
    max_length: int = 200,
) -> tuple[Any, ...]:
    """Generates expressions of nested lists, and their values.

    `[SM 4 [MAX 2 [MED 0 9 3 ] ] 1 ]` is 8: `[MIN`, `[MAX`, `[MED` (median,
    rounded down) and `[SM` (sum modulo 10) have 2 to `max_args` arguments. An
    argument is an operator with probability 0.25, except on the last level, and
    a digit otherwise. Long Range Arena uses
    `max_depth=10, min_length=501, max_length=1999`.

    Args:
        num_examples: Integer, number of expressions. A larger number begins
            with the same expressions.
        seed: Non-negative integer. The same seed makes the same expressions.
        max_depth: Integer, maximum number of levels, at least 2. With 2, all
            arguments are digits.
        max_args: Integer, maximum number of arguments of an operator, at least
            2.
        min_length: Integer, minimum number of tokens of an expression.
        max_length: Integer, maximum number of tokens of an expression, at least
            4.

    Returns:
        `(texts, labels)`: a list of distinct strings, tokens separated by
        spaces, and an int32 array of their values, 0 to 9.

    Raises:
        ValueError: If an argument is out of range, or there are too few
            expressions.

    Example:

    ```python
    texts, labels = generated_listops(12_000)
    train = texts[2_000:], labels[2_000:]
    test = texts[:2_000], labels[:2_000]
    ```
    """
    check_integers(
        num_examples=(num_examples, 1),
        max_depth=(max_depth, 2),
        max_args=(max_args, 2),
        min_length=(min_length, 1),
        max_length=(max_length, max(_SHORTEST, min_length)),
    )
    draw = _numbers(new_rng(seed)).__next__
    values: dict[str, int] = {}
    for _ in range(num_examples):
        for _ in range(_PATIENCE):
            tokens: list[str] = []
            value = _append(tokens, draw, max_depth, max_args, max_length)
            text = " ".join(tokens)
            if min_length <= len(tokens) <= max_length and text not in values:
                values[text] = value
                break
        else:
            raise ValueError(
                f"Found only {len(values)} distinct expressions of "
                f"{min_length} to {max_length} tokens, and no other in "
                f"{_PATIENCE:,} draws. Use a smaller number, or allow more "
                "lengths, levels or arguments. Received: "
                f"num_examples={num_examples}"
            )
    return list(values), np.array(list(values.values()), "int32")


def _numbers(rng):
    """Yields floats in [0, 1), drawn in blocks."""
    while True:
        yield from rng.random(4096).tolist()


def _append(tokens, draw, levels, max_args, max_length):
    """Appends an operator and its arguments, and returns the value."""
    operator = [*OPERATORS][int(len(OPERATORS) * draw())]
    tokens.append(operator)
    values = []
    for _ in range(2 + int((max_args - 1) * draw())):
        if levels > 2 and draw() < _OPERATOR_RATE:
            value = _append(tokens, draw, levels - 1, max_args, max_length)
        else:
            value = int(10 * draw())
            tokens.append(str(value))
        values.append(value)
        if len(tokens) > max_length:
            break  # not used
    tokens.append("]")
    return OPERATORS[operator](values)

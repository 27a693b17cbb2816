"""Expressions of ListOps from a generator, by the published rules."""

import functools
from typing import Any

import numpy as np

from keras_synth._backend.checks import check_positive
from keras_synth.datasets.listops import DIGITS, END, OPERATORS

DRAWN = ("[MIN", "[MAX", "[MED", "[SM")
OPERATOR_SHARE = 0.25  # of what may be an operator or a digit
SHORTEST = 4  # tokens: an operator, two digits and the end
FEWEST_ARGS = FEWEST_LEVELS = 2
PATIENCE = 100_000  # expressions to draw in search of one more
BLOCK = 4096  # numbers drawn at a time


def generated_listops(
    num_examples: int,
    seed: int = 0,
    max_depth: int = 5,
    max_args: int = 10,
    min_length: int = SHORTEST,
    max_length: int = 200,
) -> tuple[Any, ...]:
    """Writes expressions of nested lists, and evaluates them.

    `[SM 4 [MAX 2 [MED 0 9 3 ] ] 1 ]` is 8: `[MIN`, `[MAX`, `[MED` (median,
    rounded down) and `[SM` (sum modulo 10) stand before their 2 to `max_args`
    arguments. An argument is an operator with probability 0.25, a digit
    otherwise, and always a digit on the last level. All operators are equally
    likely, and so are numbers of arguments and digits. The first token is
    always an operator.

    These are the rules of Long Range Arena's ListOps, whose expressions are
    longer: `max_depth=10, min_length=501, max_length=1999`. ListOps itself has
    at most five arguments and 20 levels.

    Args:
        num_examples: Integer, number of expressions. A larger one continues a
            smaller one.
        seed: Integer, not negative. The same seed gives the same expressions.
        max_depth: Integer, most levels, at least 2: with 2, all arguments are
            digits.
        max_args: Integer, most arguments of an operator, at least 2.
        min_length: Integer, fewest tokens of an expression.
        max_length: Integer, most tokens of an expression, at least 4.

    Returns:
        `(texts, labels)`: a list of strings, tokens separated by spaces, and
        an int32 array of their values, 0 to 9. All expressions are distinct,
        so parts of the lists are a training and a test set.

    Raises:
        ValueError: An argument is out of range or no integer, or there are
            too few such expressions.

    Example:

    ```python
    texts, labels = generated_listops(12_000)
    train = texts[2_000:], labels[2_000:]
    test = texts[:2_000], labels[:2_000]
    ```

    References:
        - [Nangia and Bowman, 2018](https://aclanthology.org/N18-4013/)
        - Long Range Arena: [Tay et al., 2021](https://arxiv.org/abs/2011.04006)
    """
    check_positive("num_examples", num_examples)
    _check_limits(max_depth, max_args, min_length, max_length)
    draw = functools.partial(next, _numbers(np.random.default_rng(seed)))
    values: dict[str, int] = {}
    for _ in range(num_examples):
        for _ in range(PATIENCE):
            tokens: list[str] = []
            value = _append(tokens, draw, max_depth, max_args, max_length)
            text = " ".join(tokens)
            if min_length <= len(tokens) <= max_length and text not in values:
                values[text] = value
                break
        else:
            raise ValueError(
                f"Found {len(values)} distinct expressions of {min_length} to "
                f"{max_length} tokens, and in {PATIENCE:,} further ones no "
                "other. Ask for fewer, or allow more lengths, levels or "
                f"arguments. Received: num_examples={num_examples}"
            )
    return list(values), np.array(list(values.values()), "int32")


def _check_limits(max_depth, max_args, min_length, max_length):
    """Raises unless there is such an expression."""
    for name, value, least in (
        ("max_depth", max_depth, FEWEST_LEVELS),
        ("max_args", max_args, FEWEST_ARGS),
        ("min_length", min_length, 1),
        ("max_length", max_length, SHORTEST),
    ):
        if check_positive(name, value) < least:
            raise ValueError(
                f"{name} must be at least {least}. Received: {name}={value}"
            )
    if min_length > max_length:
        raise ValueError(
            "min_length must be at most max_length. Received: "
            f"min_length={min_length}, max_length={max_length}"
        )
    longest = 1
    for _ in range(max_depth - 1):
        longest = 2 + max_args * longest
        if longest >= min_length:
            return
    raise ValueError(
        f"With max_depth={max_depth} and max_args={max_args} an expression has "
        f"at most {longest} tokens. Pass larger ones, or a smaller min_length. "
        f"Received: min_length={min_length}"
    )


def _numbers(rng):
    """Yields floats in [0, 1), drawn by the block."""
    while True:
        yield from rng.random(BLOCK).tolist()


def _append(tokens, draw, levels, max_args, max_length):
    """Appends an operator and its arguments, and returns the value.

    Once there are too many tokens for the expression to be used, arguments
    are left out.
    """
    operator = DRAWN[int(len(DRAWN) * draw())]
    tokens.append(operator)
    values = []
    for _ in range(FEWEST_ARGS + int((max_args - FEWEST_ARGS + 1) * draw())):
        if levels > FEWEST_LEVELS and draw() < OPERATOR_SHARE:
            value = _append(tokens, draw, levels - 1, max_args, max_length)
        else:
            value = int(10 * draw())
            tokens.append(DIGITS[value])
        values.append(value)
        if len(tokens) > max_length:
            break
    tokens.append(END)
    return OPERATORS[operator](values)

"""ListOps: nested lists of digits and operators; what they evaluate to."""

from pathlib import Path
from typing import Any

import numpy as np

from keras_synth.datasets.files import read_rows
from keras_synth.types import FilePath

END = "]"
DIGITS = tuple("0123456789")
PARENTHESES = ("(", ")")  # of the binary trees in published files
LRA_COLUMNS = ["Source", "Target"]
FIELDS = 2  # of a row: an answer and an expression, in either order


def _median(values):
    values, half = sorted(values), len(values) // 2
    # Of an even number the mean of the middle two, rounded down.
    return (values[half] + values[-half - 1]) // 2


# What each operator makes of its arguments, a list of integers.
OPERATORS = {
    "[MIN": min,
    "[MAX": max,
    "[MED": _median,
    "[SM": lambda values: sum(values) % 10,
    "[FIRST": lambda values: values[0],
    "[LAST": lambda values: values[-1],
}


def evaluate_listops(expression: str) -> int:
    """Evaluates an expression of ListOps.

    `[MIN`, `[MAX`, `[MED` (median, rounded down) and `[SM` (sum modulo 10)
    stand before their arguments, digits or further expressions, and `]` behind
    them; so do `[FIRST` and `[LAST`, which some published files have.
    Parentheses say nothing more and are skipped.

    Args:
        expression: String, tokens between spaces.

    Returns:
        Integer from 0 to 9.

    Raises:
        ValueError: A token is unknown, an operator has no argument, or
            brackets do not match.

    Example:

    >>> keras_synth.datasets.evaluate_listops("[MAX 2 [SM 6 7 ] 1 ]")
    3

    References:
        - [Nangia and Bowman, 2018](https://aclanthology.org/N18-4013/)
    """
    results: list[int] = []
    open_lists: list[list] = []  # of an operator and its arguments each
    for token in _flat(expression):
        if token in OPERATORS:
            open_lists.append([token])
            continue
        if token in DIGITS:
            value = int(token)
        elif token == END:
            value = _closed(open_lists, expression)
        else:
            raise _error(
                f"Expected digits, {END} and the operators "
                f"{', '.join(OPERATORS)}, between spaces",
                f"{token!r} in {expression!r:.120}",
            )
        (open_lists[-1] if open_lists else results).append(value)
    if open_lists:
        raise _error(
            f"Expected {END} behind the arguments of each operator",
            f"{len(open_lists)} without it in {expression!r:.120}",
        )
    if len(results) != 1:
        raise _error(
            "Expected one expression",
            f"{len(results)} in {expression!r:.120}",
        )
    return results[0]


def _flat(expression):
    """The tokens of an expression but for its parentheses."""
    return [x for x in expression.split() if x not in PARENTHESES]


def _closed(open_lists, expression):
    """Evaluates the last list, and takes it away."""
    if not open_lists:
        raise _error(
            f"Expected an operator before each {END}",
            f"one {END} too many in {expression!r:.120}",
        )
    operator, *values = open_lists.pop()
    if not values:
        raise _error(
            "Expected an argument behind each operator",
            f"{operator} {END} in {expression!r:.120}",
        )
    return OPERATORS[operator](values)


def _error(expected, received):
    return ValueError(
        f"{expected}. Correct the expression. Received: {received}"
    )


def load_listops(path: FilePath) -> tuple[Any, ...]:
    """Reads a file of ListOps, as published or as of Long Range Arena.

    Each line has an answer, a tab and an expression; the files of Long Range
    Arena have a line with the names `Source` and `Target` first, and answers
    behind expressions. All answers are checked.

    Args:
        path: String or path-like, a file such as `test_d20s.tsv` or
            `basic_train.tsv`, plain or gzipped.

    Returns:
        `(texts, labels)`: a list of strings, the expressions without
        parentheses, and an int32 array of their answers, 0 to 9.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file is empty, damaged or not UTF-8, an expression is
            none, or an answer is wrong.

    Example:

    ```python
    texts, labels = load_listops("test_d20s.tsv")
    texts[0], labels[0]  # '[SM 6 5 9 0 ]', 0
    ```

    References:
        - [Nangia and Bowman, 2018](https://aclanthology.org/N18-4013/)
        - Long Range Arena: [Tay et al., 2021](https://arxiv.org/abs/2011.04006)
    """
    path = Path(path)
    rows = read_rows(path, delimiter="\t", quoted=False)
    answer_first = not rows or rows[0][1] != LRA_COLUMNS
    texts, labels = [], []
    for line, fields in rows if answer_first else rows[1:]:
        if len(fields) != FIELDS:
            raise ValueError(
                f"{path}, line {line}: expected an answer, a tab and an "
                "expression. Correct the line, or download the file again. "
                f"Received: {len(fields)} fields"
            )
        answer, expression = fields if answer_first else fields[::-1]
        tokens = _flat(expression)
        try:
            value = evaluate_listops(" ".join(tokens))
        except ValueError as error:
            raise ValueError(f"{path}, line {line}: {error}") from None
        if answer != str(value):
            raise ValueError(
                f"{path}, line {line}: expected the answer {value}. Correct "
                f"it, or download the file again. Received: {answer!r}"
            )
        texts.append(" ".join(tokens))
        labels.append(value)
    if not texts:
        raise ValueError(
            f"{path}: expected an answer, a tab and an expression on each "
            "line. Pass another file. Received: no line"
        )
    return texts, np.array(labels, "int32")

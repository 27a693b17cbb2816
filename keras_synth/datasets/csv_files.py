"""Texts, or pairs of texts, and labels in columns of a CSV or TSV file."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_synth.datasets.files import lists, read_rows, without_empty
from keras_synth.types import FilePath

# At most 18 digits: longer ones are names, not numbers.
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")


def load_csv(
    path: FilePath,
    text: str | Sequence[str] | None = None,
    label: str | None = None,
    *,
    header: bool = True,
    delimiter: str | None = None,
    quoted: bool | None = None,
    class_names: Sequence[str] | None = None,
    skip_empty: bool = False,
) -> tuple[Any, ...]:
    """Reads one or two text columns and a label column of a CSV or TSV file.

    The file is UTF-8, with or without a byte-order mark. Blank lines are
    skipped. Texts are kept as they are, labels lose surrounding spaces.

    Where fields are quoted, they may hold delimiters, newlines and doubled
    quotation marks. Where not, as in the TSV files of GLUE, all fields are
    taken as they are: quotation marks are ordinary characters, and no field
    can hold a delimiter or a newline.

    Labels are numbered in the order of `class_names`: numerically if all of
    them are integers, otherwise alphabetically. So labels `0..n-1` stay as
    they are.

    Args:
        path: String or path-like. The file is TSV if its name ends in `.tsv`
            or `.tsv.gz`, else CSV. Both may be gzipped.
        text: Name (string) or 0-based index (integer) of the text column, or
            a list or tuple of two of them for pairs of texts. `None` takes
            the column called "text", in any case.
        label: Name or index of the label column; `None` takes "label".
        header: Boolean, whether the first row holds the names of the columns.
            If not, `text` and `label` must be indices.
        delimiter: String of one character; `None`: a tab for TSV, a comma for
            CSV.
        quoted: Boolean, whether fields may be quoted; `None`: in CSV, not in
            TSV.
        class_names: List of strings. Pass the one of the training file to
            number the labels of a test file in the same way.
        skip_empty: Boolean, whether to leave out rows with an empty text or
            label. A warning says how many.

    Returns:
        `(texts, labels, class_names)`: a list of strings, or for pairs a tuple
        of two such lists; an int32 array of the same length; and a list with
        the name of each label.

    Raises:
        ValueError: The file cannot be read as such a table, a field is empty,
            or a label is not in `class_names`. The message names the file, the
            line where there is one, and the way out.

    Example:

    ```python
    # review,stars
    # "Dull, and long",bad
    # Superb,good
    texts, labels, class_names = load_csv("r.csv", "review", "stars")
    labels, class_names  # array([0, 1], dtype=int32), ["bad", "good"]
    test = load_csv("test.csv", "review", "stars", class_names=class_names)
    (first, second), labels, _ = load_csv("p.tsv", (0, 1), 2, header=False)
    ```
    """
    path = Path(path)
    rows = read_rows(path, delimiter, quoted)
    if len(rows) < 1 + bool(header):
        first = "a header row with the names of the columns, then "
        raise ValueError(
            f"{path}: expected {first if header else ''}one row per example. "
            f"Received: {len(rows)} rows."
        )
    names = list(range(len(rows[0][1])))
    if header:
        names = [name.strip() for name in rows.pop(0)[1]]
    columns = _find_columns(path, names, text, label)
    _check_widths(path, rows, len(names))
    rows = [(line, [row[i] for i in columns]) for line, row in rows]
    empty = [
        (path, f"the field of column {names[i]!r} is empty") for i in columns
    ]
    whole = "row with a text and a label"
    rows = without_empty(rows, empty, skip_empty, "rows", whole)
    *texts, labels = lists(fields for _, fields in rows)
    for column, fields in zip(columns, texts, strict=False):
        _check_texts(path, names[column], fields)
    labels = [label.strip() for label in labels]
    if class_names is None:
        class_names = _find_class_names(path, labels)
    lines = [line for line, _ in rows]
    numbers = _number_labels(path, lines, labels, class_names)
    texts = tuple(texts) if len(texts) > 1 else texts[0]
    return texts, numbers, list(class_names)


def _check_widths(path, rows, count):
    """Raises unless all rows have so many fields."""
    for line, row in rows:
        if len(row) != count:
            raise ValueError(
                f"{path}, line {line}: expected {count} fields as in the "
                f"first row, received {len(row)}. Put quotation marks around "
                "a field that holds the delimiter; in a .tsv file, remove "
                "tabs from the field; or pass delimiter= with another "
                "character."
            )


def _find_columns(path, names, text, label):
    """Returns the indices of one or two text columns and of the labels."""
    is_pair = isinstance(text, (tuple, list))
    if is_pair and (len(text) != 2 or None in text):
        raise ValueError(
            "text must be one column, or a list or tuple of two columns. "
            f"Received: {text!r}"
        )
    texts = text if is_pair else (text,)
    columns = [_find_column(path, names, "text", wanted) for wanted in texts]
    columns.append(_find_column(path, names, "label", label))
    for i, column in enumerate(columns):
        if column in columns[:i]:
            raise ValueError(
                f"{path}: text and label must be different columns. Received: "
                f"{names[column]!r} twice."
            )
    return columns


def _find_column(path, names, argument, wanted):
    """Returns the index of the column that `text=` or `label=` asks for."""
    if wanted is None:
        is_wanted = [str(name).lower() == argument for name in names]
    else:
        is_wanted = [wanted in pair for pair in enumerate(names)]
    if sum(is_wanted) == 1:
        return is_wanted.index(True)
    # Without a header, names are the indices.
    shown = [name[:40] if isinstance(name, str) else name for name in names]
    raise ValueError(
        f"{path}: there is {'more than one' if any(is_wanted) else 'no'} "
        f"column {argument if wanted is None else wanted!r}. Pass {argument}= "
        "with the name or the 0-based index of a column; with header=False, "
        "with the index. If fields are separated by another character, pass "
        f"delimiter= with it. Columns: {shown}"
    )


def _check_texts(path, name, texts):
    if all(map(_is_number, texts)):
        raise ValueError(
            f"{path}: expected texts in column {name!r}, but every field is a "
            f"number. Received: {texts[:3]}. Pass text= with another column."
        )


def _is_number(text):
    try:
        float(text)
    except ValueError:
        return False
    return True


def _find_class_names(path, labels):
    """Returns the distinct labels in order, numeric if all are integers."""
    if _are_integers(labels):
        labels = map(int, labels)
    class_names = [str(name) for name in sorted(set(labels))]
    if len(class_names) < 2:
        raise ValueError(
            f"{path}: all rows have the label {class_names[0]!r}, but a "
            "classifier needs at least two classes. Add rows of another "
            "class, or pass label= with another column. If this is no "
            "training file, pass class_names= of the training file."
        )
    return class_names


def _number_labels(path, lines, labels, class_names):
    """Returns int32 numbers of labels; `lines` tell where each one stands."""
    if isinstance(class_names, str) or len(set(class_names)) < 2:
        raise ValueError(
            "class_names must be a list of at least two different names, as "
            f"load_csv returns it. Received: {class_names!r}"
        )
    names = [str(name) for name in class_names]
    numbers = {name: i for i, name in enumerate(names)}
    if _are_integers(names):  # then 01 and +1 are 1
        numbers = {int(name): i for name, i in numbers.items()}
        labels = [int(x) if _INTEGER.fullmatch(x) else x for x in labels]
    for line, label in zip(lines, labels, strict=True):
        if label not in numbers:
            raise ValueError(
                f"{path}, line {line}: expected a label of class_names, which "
                f"are {names}. Received: {str(label)!r}. Correct the label or "
                "remove the row; if it is a class, add examples of it to the "
                "training file."
            )
    return np.array([numbers[label] for label in labels], dtype="int32")


def _are_integers(labels):
    return all(_INTEGER.fullmatch(label) for label in labels)

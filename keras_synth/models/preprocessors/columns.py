"""Columns of examples in memory."""

from typing import Any

import keras
import numpy as np


def columns(
    data: Any, name: str, words: bool = False, kind: str = "text"
) -> Any:
    """Returns lists, arrays, tensors and pandas columns as NumPy arrays.

    As in `tf.data`, tuples and dictionaries are nested structure, and a list is
    one column: the texts or numbers of all examples. With `words`, entries are
    lists of words or of their labels. Otherwise each is a `kind`, and only
    texts cannot be numbers. Errors contain `name`.
    """
    if isinstance(data, tuple):
        return tuple(
            columns(x, f"{name}[{i}]", words, kind) for i, x in enumerate(data)
        )
    if isinstance(data, dict):
        return {
            k: columns(x, f"{name}[{k!r}]", words, kind)
            for k, x in data.items()
        }
    return None if data is None else column(data, name, words, kind)


def column(
    data: Any, name: str, words: bool = False, kind: str = "text"
) -> Any:
    """Returns one column as a NumPy array; see `columns`."""
    given = data
    numbers = not words and kind != "text"
    entry_kind = "a list of words or of labels" if words else f"a {kind}"
    expected = f"{name} must be a column with {entry_kind} for each example"
    if hasattr(data, "to_numpy"):  # pandas
        data = data.to_numpy()
    elif hasattr(data, "to_list"):  # a ragged tensor
        data = data.to_list()
    elif keras.ops.is_tensor(data):
        data = keras.ops.convert_to_numpy(data)
    if not isinstance(data, list):
        data = np.asarray(data)
        if not data.ndim:
            raise ValueError(
                f"{expected}: a list, an array or a pandas column. Put a "
                "single example into a list, and read a file with "
                f"keras_synth.datasets.read. Received: {given!r:.60}"
            )
        if data.dtype.kind not in "OSTU" and numbers:
            return data
        if len(getattr(given, "columns", ())):
            names = [*given.columns]
            raise ValueError(
                f"{expected}. Pass one column of the table, such as "
                f"table[{names[0]!r}]. Received: a table of {names!r:.60}"
            )
        data = [*data] if words else data.tolist()
    if numbers and any(x is None for x in data):
        at = [x is None for x in data].index(True)
        raise ValueError(
            f"{name}[{at}] must be a {kind}. Fill it in, or remove the "
            "example. Received: None"
        )
    if numbers and (kind == "weight" or not _has_text(data)):
        array = np.asarray(data)
        narrow = {"float64": "float32", "int64": "int32"}
        return array.astype(narrow.get(array.dtype.name, array.dtype))
    kinds = (list, tuple, np.ndarray) if words else (str, bytes)
    for at, entry in enumerate(data):
        if not isinstance(entry, kinds):
            advice = "Convert or remove other examples"
            if numbers:
                advice += ", and pass either only names or only numbers"
            elif isinstance(entry, (list, tuple, np.ndarray)):
                advice = "Pass pairs of texts as a tuple of columns, or set "
                advice += "model.preprocessor = None for tokens"
            raise ValueError(
                f"{name}[{at}] must be {entry_kind}. {advice}. Received: "
                f"{entry!r:.60}"
            )
    return np.fromiter(data, "object", count=len(data))


def decoded(texts: Any) -> Any:
    """Returns arrays and bytes as strings and lists of them. Tensors stay."""
    if isinstance(texts, np.ndarray):
        texts = texts.tolist()
    if isinstance(texts, bytes):
        return texts.decode()
    if isinstance(texts, (list, tuple)):
        return [decoded(text) for text in texts]
    return texts


def _has_text(rows):
    """Whether a list has an entry that is not a number or a row of numbers."""
    try:
        first = np.asarray(rows[:1])
    except ValueError:
        return True
    return first.dtype.kind not in "biuf" or any(
        isinstance(row, (str, bytes)) for row in rows
    )

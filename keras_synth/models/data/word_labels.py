"""Sentences as lists of words, and a label for each word."""

import numpy as np

from keras_synth.models.data.class_labels import encode_labels
from keras_synth.models.data.examples import as_arrays
from keras_synth.models.data.texts import plain_texts


def checked_sentences(sentences, name="x"):
    """Returns sentences as lists of lists of strings.

    Args:
        sentences: List, array or pandas column of sentences, each a list,
            tuple or array of words.
        name: String, what errors call them.

    Raises:
        ValueError: These are no sentences, or one holds something else than
            words.
    """
    rows = _rows(
        sentences,
        name,
        "a list of sentences, each a list of words. Split texts into words, "
        "as in [text.split() for text in texts]; a model that is given "
        "tokenized batches needs preprocessor=None",
    )
    found = []
    for at, row in enumerate(rows):
        words = plain_texts(row, f"{name}[{at}]")
        for place, word in enumerate(words):
            if not isinstance(word, str):
                raise ValueError(
                    f"Words must be strings: write numbers as str(number). "
                    f"Received: {name}[{at}][{place}]={word!r:.60}"
                )
        found.append(words)
    return found


def checked_labels(labels, sentences, count=None, class_names=None, name="y"):
    """Returns the integer labels of words, an array for each sentence.

    Args:
        labels: List, array or pandas column with the labels of each sentence,
            integers or names of classes, one for each word.
        sentences: List of lists of words.
        count: Integer, integer labels lie below it, or `None` for any.
        class_names: Sequence of strings, or `None`.
        name: String, what errors call the labels.

    Raises:
        ValueError: There are more or fewer labels than words, or a label is
            not a class.
    """
    rows = _rows(
        labels,
        name,
        "a list of labels for each sentence, one for each word. Repeat a "
        "sentence's label for its words",
    )
    if len(rows) != len(sentences):
        raise ValueError(
            "There must be a list of labels for each sentence. Received: "
            f"{len(sentences)} sentences and {len(rows)} lists of labels in "
            f"{name}"
        )
    encoded = []
    for at, (row, words) in enumerate(zip(rows, sentences, strict=True)):
        if len(row) != len(words):
            raise ValueError(
                "Each word must have one label. Add or remove labels, or "
                "split the sentence into words as its labels do. Received: "
                f"{len(words)} words and {len(row)} labels in {name}[{at}]"
            )
        encoded.append(_encoded(row, count, class_names, f"{name}[{at}]"))
    return encoded


def without_padding(sentences, labels=None, *others):
    """Returns a batch of TensorFlow without what fills up its rows.

    Args:
        sentences: Array `(B, words)` of bytes, whose rows end with empty ones
            where they are shorter; or a list of B arrays of bytes.
        labels: Array `(B, words)`, likewise; or a list of B arrays.
        *others: What is returned as it is.

    Returns:
        Tuple of the same, lists of rows instead of arrays.
    """
    if isinstance(sentences, np.ndarray) and sentences.ndim == 2:
        counts = [1 + np.flatnonzero(row != b"") for row in sentences]
        sentences = [
            row[: count[-1] if len(count) else 0]
            for row, count in zip(sentences, counts, strict=True)
        ]
    if isinstance(labels, np.ndarray) and labels.ndim == 2:
        pairs = zip(labels, sentences, strict=True)
        labels = [row[: len(words)] for row, words in pairs]
    parts = sentences, labels, *others
    return tuple(part for part in parts if part is not None)


def _rows(data, name, expected):
    """The entries of nested sequences, each as a list."""
    data = data.to_numpy() if hasattr(data, "to_numpy") else data
    rows = data if _is_sequence(data) else [data]
    wrong = [row for row in rows if not _is_sequence(row)]
    if wrong:
        raise ValueError(
            f"{name} must be {expected}. Received: "
            f"{name}={data if rows[0] is data else [*rows]!r:.60}"
        )
    return [list(row) for row in rows]


def _is_sequence(data):
    return isinstance(data, (list, tuple)) or (
        hasattr(data, "shape") and len(data.shape) > 0
    )


def _encoded(row, count, class_names, name):
    if not row:
        return []
    labels = encode_labels(as_arrays(row, name), count, class_names, name)
    if labels.dtype.kind not in "iu" or labels.ndim > 1:
        raise ValueError(
            "Labels of words must be integers, or names of classes. Received: "
            f"{name}={row!r:.60}"
        )
    return labels

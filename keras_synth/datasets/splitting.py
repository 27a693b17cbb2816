"""Splits of examples."""

from typing import Any

import numpy as np

from keras_synth.datasets.words import new_rng


def train_validation_split(
    texts: Any, labels: Any, validation_fraction: float = 0.1, seed: int = 0
) -> tuple[Any, Any]:
    """Splits examples in two, with copies of a text on the same side.

    Each class is split in the same proportion. Labels are classes if they are
    integers, booleans or names, on average of at least two examples each.

    Args:
        texts: List, array or pandas column of strings, or a list of lists of
            words; a tuple of two of them for pairs of texts.
        labels: List, array or pandas column of the same length.
        validation_fraction: Float between 0 and 1.
        seed: Non-negative integer. The same seed makes the same split.

    Returns:
        `(train_texts, train_labels), (val_texts, val_labels)`, shuffled, with
        the types of the arguments.

    Raises:
        ValueError: If lengths differ, the fraction is out of range, or there
            are fewer than two distinct texts.

    Example:

    >>> texts, labels = keras_synth.datasets.generated_reviews(1000)
    >>> train, validation = keras_synth.datasets.train_validation_split(
    ...     texts, labels, 0.2)
    >>> len(train[0]), len(validation[0])
    (800, 200)
    """
    if not 0 < validation_fraction < 1:
        raise ValueError(
            "validation_fraction must be between 0 and 1. Received: "
            f"{validation_fraction!r}"
        )
    sides = texts if isinstance(texts, tuple) else (texts,)
    labels = [*labels] if isinstance(labels, tuple) else labels
    counts = [len(side) for side in sides]
    if {*counts} != {len(labels)}:
        raise ValueError(
            "There must be one label for each text, and a tuple must be of "
            f"lists. Received: {counts[:4]} texts, {len(labels)} labels"
        )
    numbers: dict[Any, int] = {}  # of distinct texts
    copies = np.array(
        [
            numbers.setdefault(_key(row), len(numbers))
            for row in zip(*sides, strict=True)
        ]
    )
    if len(numbers) < 2:
        raise ValueError(
            "There must be two distinct texts: one for training, one for "
            f"validation. Received: {len(numbers)}"
        )
    rng = new_rng(seed)
    held_out: np.ndarray = np.zeros(len(numbers), bool)
    for rows in _classes(labels):
        distinct, counts = np.unique(copies[rows], return_counts=True)
        order = rng.permutation(len(distinct))
        target = max(1, round(validation_fraction * len(rows)))
        # One text of a class with several stays on each side.
        number = np.sum(np.cumsum(counts[order]) <= target)
        number = np.clip(number, 1, len(distinct) - 1)
        held_out[distinct[order[:number]]] = True
    if held_out.all() or not held_out.any():  # texts are copies across classes
        one = rng.integers(len(numbers))
        held_out[one] = not held_out[one]
    order = rng.permutation(len(labels))
    is_held_out = held_out[copies[order]]
    parts = [
        (take(texts, rows), take(labels, rows))
        for rows in (order[~is_held_out], order[is_held_out])
    ]
    return parts[0], parts[1]


def take(values: Any, rows: Any) -> Any:
    """Returns rows of a list, array or column, or of each of a tuple."""
    if isinstance(values, tuple):
        return tuple(take(side, rows) for side in values)
    if hasattr(values, "iloc"):  # pandas, whose index can be in any order
        return values.iloc[rows]
    if isinstance(values, np.ndarray):
        return values[rows]
    return [values[i] for i in rows]


def _key(row):
    return tuple(
        tuple(x) if isinstance(x, (list, np.ndarray)) else x for x in row
    )


def _classes(labels):
    """Rows of each class, or all rows if labels are not classes."""
    kinds = (str, bytes, int, np.integer, np.bool_)
    if not all(isinstance(label, kinds) for label in labels):
        return [np.arange(len(labels))]
    _, numbers, counts = np.unique(
        np.array([*labels]), return_inverse=True, return_counts=True
    )
    if 2 * len(counts) > len(labels):  # probably texts
        return [np.arange(len(labels))]
    return np.split(np.argsort(numbers, kind="stable"), counts.cumsum()[:-1])

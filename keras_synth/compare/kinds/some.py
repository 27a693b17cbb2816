"""Fewer examples than there are."""

import numpy as np


def some(examples, count):
    """The first `count` examples in a random order, always the same one.

    Args:
        examples: Tuple of lists or arrays of equal length, or of tuples of
            two.
        count: Integer, number of examples.

    Returns:
        Tuple like `examples`.
    """
    check_count(count, len(examples[1]))
    rows = np.random.default_rng(0).permutation(len(examples[1]))[:count]
    return tuple(_rows(side, rows) for side in examples)


def check_count(count, most):
    """Raises if there are fewer than `count` examples."""
    if count > most:
        raise ValueError(
            f"--examples must be at most {most}, the number of examples to "
            f"train on. Received: {count}"
        )


def _rows(values, rows):
    if isinstance(values, tuple):
        return tuple(_rows(side, rows) for side in values)
    if isinstance(values, np.ndarray):
        return values[rows]
    return [values[i] for i in rows]

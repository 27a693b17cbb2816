"""Average attention weights over a corpus."""

from collections.abc import Iterable, Iterator
from typing import Any

import keras
import numpy as np


class Averages:
    """Sums of a layer's attention weights over samples.

    Args:
        num_heads: Integer, `H`.
        length: Integer, the longest sequence, `N`; it increases if necessary.
    """

    def __init__(self, num_heads: int, length: int = 1) -> None:
        self.sums = np.zeros((num_heads, length, length))
        self.counts = np.zeros((num_heads, length, length))
        self.squares = np.zeros(num_heads)

    def add_pairs(self, weights: np.ndarray, pairs: np.ndarray) -> None:
        """Adds weights `(B, H, T, S)`, zero except for pairs that count.

        `pairs` is a boolean array `(B, 1 or H, T, S)`, True if they count.
        """
        rows, columns = weights.shape[2:]
        self.sums = _grown(self.sums, rows, columns)
        self.counts = _grown(self.counts, rows, columns)
        self.sums[:, :rows, :columns] += weights.sum(0, dtype="float64")
        self.counts[:, :rows, :columns] += pairs.sum(0)
        self.squares += np.einsum("bhts,bhts->h", weights, weights)

    def averages(self) -> np.ndarray:
        """Returns the average weights `(H, T, S)` of the longest sequence.

        The average of a pair of positions is over the samples in which it is
        visible, or 0 without such samples.
        """
        return self.sums / np.maximum(self.counts, 1)

    def input_dependence(self) -> np.ndarray:
        """Returns how much each head's weights depend on the input, `(H,)`.

        `sum (A - mean A)^2 / sum A^2` over all pairs and samples: 0 if the
        weights are the same for all inputs, or all zero.
        """
        explained = (self.sums * self.averages()).sum((1, 2))
        left = (self.squares - explained) / np.maximum(self.squares, 1e-30)
        return np.maximum(left, 0)  # rounding can make it negative


def distances_of(rows: int, columns: int) -> np.ndarray:
    """Returns `j - i` of all pairs, an integer array `(T, S)`."""
    return np.arange(columns)[None] - np.arange(rows)[:, None]


def _grown(array, rows, columns):
    below, right = rows - array.shape[1], columns - array.shape[2]
    return np.pad(array, [(0, 0), (0, max(0, below)), (0, max(0, right))])


def batches(data: Any, model: Any, size: int = 32) -> Iterator[Any]:
    """Yields the inputs of batches, or cuts arrays into batches."""
    kind, batch = type(data).__name__, None
    is_list = (  # with an array for each of several inputs
        isinstance(data, (list, tuple))
        and len(data) == len(getattr(model, "inputs", ())) > 1
        and not any(isinstance(x, (str, dict, tuple)) for x in data)
    )
    if isinstance(data, keras.utils.PyDataset):
        data = map(data.__getitem__, range(len(data)))
    elif is_list or isinstance(data, dict) or hasattr(data, "shape"):
        if is_list:
            data = [_array(x) for x in data]
        elif isinstance(data, dict):
            data = _array(data)
        arrays = keras.tree.flatten(data)
        data = [
            keras.tree.map_structure(lambda x, i=i: x[i : i + size], data)
            for i in range(0, len(arrays[0]) if arrays else 0, size)
        ]
    elif isinstance(data, str) or not isinstance(data, Iterable):
        data = [data]
    for batch in data:
        yield batch[0] if isinstance(batch, tuple) else batch
    if batch is None:
        raise ValueError(
            "Expected data with batches of a model's inputs. Received: no "
            f"batch in {kind}"
        )


def _array(x):
    if isinstance(x, dict):
        return {key: _array(own) for key, own in x.items()}
    return np.asarray(x) if isinstance(x, list) else x

"""What attention heads do on average, over a corpus."""

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np


class Averages:
    """Sums of the attention weights of one layer, sample by sample.

    Only pairs of real tokens count. A batch at a time is held.

    Args:
        num_heads: Integer, `H`.
        length: Integer, the longest sequence, `N`; it grows as need be.
        source_length: Integer, likewise of the source; the same by default.
    """

    def __init__(
        self, num_heads: int, length: int = 1, source_length: int | None = None
    ) -> None:
        source_length = source_length or length
        self.sums = np.zeros((num_heads, length, source_length))
        self.counts = np.zeros((1, length, source_length))
        self.squares = np.zeros(num_heads)

    def add(self, weights: np.ndarray, real: np.ndarray) -> None:
        """Adds a batch of self-attention: all pairs of real tokens count.

        Args:
            weights: Array `(B, H, T, T)`.
            real: Boolean array `(B, T)`, False for padding.
        """
        pairs = (real[:, :, None] & real[:, None])[:, None]
        self.add_pairs(np.where(pairs, weights, 0.0), pairs)

    def add_pairs(self, weights: np.ndarray, pairs: np.ndarray) -> None:
        """Adds a batch.

        Args:
            weights: Array `(B, H, T, S)`, zero where a pair does not count.
            pairs: Boolean array `(B, 1 or H, T, S)`, the pairs that count.
        """
        rows, columns = weights.shape[2:]
        counts = pairs.sum(0)
        if len(counts) > len(self.counts):
            self.counts = np.repeat(self.counts, len(counts), 0)
        self.sums = _grown(self.sums, rows, columns)
        self.counts = _grown(self.counts, rows, columns)
        self.sums[:, :rows, :columns] += weights.sum(0, dtype="float64")
        self.counts[:, :rows, :columns] += counts
        self.squares += np.einsum("bhts,bhts->h", weights, weights)

    def means(self) -> np.ndarray:
        """Returns the average weights `(H, N, N)`, 0 where no pair was seen."""
        return self.sums / np.maximum(self.counts, 1)

    def input_dependence(self) -> np.ndarray:
        """Returns the share of the weights that their average leaves over.

        `sum (A - mean A)^2 / sum A^2` of all pairs and samples: 0 for a head
        that does the same for all inputs, `(H,)`.
        """
        explained = (self.sums * self.means()).sum((1, 2))
        left = 1 - explained / np.maximum(self.squares, 1e-30)
        return np.maximum(left, 0)  # rounding may leave less than nothing

    def tables(self) -> np.ndarray:
        """Returns the logarithms of the averages, `(H, N, N)`.

        A pair of positions that was never seen takes the average of the
        nearest distance that was.
        """
        seen = self.counts[0] > 0
        means = self.means()
        distances = distances_of(*seen.shape)
        at = distances - distances.min()
        size = at.max() + 1
        numbers = np.bincount(at[seen], minlength=size)
        known = np.flatnonzero(numbers)
        nearest = known[
            np.abs(known[None] - np.arange(size)[:, None]).argmin(1)
        ]
        for mean in means:
            profile = np.bincount(at[seen], mean[seen], minlength=size)
            profile = profile[nearest] / numbers[nearest]
            mean[~seen] = profile[at[~seen]]
        return np.log(np.maximum(means, 1e-9)).astype("float32")


def distances_of(rows: int, columns: int) -> np.ndarray:
    """Returns `j - i` of all pairs, an integer array `(T, S)`."""
    return np.arange(columns)[None] - np.arange(rows)[:, None]


def _grown(array, rows, columns):
    below = max(0, rows - array.shape[1])
    right = max(0, columns - array.shape[2])
    if not below and not right:
        return array
    return np.pad(array, [(0, 0), (0, below), (0, right)])


def batches(data: Any, size: int = 32) -> Iterator[Any]:
    """Yields batches of inputs.

    Args:
        data: A dictionary of arrays, or an array, which are cut into batches;
            or an iterable of batches, of which those that are tuples hold
            inputs first.
        size: Integer, samples in a batch that is cut.

    Raises:
        ValueError: If there is none.
    """
    number = 0
    for batch in _cut(data, size):
        number += 1
        yield batch
    if not number:
        raise ValueError(
            "Data are expected to hold batches of a model's inputs. "
            f"Received: no batch in {type(data).__name__}"
        )


def _cut(data, size):
    if isinstance(data, keras.utils.PyDataset):
        data = map(data.__getitem__, range(len(data)))
    if isinstance(data, dict):
        number = len(next(iter(data.values()), ()))
        for start in range(0, number, size):
            at = slice(start, start + size)
            yield {name: x[at] for name, x in data.items()}
    elif hasattr(data, "shape"):
        for start in range(0, len(data), size):
            yield data[start : start + size]
    else:
        for batch in data:
            yield batch[0] if isinstance(batch, tuple) else batch

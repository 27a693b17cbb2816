"""Averages of attention weights, and the tables closest to them."""

import numpy as np

from keras_synth.analysis.averages import Averages, distances_of

_STEPS = 200  # of what converges in tens of them


class Sums(Averages):
    """Averages of one layer, and the tables closest to them.

    Args:
        num_heads: Integer, `H`.
        length: Integer, the longest sequence, `N`.
        causal: Whether no token attends to later ones.
    """

    def __init__(self, num_heads: int, length: int, causal: bool) -> None:
        super().__init__(num_heads, length)
        self._causal = causal

    def add(self, weights: np.ndarray, real: np.ndarray) -> None:
        """Adds a batch: all pairs of real tokens count.

        Args:
            weights: Array `(B, H, T, T)`.
            real: Boolean array `(B, T)`, False for padding.
        """
        pairs = (real[:, :, None] & real[:, None])[:, None]
        self.add_pairs(np.where(pairs, weights, 0.0), pairs)

    def samples_of_rows(self) -> np.ndarray:
        """Returns how many samples reach each position, `(N,)`."""
        return np.diagonal(self.counts[0])

    def tables(self) -> np.ndarray:
        """Returns the logarithms of the averages, `(H, N, N)`.

        A pair of positions without samples gets the average of the nearest
        distance with samples.
        """
        seen = self.counts[0] > 0
        means = self.averages()
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

    def closest_tables(self) -> np.ndarray:
        """Returns the tables whose weights diverge least from the samples.

        For each row i, the logits R minimise `sum_s KL(A_s[i] ||
        softmax(R[i]))` over all samples s that reach i. The softmax is over
        the keys of the sample. If all samples have the same length, or the
        mask is causal, the solution is `log(mean A)`. Otherwise, the mean of a
        key that shorter samples lack includes only longer samples, whose
        weights are spread over more keys. This is Luce's choice model. Its
        likelihood rises in each step of

        `w[j] = sum_s A_s[j] / sum_{s: n_s > j} 1 / sum_{l < n_s} w[l]`.

        Pairs without samples are the same as in `tables`.

        Returns:
            Array `(H, N, N)`.

        References:
            - [Hunter, 2004](https://doi.org/10.1214/aos/1079120141), MM
              algorithms for choice models.
        """
        tables = self.tables()
        reached = self.samples_of_rows()
        if self._causal or not reached.any():
            return tables
        ending = reached - np.append(reached[1:], 0)  # samples of i + 1 tokens
        if (ending < 0).any():  # padding comes first, or in between
            return tables
        for i in np.flatnonzero(reached):
            longer = np.where(np.arange(len(ending)) >= i, ending, 0.0)
            tables[:, i] = _chosen(self.sums[:, i], longer, tables[:, i])
        return tables


def _chosen(sums, ending, logits):
    """Logits `(H, N)` of a row from sums of weights `(H, N)`.

    Args:
        sums: Array `(H, N)`.
        ending: Array `(N,)`, the number of samples whose last key this is.
        logits: Array `(H, N)`, initial values, kept for keys without samples.
    """
    last = np.flatnonzero(ending)
    length = last[-1] + 1
    sums = np.maximum(sums[:, :length], 1e-9)
    weights = np.exp(logits[:, :length].astype("float64"))
    for _ in range(_STEPS if len(last) > 1 else 1):
        totals = np.cumsum(weights, -1)
        per_sample = ending[:length] / totals  # those that end here
        expected = np.cumsum(per_sample[:, ::-1], -1)[:, ::-1]
        updated = sums / expected
        moved = np.abs(np.log(updated / weights)).max()
        weights = updated
        if moved < 1e-4:
            break
    # Only ratios count: keys without samples stay in proportion.
    before = np.exp(logits[:, :length]).sum(-1, keepdims=True)
    weights *= before / weights.sum(-1, keepdims=True)
    found = logits.copy()
    found[:, :length] = np.log(weights)
    return found

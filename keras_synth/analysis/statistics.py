"""Statistics of attention heads over a data set."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_synth._backend.checks import check_positive
from keras_synth.analysis.averages import Averages, batches, distances_of
from keras_synth.analysis.capturing import observe
from keras_synth.analysis.recording import CapturedAttention

# Bins of equal width on a logarithmic scale, because weights of long sequences
# are small, and a bin for all smaller weights.
BINS = np.concatenate([[0.0], np.geomspace(1e-4, 1.0, 41)])


class AttentionStatistics(Averages):
    """Statistics of the heads of an attention layer, batch by batch.

    They exclude padding of queries and keys. `attention_statistics` makes them
    for each layer of a model.

    Args:
        num_heads: Integer, `H`.

    Example:

    >>> statistics = keras_synth.analysis.AttentionStatistics(num_heads=2)
    >>> for seed in range(3):
    ...     weights = np.random.default_rng(seed).random((4, 2, 10, 10))
    ...     statistics.add(weights / weights.sum(-1, keepdims=True))
    >>> statistics.entropy().shape, statistics.averages().shape
    ((2,), (2, 10, 10))
    >>> bool((statistics.window_share(2) < statistics.window_share(5)).all())
    True
    """

    def __init__(self, num_heads: int) -> None:
        self.num_heads = check_positive("num_heads", num_heads)
        super().__init__(num_heads)
        self._histogram: np.ndarray = np.zeros(
            (num_heads, len(BINS) - 1), "int64"
        )
        self._rows, self._entropy = np.zeros(num_heads), np.zeros(num_heads)
        self._first = np.zeros(num_heads)

    def add(
        self,
        weights: np.ndarray,
        query_mask: np.ndarray | None = None,
        key_mask: np.ndarray | None = None,
        attention_mask: np.ndarray | None = None,
    ) -> None:
        """Adds a batch.

        Args:
            weights: Array `(B, H, T, S)`.
            query_mask: Boolean array `(B, T)`, False for padding.
            key_mask: Boolean array `(B, S)`, False for padding.
            attention_mask: Boolean array that broadcasts to `(B, H, T, S)`,
                True for visible pairs.
        """
        weights = np.asarray(weights)
        if weights.ndim != 4 or weights.shape[1] != self.num_heads:
            raise ValueError(
                f"Expected weights (B, H, T, S) of {self.num_heads} heads. "
                f"Received: weights.shape={weights.shape}"
            )
        batch, _, rows, columns = weights.shape
        queries = _mask("query_mask", query_mask, (batch, rows))
        keys = _mask("key_mask", key_mask, (batch, columns))
        pairs = queries[:, None, :, None] & keys[:, None, None]
        if attention_mask is not None:
            pairs = pairs & np.asarray(attention_mask, bool)
        weights = np.where(pairs, weights, 0).astype("float32")
        self.add_pairs(weights, pairs)
        pairs = np.broadcast_to(pairs, weights.shape)
        for head, counts in enumerate(self._histogram):
            inside = weights[:, head][pairs[:, head]]
            inside = np.clip(inside, 0, 1)  # rounding can exceed 1
            counts += np.histogram(inside, BINS)[0]
        totals = weights.sum(-1, keepdims=True)
        shares = weights / np.where(totals > 0, totals, 1)
        logs = np.log(shares, where=shares > 0, out=np.zeros_like(shares))
        self._entropy -= (shares * logs).sum((0, 2, 3), dtype="float64")
        self._rows += (totals > 0).sum((0, 2, 3))
        samples, first = np.arange(batch), keys.argmax(1)
        self._first += weights[samples, :, :, first].sum((0, 2))

    def histogram(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns a histogram of weights.

        Returns:
            Edges of bins `(n + 1,)` from 0 to 1, of equal width on a
            logarithmic scale above 1e-4, and counts `(H, n)` of visible pairs.
        """
        return BINS.copy(), self._histogram.copy()

    def entropy(self) -> np.ndarray:
        """Returns the mean entropy of a query's weights, in nats, `(H,)`.

        Weights are divided by their sum. Queries without weights do not count.
        """
        return self._entropy / np.maximum(self._rows, 1)

    def mean_distance(self) -> np.ndarray:
        """Returns `sum A |i - j| / sum A`, in tokens, `(H,)`."""
        distances = abs(distances_of(*self.sums.shape[1:]))
        return (self.sums * distances).sum((1, 2)) / self._total()

    def distance_profile(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the average weight at each distance.

        Returns:
            Distances `j - i` of visible pairs `(n,)`, in tokens, and means over
            these pairs `(H, n)`.
        """
        distances = distances_of(*self.sums.shape[1:])
        first = distances.min()
        at = (distances - first).ravel()
        sums, counts = (
            np.stack([np.bincount(at, x.ravel()) for x in tables])
            for tables in (self.sums, self.counts)
        )
        seen = counts.max(0) > 0
        places = np.flatnonzero(seen) + first
        return places, sums[:, seen] / np.maximum(counts[:, seen], 1)

    def window_share(self, window: int) -> np.ndarray:
        """Returns the fraction of the weight at `|i - j| <= window`, `(H,)`.

        Args:
            window: Integer, in tokens.
        """
        near = abs(distances_of(*self.sums.shape[1:])) <= window
        return (self.sums * near).sum((1, 2)) / self._total()

    def first_share(self) -> np.ndarray:
        """Returns the fraction of the weight on the first token, `(H,)`."""
        return self._first / self._total()

    def summary(self, window: int = 2) -> dict[str, float]:
        """Returns a dictionary of means over heads.

        Its keys are the methods `"entropy"`, `"mean_distance"`,
        `"window_share"`, `"first_share"` and `"input_dependence"`.

        Args:
            window: Integer, as for `window_share`.
        """
        numbers = {
            "entropy": self.entropy(),
            "mean_distance": self.mean_distance(),
            "window_share": self.window_share(window),
            "first_share": self.first_share(),
            "input_dependence": self.input_dependence(),
        }
        return {name: float(x.mean()) for name, x in numbers.items()}

    def _total(self):
        return np.maximum(self.sums.sum((1, 2)), 1e-30)


def attention_statistics(
    model: Any,
    data: Any,
    layers: str | Sequence[str] | None = None,
    parts: bool = False,
) -> dict[str, AttentionStatistics]:
    """Returns statistics of a model's attention over a data set.

    Only one batch and the averages `(H, T, S)` of each layer are in memory.
    Keys that no token sees count as padding. The queries of cross-attention are
    those of the previous self-attention.

    Args:
        model: As for `attention_weights`.
        data: The model's inputs: arrays, a dictionary of arrays, or an iterable
            of batches.
        layers: Paths of layers; all by default.
        parts: As for `attention_weights`.

    Returns:
        Dictionary from the paths that `attention_weights` returns to
        `AttentionStatistics`.

    Raises:
        ValueError: If the data have no batch, or as for `attention_weights`.

    Example:

    >>> from keras_synth import analysis, models
    >>> backbone = models.SynthesizerBackbone(
    ...     100, num_layers=2, num_heads=2, hidden_dim=16,
    ...     intermediate_dim=32, synthesizer="R", max_sequence_length=16)
    >>> data = {"token_ids": np.ones((8, 16), "int32"),
    ...         "padding_mask": np.ones((8, 16), "int32")}
    >>> for name, own in analysis.attention_statistics(backbone, data).items():
    ...     print(name, own.input_dependence().round(3))
    encoder_layer_0/self_attention [0. 0.]
    encoder_layer_1/self_attention [0. 0.]
    """
    found: dict[str, AttentionStatistics] = {}

    def add(name: str, seen: CapturedAttention) -> None:
        if name not in found:
            found[name] = AttentionStatistics(seen.weights.shape[1])
        found[name].add(
            seen.weights, seen.query_mask, seen.key_mask, seen.visible
        )

    for inputs in batches(data, model):
        observe(model, inputs, add, layers, parts)
    return found


def _mask(name, given, shape):
    mask = np.ones(shape, bool) if given is None else np.asarray(given, bool)
    if mask.shape != shape:
        raise ValueError(
            f"`{name}` must have the shape {shape}. "
            f"Received: {name}.shape={mask.shape}"
        )
    return mask

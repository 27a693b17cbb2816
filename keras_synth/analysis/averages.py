"""What attention heads do on average, over a corpus."""

import contextlib
from typing import Any

import numpy as np
from keras import ops


class Averages:
    """Sums of the attention weights of one layer, sample by sample.

    Only pairs of real tokens count. A batch at a time is held.

    Args:
        num_heads: Integer, `H`.
        length: Integer, the longest sequence, `N`.
    """

    def __init__(self, num_heads: int, length: int) -> None:
        shape = (num_heads, length, length)
        self._sum, self._squares = np.zeros(shape), np.zeros(shape)
        self._count = np.zeros(shape[1:])

    def add(self, weights: np.ndarray, real: np.ndarray) -> None:
        """Adds a batch.

        Args:
            weights: Array `(B, H, T, T)`.
            real: Boolean array `(B, T)`, False for padding.
        """
        length = weights.shape[-1]
        pairs = real[:, :, None] & real[:, None, :]
        weights = np.where(pairs[:, None], weights, 0.0)
        at = (..., slice(length), slice(length))
        self._sum[at] += weights.sum(0)
        self._squares[at] += (weights**2).sum(0)
        self._count[at] += pairs.sum(0)

    def input_dependence(self) -> np.ndarray:
        """Returns the share of the weights that their average leaves over.

        `sum (A - mean A)^2 / sum A^2` of all pairs and samples: 0 for a head
        that does the same for all inputs, `(H,)`.
        """
        explained = self._sum**2 / np.maximum(self._count, 1)
        total = self._squares.sum((1, 2))
        return 1 - explained.sum((1, 2)) / np.maximum(total, 1e-30)

    def tables(self) -> np.ndarray:
        """Returns the logarithms of the averages, `(H, N, N)`.

        A pair of positions that was never seen takes the average of the
        nearest distance that was.
        """
        seen = self._count > 0
        means = self._sum / np.maximum(self._count, 1)
        length = len(seen)
        at = np.arange(length)
        distances = at[None] - at[:, None] + length - 1
        numbers = np.bincount(distances[seen], minlength=2 * length - 1)
        known = np.flatnonzero(numbers)
        nearest = known[
            np.abs(known[None] - np.arange(2 * length - 1)[:, None]).argmin(1)
        ]
        for mean in means:
            profile = np.bincount(
                distances[seen], mean[seen], minlength=2 * length - 1
            )
            profile = profile[nearest] / numbers[nearest]
            mean[~seen] = profile[distances[~seen]]
        return np.log(np.maximum(means, 1e-9)).astype("float32")


def averages(model: Any, data: Any, length: int) -> list[Averages]:
    """Returns the `Averages` of each block of a backbone.

    Args:
        model: `SynthesizerBackbone`.
        data: Batches of the model's inputs, see `synthesize`.
        length: Integer, the longest sequence, in tokens.

    Raises:
        ValueError: If there is no batch, or one is too long or no dictionary.
    """
    blocks = model.stack.blocks
    found = [Averages(model.num_heads, length) for _ in blocks]
    with contextlib.ExitStack() as stack:
        seen = [
            stack.enter_context(_observed(block.attention)) for block in blocks
        ]
        number = 0
        for inputs in _batches(data):
            real = _checked(inputs, length)
            model(inputs, training=False)
            for own, weights in zip(found, seen, strict=True):
                own.add(weights.pop(), real)
            number += 1
    if not number:
        raise ValueError(
            "Averages need data: dictionaries of token ids and padding mask, "
            f"as the model takes them. Received: no batch in {type(data)}"
        )
    return found


@contextlib.contextmanager
def _observed(attention):
    """Yields a list to which each call adds its weights `(B, H, T, S)`."""
    call, seen = attention._call_flat, []

    def observing(query, value, key, mask, bias, scores, training):
        output, weights = call(query, value, key, mask, bias, True, training)
        seen.append(ops.convert_to_numpy(weights))
        return (output, weights) if scores else output

    attention._call_flat = observing
    try:
        yield seen
    finally:
        del attention._call_flat


def _batches(data, size=32):
    """Dictionaries of arrays: those of an iterable, or parts of one."""
    if not isinstance(data, dict):
        for batch in data:
            yield batch[0] if isinstance(batch, tuple) else batch
        return
    for start in range(0, len(data["token_ids"]), size):
        yield {name: x[start : start + size] for name, x in data.items()}


def _checked(inputs, length):
    """The padding of a batch `(B, T)`, or an error."""
    if not isinstance(inputs, dict) or "padding_mask" not in inputs:
        raise ValueError(
            "Data are the model's inputs, dictionaries of `token_ids` and "
            "`padding_mask`; a preprocessor makes them of texts. Received: a "
            f"batch of {type(inputs).__name__}"
        )
    real = np.asarray(ops.convert_to_numpy(inputs["padding_mask"]), bool)
    if real.shape[1] > length:
        raise ValueError(
            f"The tables hold {length} positions. Cut the sequences, or raise "
            f"`max_length`. Received: {real.shape[1]} tokens"
        )
    return real

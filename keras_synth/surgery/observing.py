"""Batches of a model's inputs, and averages of attention over them."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from keras import ops

from keras_synth.analysis.averages import Averages, distances_of
from keras_synth.surgery.stacks import stacks_of, watch
from keras_synth.types import Tensor

BATCH_SIZE = 32
_STEPS = 200  # of what converges in tens of them


class Sums(Averages):
    """Averages of one block, and the tables that come closest to it.

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

        A pair of positions that was never seen takes the average of the
        nearest distance that was.
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
        """Returns the tables whose weights diverge least from those seen.

        For each row i the logits R that minimise `sum_s KL(A_s[i] ||
        softmax(R[i]))` over all samples s that reach i, the softmax being
        over the keys of the sample. Where all samples are equally long, or
        the mask is causal, that is `log(mean A)`. Where a shorter one lacks
        keys, the mean of a key is that of the longer ones alone, in which
        weight is spread over more of them; this is Luce's choice model, whose
        likelihood rises in each step of

        `w[j] = sum_s A_s[j] / sum_{s: n_s > j} 1 / sum_{l < n_s} w[l]`.

        Pairs that were never seen are as in `tables`.

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
    """Logits `(H, N)` of a row, of sums of weights `(H, N)`.

    Args:
        sums: Array `(H, N)`.
        ending: Array `(N,)`, samples whose last key is this one.
        logits: Array `(H, N)`, where to begin; kept for keys of no sample.
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
    # Only ratios count: keys of no sample stay in proportion.
    before = np.exp(logits[:, :length]).sum(-1, keepdims=True)
    weights *= before / weights.sum(-1, keepdims=True)
    found = logits.copy()
    found[:, :length] = np.log(weights)
    return found


def sums_of(
    model: Any, data: Iterable[dict[str, Any]], tick: Callable[[], Any]
) -> list[Sums]:
    """Returns the `Sums` of each block of a backbone.

    Args:
        model: `SynthesizerBackbone` or `SynthesizerSeq2SeqBackbone`.
        data: Batches of the model's inputs, see `batches`.
        tick: Function to be called after each of them.
    """
    found = [
        Sums(model.num_heads, block.max_length, stack.decoder)
        for stack in stacks_of(model).values()
        for block in stack.blocks
    ]
    for inputs in data:
        for own, seen in zip(found, watch(model, inputs), strict=True):
            own.add(ops.convert_to_numpy(seen.weights), seen.real)
        tick()
    return found


# --- data ---------------------------------------------------------------------


def batches(model: Any, data: Any) -> Iterator[dict[str, Any]]:
    """Yields batches of a model's inputs, checked.

    Args:
        model: `SynthesizerBackbone` or `SynthesizerSeq2SeqBackbone`.
        data: Dictionary of arrays, or an iterable of such, or of tuples that
            begin with one.

    Raises:
        ValueError: If there is none, or one is no dictionary of the model's
            inputs, or has sequences that are too long.
    """
    names = [*model.input]
    empty = True
    for batch in _parts(data, names):
        empty = False
        yield _checked(batch, names, model)
    if empty:
        raise ValueError(
            f"Data must hold a batch: a dictionary of {names}, or several. "
            f"Received: no batch in {type(data).__name__}"
        )


def _parts(data, names):
    if not isinstance(data, dict):
        if isinstance(data, str) or not isinstance(data, Iterable):
            data = [data]
        for batch in data:
            yield batch[0] if isinstance(batch, tuple) else batch
        return
    arrays = _checked(data, names)
    for start in range(0, len(arrays[names[0]]), BATCH_SIZE):
        yield {
            name: x[start : start + BATCH_SIZE] for name, x in arrays.items()
        }


def _checked(batch, names, model=None):
    """The model's inputs among a batch, as arrays, or an error."""
    if not isinstance(batch, dict) or not {*names} <= batch.keys():
        keys = f" of {sorted(batch)}" if isinstance(batch, dict) else ""
        raise ValueError(
            f"Data are the model's inputs, dictionaries of {names}; a "
            "preprocessor makes them of texts. Received: a batch of "
            f"{type(batch).__name__}{keys}"
        )
    arrays = {name: as_array(batch[name]) for name in names}
    shapes = {name: x.shape for name, x in arrays.items()}
    if any(len(shape) != 2 for shape in shapes.values()):
        raise ValueError(
            "A batch has the shape (samples, tokens), padded to one length. "
            f"Received: {shapes}"
        )
    for name, shape in shapes.items() if model is not None else ():
        length = model.max_sequence_length
        if name.startswith("decoder_"):
            length = model.max_decoder_length
        if shape[1] > length:
            raise ValueError(
                f"The tables hold {length} positions. Cut the sequences, or "
                f"raise `max_length`. Received: {shape[1]} tokens"
            )
    return arrays


def as_array(x: Tensor) -> np.ndarray:
    """Returns an array of a tensor of any backend, list or array."""
    plain = isinstance(x, (list, np.ndarray))
    return np.asarray(x if plain else ops.convert_to_numpy(x))


class Split:
    """Keeps every eighth sample apart while batches go by.

    Args:
        data: Batches, see `batches`.
        most: Integer, how many samples to keep at most.

    Attributes:
        kept: List of batches.
    """

    def __init__(self, data: Iterable[dict[str, Any]], most: int = 256) -> None:
        self._data, self._most = data, most
        self.kept: list[dict[str, Any]] = []

    def __iter__(self) -> Iterator[dict[str, Any]]:
        seen = kept = 0
        for batch in self._data:
            size = len(next(iter(batch.values())))
            apart = (np.arange(seen, seen + size) % 8 == 7) & (
                kept < self._most
            )
            seen, kept = seen + size, kept + int(apart.sum())
            if apart.any():
                self.kept.append({k: x[apart] for k, x in batch.items()})
            if not apart.all():
                yield {k: x[~apart] for k, x in batch.items()}


def joined(kept: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns batches of equal length as one."""
    groups: dict[Any, list[dict[str, Any]]] = {}
    for batch in kept:
        shape = tuple(x.shape[1] for x in batch.values())
        groups.setdefault(shape, []).append(batch)
    return [
        {k: np.concatenate([batch[k] for batch in group]) for k in group[0]}
        for group in groups.values()
    ]

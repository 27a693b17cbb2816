"""Synthesizers that are fitted to heads that compare tokens."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_synth import synthesizers
from keras_synth.surgery.observing import watch
from keras_synth.surgery.replacing import Exact
from keras_synth.surgery.sums import Sums
from keras_synth.synthesizers import (
    DenseSynthesizer,
    FactorizedRandomSynthesizer,
    RandomSynthesizer,
    Synthesizer,
)
from keras_synth.types import Identifier, Tensor

# The least number of updates to fit Dense heads, and their rate.
STEPS = 600
RATE = 0.01
_SAMPLES = 8  # of an update
# For the factors of FR.
_FACTOR_STEPS = 150
_FACTOR_RATE = 0.05

# Weights of the heads, and the axis that counts heads.
_AXES = {
    "R": 0,
    "R1": 0,
    "R2": 0,
    "W2": 1,
    "W_a": 0,
    "b2": 0,
    "hidden.kernel": 1,
    "hidden.bias": 0,
}


class Fitted(NamedTuple):
    """Heads of one block.

    Fields:
        heads: List of their numbers.
        weights: Dictionary of arrays, heads first.
    """

    heads: list[int]
    weights: dict[str, np.ndarray]

    def put(self, synthesizer: Synthesizer, heads: Sequence[int]) -> None:
        """Assigns the weights of some heads to a synthesizer.

        Args:
            synthesizer: `Synthesizer`, built.
            heads: Their numbers, in the order of the synthesizer.
        """
        at = [self.heads.index(head) for head in heads]
        for name, weight in _weights(synthesizer).items():
            weight.assign(np.moveaxis(self.weights[name][at], 0, _AXES[name]))


def checked_kind(to: Identifier, source: Exact) -> type:
    """Returns the class of an identifier, which heads are fitted to.

    Raises:
        ValueError: If heads cannot be fitted to it.
    """
    made = _made(to, 1, source.places[0]) if isinstance(to, str) else None
    shared = getattr(made, "shared_heads", False)
    if type(made) not in _FITS or shared:
        raise ValueError(
            '`to` must be "R", "FR(rank=...)" or "D", optionally with options '
            "except shared_heads. Others cannot be fitted to the weights of a "
            f"head. Received: to={to!r}"
        )
    return type(made)


def fit(
    to: str,
    source: Exact,
    chosen: list[list[int]],
    sums: list[Sums],
    data: Callable[[], Any],
    progress: Callable[[int], Any],
) -> list[Fitted]:
    """Fits heads of another kind to the chosen ones of each place.

    `progress` takes a number of steps and returns a function to call after
    each step.
    """
    made = [
        _made(to, len(heads), place) if heads else None
        for heads, place in zip(chosen, source.places, strict=True)
    ]
    kinds = {type(one) for one in made if one is not None}
    for kind in kinds:
        _FITS[kind](made, source, chosen, sums, data, progress)
    return [
        Fitted(
            heads,
            {}
            if one is None
            else {
                name: np.moveaxis(ops.convert_to_numpy(w), _AXES[name], 0)
                for name, w in _weights(one).items()
            },
        )
        for heads, one in zip(chosen, made, strict=True)
    ]


def _made(to, heads, place):
    """A built synthesizer, before its weights are fitted."""
    attention = place.attention
    made = synthesizers.get(
        to,
        num_heads=heads,
        key_dim=attention.key_dim,
        max_length=place.max_length,
        use_bias=attention.use_bias,
        dtype="float32",
    )
    width = attention.synthesizer.query.kernel.shape[0]
    made.build((None, None, width))
    return made


def _weights(synthesizer):
    found = {}
    for name in _AXES:
        owner, _, last = name.rpartition(".")
        part = getattr(synthesizer, owner, None) if owner else synthesizer
        weight = getattr(part, last, None)
        if weight is not None:
            found[name] = weight
    return found


# --- R and FR -----------------------------------------------------------------


def _fit_tables(made, source, chosen, sums, data, progress):
    """Fits tables (R), or their factors (FR), to heads."""
    biases = _biases(source)
    for one, heads, own, place in zip(
        made, chosen, sums, source.places, strict=True
    ):
        if one is None:
            continue
        tables = own.closest_tables()[heads]
        if id(place.holder) in biases:
            tables = tables - biases[id(place.holder)][heads]
        tables = tables / one.gain
        if isinstance(one, RandomSynthesizer):
            one.R.assign(tables)
            continue
        factors = closest_factors(tables, one.rank, own.samples_of_rows())
        for weight, value in zip((one.R1, one.R2), factors, strict=True):
            weight.assign(value)


def closest_factors(
    tables: np.ndarray, rank: int, samples: np.ndarray
) -> list[np.ndarray]:
    """Returns R1 and R2 whose product has the closest weights to a table's.

    Adam minimises the mean of `KL(softmax(R[i]) || softmax((R1 R2^T)[i]))`
    over rows, weighted by their numbers of samples. It begins with the
    truncated singular value decomposition of R. (The decomposition minimises
    the sum of squares, which counts logits of vanishing weights as much as
    others.)

    Args:
        tables: Array `(H, N, N)`, R.
        rank: Integer, `r`.
        samples: Array `(N,)`, the number of samples of each row.

    Returns:
        List of two arrays `(H, N, r)`.
    """
    left, sizes, right = np.linalg.svd(tables, full_matrices=False)
    root = np.sqrt(sizes[:, None, :rank])
    found = [
        left[:, :, :rank] * root,
        np.swapaxes(right[:, :rank], 1, 2) * root,
    ]
    target = _softmax(tables)
    share = (samples + 1) / (samples + 1).mean()
    moments = [np.zeros_like(x) for x in found * 2]
    for t in range(1, _FACTOR_STEPS + 1):
        rows, columns = found
        off = _softmax(rows @ np.swapaxes(columns, 1, 2)) - target
        off *= share[:, None]
        rate = _FACTOR_RATE * (1 + np.cos(np.pi * t / _FACTOR_STEPS)) / 2
        for i, slope in enumerate((off @ columns, off.swapaxes(1, 2) @ rows)):
            first, second = moments[i], moments[i + 2]
            first += 0.1 * (slope - first)
            second += 0.001 * (slope**2 - second)
            size = np.sqrt(second / (1 - 0.999**t)) + 1e-8
            found[i] = found[i] - rate * first / (1 - 0.9**t) / size
    rest = [(0, 0), (0, 0), (0, max(0, rank - tables.shape[-1]))]
    return [np.pad(x, rest).astype("float32") for x in found]


def _softmax(logits):
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def _biases(source):
    """The biases of T5's logits, `(H, N, N)`, by the `id` of blocks."""
    backbone = getattr(source.model, "backbone", source.model)
    found = {}
    for name in ("stack", "encoder", "decoder"):
        stack = getattr(backbone, name, None)
        if getattr(stack, "position_bias", None) is not None:
            x = ops.zeros((1, stack.blocks[0].max_length, 1))
            bias = ops.convert_to_numpy(stack.position_bias(x))[0]
            found |= {id(block): bias for block in stack.blocks}
    return found


# --- D ------------------------------------------------------------------------


class _Rows(keras.Model):
    """Logits of one synthesizer, to be trained on rows of weights."""

    def __init__(self, synthesizer: Synthesizer) -> None:
        super().__init__(name="rows")  # TensorFlow does not accept "_"
        self.synthesizer = synthesizer

    def call(self, inputs: dict[str, Tensor]) -> Tensor:
        logits = self.synthesizer(inputs["x"]).materialize() + inputs["bias"]
        return ops.where(inputs["visible"], logits, -1e9)


def _fit_dense(made, source, chosen, sums, data, progress):
    """Trains Dense heads on the rows of the model's weights.

    Adam minimises the mean over rows of real tokens of
    `KL(A[i] || softmax(S(x_i)))`, where x is the input of attention.
    """
    sizes = [len(next(iter(batch.values()))) for batch in data()]
    updates = sum(-(-size // _SAMPLES) for size in sizes)
    passes = -(-STEPS // updates)
    schedule = keras.optimizers.schedules.CosineDecay(RATE, updates * passes)
    fits = {i: _Rows(one) for i, one in enumerate(made) if one is not None}
    for rows in fits.values():
        rows.compile(
            optimizer=keras.optimizers.Adam(schedule),
            loss=keras.losses.CategoricalCrossentropy(
                from_logits=True, reduction="mean_with_sample_weight"
            ),
        )
    tick = progress(len(sizes) * passes)
    seen: list = []  # trained where gradients are computed

    def keep(i, one):
        if i in fits:
            seen.append((fits[i], _rows_of(one, chosen[i])))

    for _ in range(passes):
        for inputs in data():
            watch(source, inputs, keep)
            for rows, own in seen:
                _train(rows, *own)
            seen.clear()
            tick()


def _train(rows, inputs, targets, real):
    for start in range(0, len(targets), _SAMPLES):
        at = slice(start, start + _SAMPLES)
        rows.train_on_batch(
            {name: x[at] for name, x in inputs.items()}, targets[at], real[at]
        )


def _rows_of(seen, heads):
    """Inputs, targets `(B, h, T, T)` and their weights `(B, h, T)`."""
    weights = seen.weights[:, heads]
    visible = seen.visible
    visible = visible[:, heads] if visible.shape[1] > 1 else visible
    bias = np.zeros((1, 1, 1, 1), "float32")
    if seen.bias is not None:
        bias = ops.convert_to_numpy(seen.bias)
        bias = bias[:, heads] if bias.shape[1] > 1 else bias
    batch = len(weights)
    inputs = {
        "x": ops.convert_to_numpy(seen.x).astype("float32"),
        "visible": np.broadcast_to(visible, (batch, *visible.shape[1:])),
        "bias": np.broadcast_to(bias, (batch, *bias.shape[1:])),
    }
    real = np.broadcast_to(seen.real[:, None], weights.shape[:-1])
    return inputs, weights.astype("float32"), real.astype("float32")


_FITS = {
    RandomSynthesizer: _fit_tables,
    FactorizedRandomSynthesizer: _fit_tables,
    DenseSynthesizer: _fit_dense,
}

"""Synthesizers that are fitted to heads that compare tokens."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_synth import synthesizers
from keras_synth.analysis.averages import Averages, distances_of
from keras_synth.surgery.observing import watch
from keras_synth.surgery.replacing import Exact
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
_KINDS = RandomSynthesizer, FactorizedRandomSynthesizer, DenseSynthesizer


def checked_kind(to: Identifier, source: Exact) -> type:
    """Returns the class of an identifier, or raises for other classes."""
    made = _made(to, 1, source.places[0]) if isinstance(to, str) else None
    shared = getattr(made, "shared_heads", False)
    if type(made) not in _KINDS or shared:
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
    averages: list[Averages],
    data: Callable[[], Any],
) -> list[Any]:
    """Returns a synthesizer of each place, fitted to its chosen heads.

    It is `None` in places without such heads.
    """
    made = [
        _made(to, len(heads), place) if heads else None
        for heads, place in zip(chosen, source.places, strict=True)
    ]
    if any(isinstance(one, DenseSynthesizer) for one in made):
        _fit_dense(made, source, chosen, data)
    else:
        _fit_tables(made, source, chosen, averages)
    return made


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


# --- R and FR -----------------------------------------------------------------


def _fit_tables(made, source, chosen, averages):
    """Fits tables (R), or their factors (FR), to heads."""
    biases = _biases(source)
    for one, heads, own, place in zip(
        made, chosen, averages, source.places, strict=True
    ):
        if one is None:
            continue
        tables = table_of(own)[heads]
        if id(place.holder) in biases:
            tables = tables - biases[id(place.holder)][heads]
        tables = tables / one.gain
        if isinstance(one, RandomSynthesizer):
            one.R.assign(tables)
            continue
        left, sizes, right = np.linalg.svd(tables, full_matrices=False)
        root = np.sqrt(sizes)[:, None]
        rest = [(0, 0), (0, 0), (0, max(0, one.rank - sizes.shape[1]))]
        for weight, factor in (
            (one.R1, left * root),
            (one.R2, right.swapaxes(1, 2) * root),
        ):
            weight.assign(np.pad(factor[..., : one.rank], rest))


def table_of(averages: Averages) -> np.ndarray:
    """Returns the logarithms of averages, `(H, N, N)`.

    A pair of positions without samples gets the average of the nearest
    distance with samples.
    """
    seen = averages.counts[0] > 0
    means = averages.averages()
    distances = distances_of(*seen.shape)
    at = distances - distances.min()
    size = at.max() + 1
    numbers = np.bincount(at[seen], minlength=size)
    known = np.flatnonzero(numbers)
    nearest = known[np.abs(known[None] - np.arange(size)[:, None]).argmin(1)]
    for mean in means:
        profile = np.bincount(at[seen], mean[seen], minlength=size)
        profile = profile[nearest] / numbers[nearest]
        mean[~seen] = profile[at[~seen]]
    return np.log(np.maximum(means, 1e-9)).astype("float32")


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


def _fit_dense(made, source, chosen, data):
    """Trains Dense heads on the rows of the model's weights.

    Adam minimises the mean over rows of real tokens of
    `KL(A[i] || softmax(S(x_i)))`, where x is the input of attention.
    """
    sizes = [len(keras.tree.flatten(batch)[0]) for batch in data()]
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
    seen: list = []  # trained where gradients are computed

    def keep(i, call, captured):
        if i in fits:
            seen.append((fits[i], _rows_of(call, captured, chosen[i])))

    for _ in range(passes):
        for inputs in data():
            watch(source, inputs, keep)
            for rows, own in seen:
                _train(rows, *own)
            seen.clear()


def _train(rows, inputs, targets, real):
    for start in range(0, len(targets), _SAMPLES):
        at = slice(start, start + _SAMPLES)
        rows.train_on_batch(
            {name: x[at] for name, x in inputs.items()}, targets[at], real[at]
        )


def _rows_of(call, captured, heads):
    """Inputs, targets `(B, h, T, T)` and their weights `(B, h, T)`."""
    weights = captured.weights[:, heads]
    visible = captured.visible
    visible = visible[:, heads] if visible.shape[1] > 1 else visible
    bias = np.zeros((1, 1, 1, 1), "float32")
    if call.bias is not None:
        bias = ops.convert_to_numpy(call.bias)
        bias = bias[:, heads] if bias.shape[1] > 1 else bias
    x = ops.convert_to_numpy(call.query).astype("float32")
    real = captured.query_mask
    inputs = {
        "x": np.where(real[..., None], x, 0.0),  # padding can be NaN
        "visible": visible,
        "bias": np.broadcast_to(bias, (len(weights), *bias.shape[1:])),
    }
    real = np.broadcast_to(real[:, None], weights.shape[:-1])
    targets = np.where(real[..., None], weights, 0.0)
    return inputs, targets, real.astype("float32")

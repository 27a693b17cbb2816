"""`folded_synthesizer`: synthesizers for inference."""

import functools
import tempfile
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from keras import ops

from keras_synth._backend.distributions import MODEL
from keras_synth._backend.internals import sublayers
from keras_synth.attention.positions import shortest
from keras_synth.folding.table import TableSynthesizer
from keras_synth.synthesizers import (
    AdditiveSynthesizer,
    DenseSynthesizer,
    DotProductSynthesizer,
    FactorizedDenseSynthesizer,
    HeadGroupsSynthesizer,
    LocalDenseSynthesizer,
    MixtureSynthesizer,
    Synthesizer,
)
from keras_synth.types import Tensor

# Masks may leave only the smallest weight of a row. Rows whose logits span more
# stay logits, because their weights could underflow in float32.
STEEP = 46.0


class Folded(NamedTuple):
    """A synthesizer for inference, and a function that sets its weights."""

    synthesizer: Synthesizer
    fill: Callable[[Any], None]


def fold_synthesizer(
    synthesizer: Synthesizer, max_length: int | None, softmax: bool = True
) -> Folded:
    """Returns a synthesizer with equal logits for inference.

    With `softmax`, nothing is added to its logits.
    """
    parts = [synthesizer, *sublayers(synthesizer)]
    parts = [x for x in parts if isinstance(x, Synthesizer)]
    bounds = [x.max_length for x in parts if x.long_inputs == "error"]
    max_length = shortest(max_length, *bounds)
    if max_length is None:
        max_length = synthesizer.max_length  # of a table that is tiled
    if max_length is None and not all(x.reads_tokens for x in parts):
        raise ValueError(
            "Folding needs a maximum length. Specify the length of the longest "
            "sequence, as in fold(model, max_length=512). Received: "
            f"max_length=None for {synthesizer!r}"
        )
    if not synthesizer.reads_tokens:
        return _as_table(synthesizer, max_length, softmax)
    if not isinstance(synthesizer, HeadGroupsSynthesizer):
        return form_of(synthesizer, folded_synthesizer)(synthesizer, max_length)
    groups = [
        fold_synthesizer(group, max_length, softmax)
        for group in synthesizer.synthesizers
    ]
    return _whole(HeadGroupsSynthesizer, groups, synthesizer)


def form_of(layer: Any, forms: Any) -> Callable[..., Any]:
    """Returns the function that is registered for a layer's class itself.

    A derived class can compute something else than its base. If no function is
    registered for it, it has the default, not that of its base.
    """
    return forms.registry.get(type(layer), forms.registry[object])


@functools.singledispatch
def folded_synthesizer(
    synthesizer: Tensor,
    max_length: int | None,
    scale: Tensor | None = None,
) -> Folded | None:
    """Returns a synthesizer that reads tokens in its form for inference.

    By default, it is a synthesizer with the same config and weights. Register
    a function for a custom class with a better form, and derived classes
    separately. Synthesizers that read no token become tables.

    Args:
        synthesizer: `Synthesizer` with weights.
        max_length: Integer, the length of the longest sequence, in tokens;
            `None` if no part has a maximum.
        scale: Optional array `(H,)` that multiplies the logits: the alphas of
            a mixture.

    Returns:
        A pair of a synthesizer that is not built yet, and a function of it that
        sets its weights; `None` if its weights cannot include the scale.

    Example:

    >>> class Scaled(keras_synth.synthesizers.DotProductSynthesizer):
    ...     pass
    >>> @keras_synth.folding.folded_synthesizer.register(Scaled)
    ... def fold_scaled(synthesizer, max_length, scale=None):
    ...     return None  # mixtures keep their alphas
    """
    return None if scale is not None else _copy(synthesizer)


def _copy(synthesizer, scale=None, names=(), **config):
    """A synthesizer with another config; a scale `(H,)` multiplies weights."""
    made = type(synthesizer).from_config({**synthesizer.get_config(), **config})

    def fill(target):
        copy_variables(synthesizer, target)
        for name in names if scale is not None else ():
            weight = functools.reduce(getattr, name.split("/"), target)
            if weight is not None:
                shape = [1] * len(weight.shape)
                shape[target.weight_axes[name].index(MODEL)] = -1
                weight.assign(weight * scale.reshape(shape))

    return Folded(made, fill)


@folded_synthesizer.register(DotProductSynthesizer)
def _dot_product(synthesizer, max_length, scale=None):
    # Keys, because others may share the queries, unless heads share keys.
    name = "query" if _shares_keys(synthesizer) else "key"
    is_quantized = getattr(synthesizer, name).quantization_mode is not None
    if scale is not None and is_quantized:
        return None
    return _copy(synthesizer, scale, (f"{name}/kernel", f"{name}/bias"))


def _shares_keys(synthesizer):
    own = synthesizer.num_key_value_heads
    return own not in (None, synthesizer.num_heads)


@folded_synthesizer.register(AdditiveSynthesizer)
@folded_synthesizer.register(DenseSynthesizer)
@folded_synthesizer.register(FactorizedDenseSynthesizer)
@folded_synthesizer.register(LocalDenseSynthesizer)
def _of_last_weights(synthesizer, max_length, scale=None):
    """Logits are linear in the last weights."""
    config, own = {}, synthesizer.max_length
    if None not in (own, max_length) and max_length < own:
        config = {"max_length": max_length, "long_inputs": "error"}
        if isinstance(synthesizer, FactorizedDenseSynthesizer):
            b = synthesizer.factors[1]
            config["factors"] = [-(-max_length // b), b]
    if scale is not None and isinstance(synthesizer, DenseSynthesizer):
        config["shared_heads"] = False  # the scales of heads may differ
    return _copy(synthesizer, scale, synthesizer.last_weights, **config)


@folded_synthesizer.register(MixtureSynthesizer)
def _mixture(synthesizer, max_length, scale=None):
    """A sum of a table and parts with alphas, if all can include them."""
    folded, table, needs_float32 = [], None, False
    for part, alpha in zip(
        synthesizer.synthesizers, synthesizer.shares(), strict=True
    ):
        share = np.ones(part.num_heads, "float32") if scale is None else scale
        if alpha is not None:
            share = share * ops.convert_to_numpy(alpha)
        if part.reads_tokens:
            form = form_of(part, folded_synthesizer)
            folded.append(form(part, max_length, share))
        else:
            logits = constant_logits(part, max_length, max_length)
            logits = logits * share[:, None, None]
            table = logits if table is None else table + logits
            needs_float32 |= part.needs_float32
    shared = synthesizer.share_queries and _shares_keys(synthesizer)
    if None in folded or shared:
        return None if scale is not None else _copy(synthesizer)
    if table is not None:
        folded.insert(
            0, _table(synthesizer, table, "table", needs_float32=needs_float32)
        )
    return _whole(
        MixtureSynthesizer,
        folded,
        synthesizer,
        alphas_initializer=None,
        share_queries=synthesizer.share_queries,
    )


def _whole(cls, folded, synthesizer, **options):
    """A synthesizer of several parts that replaces another."""
    parts, fills = zip(*folded, strict=True)

    def fill(target):
        for fill, part in zip(fills, target.synthesizers, strict=True):
            fill(part)

    name, dtype = synthesizer.name, synthesizer.dtype_policy
    return Folded(cls(parts, name=name, dtype=dtype, **options), fill)


def _as_table(synthesizer, max_length, softmax):
    logits = constant_logits(synthesizer, max_length, max_length)
    _check_positions(synthesizer, logits)
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    softmaxed = bool(softmax and np.ptp(logits, axis=-1).max() < STEEP)
    tiles = max_length == synthesizer.max_length
    return _table(
        synthesizer,
        weights if softmaxed else logits,
        synthesizer.name,
        softmaxed=softmaxed,
        long_inputs=synthesizer.long_inputs if tiles else "error",
        needs_float32=synthesizer.needs_float32,
    )


def _table(synthesizer, values, name, **options):
    heads, length, _ = values.shape
    dtype = synthesizer.dtype_policy
    made = TableSynthesizer(heads, length, name=name, dtype=dtype, **options)
    return Folded(made, lambda target: target.table.assign(values))


def constant_logits(synthesizer, rows, columns):
    """Logits without tokens, float32 `(H, rows, columns)`."""
    query = ops.zeros((1, rows, 1))
    logits = synthesizer(query, length=columns).materialize()
    shape = (synthesizer.num_heads, rows, columns)
    return np.broadcast_to(ops.convert_to_numpy(logits)[0], shape)


def _check_positions(synthesizer, logits):
    """Raises unless shorter sequences have the same logits, up to the rows'."""
    half = max(1, logits.shape[1] // 2)
    change = constant_logits(synthesizer, half, half)
    change = change - logits[:, :half, :half]
    if np.ptp(change, axis=-1).max() > 1e-3:
        raise ValueError(
            "To fold a synthesizer that reads no token, it must have the same "
            "table of positions for sequences of all lengths. Set "
            "`reads_tokens = True` in its class to keep it unchanged. "
            f"Received: {synthesizer!r}"
        )


# --- weights ------------------------------------------------------------------


def copy_variables(source, target, instead=None):
    """Copies the variables of a layer to one with the same parts.

    The values include changes by LoRA, like those in files. A table longer
    than the target's is cut. An axis of length 1 is repeated. `instead` is a
    function of a layer and its counterpart that returns whether it has copied
    their variables itself.
    """
    seen = set()

    def copy(source, target):
        if id(source) in seen:
            return
        seen.add(id(source))
        if instead is not None and instead(source, target):
            return
        store, room = {}, {}
        source.save_own_variables(store)
        target.save_own_variables(room)
        fitted = {k: _fitted(x, room[k].shape) for k, x in store.items()}
        target.load_own_variables(fitted)
        parts = (sublayers(x, recursive=False) for x in (source, target))
        for pair in zip(*parts, strict=True):
            copy(*pair)

    copy(source, target)


def _fitted(value, shape):
    # As an array: JAX would share its memory, which training frees.
    value = ops.convert_to_numpy(value)
    return np.broadcast_to(value[tuple(map(slice, shape))], shape)


def copy_vocabulary(source, target):
    """Copies what a lookup layer has learned, which is not a weight."""
    if hasattr(source, "adapt") and hasattr(source, "save_assets"):
        with tempfile.TemporaryDirectory() as folder:
            source.save_assets(folder)
            target.load_assets(folder)

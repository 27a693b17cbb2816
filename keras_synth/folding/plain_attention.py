"""Plain forms of attention, and common code of mixers."""

import functools
import inspect
import math
from collections.abc import Callable

import keras
import numpy as np
from keras import ops

from keras_synth._backend.internals import keras_mask
from keras_synth._backend.tensors import heads_first, product
from keras_synth.attention import normalizers
from keras_synth.attention.masks import AttentionMask, both
from keras_synth.attention.projections import repeated_heads
from keras_synth.folding.plain import plain_layer
from keras_synth.folding.synthesizers import STEEP
from keras_synth.mixers import SyntheticAttention
from keras_synth.mixers.call import Call, is_padding
from keras_synth.mixers.mixer import Mixer
from keras_synth.types import Tensor


def called(mixer: Mixer, mix: Callable[[Call], Tensor]) -> Callable:
    """Returns a function with the arguments of a mixer's call.

    `mix` is a function of a `Call` whose padding masks are floats, 0 or 1.
    """
    signature = inspect.signature(Mixer.call)

    def call(*args, **kwargs):
        bound = signature.bind(mixer, *args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        query, value, key = (given[x] for x in ("query", "value", "key"))
        source = query if value is None else value
        key = source if key is None else key
        known = None not in (*query.shape[1:], *source.shape[1:])
        with_scores = given["return_attention_scores"]
        if with_scores or not known or len(query.shape) != 3:
            raise ValueError(
                "A plain mixer needs tensors (batch, length, features) of "
                "known length, and returns no attention scores. Received: "
                f"query.shape={query.shape} at {mixer.path}, "
                f"return_attention_scores={with_scores}"
            )
        tensors = {"query": query, "value": source, "key": key}
        of_query, *of_source = (  # like Keras for layers
            keras_mask(x)
            if given[f"{name}_mask"] is None
            else given[f"{name}_mask"]
            for name, x in tensors.items()
        )
        if value is None:
            of_source.append(given["mask"])
        pairs, bias = given["attention_mask"], given["attention_bias"]
        if is_padding(pairs, query):
            axes = tuple(range(1, len(pairs.shape) - 1))
            of_source.append(ops.squeeze(pairs, axes))
            pairs = None
        if pairs is not None:  # (T, S), (B, T, S) or (B, H, T, S)
            pairs = pairs[None, None] if len(pairs.shape) == 2 else pairs
            pairs = pairs[:, None] if len(pairs.shape) == 3 else pairs
            pairs = ops.cast(pairs, "bool")
        if bias is not None:
            bias = bias[(None,) * (4 - len(bias.shape))]
        masks = AttentionMask(
            queries=_as_numbers(of_query, given["mask"]),
            keys=_as_numbers(*of_source),
            pairs=pairs,
            causal=bool(given["use_causal_mask"]),
        )
        return mix(Call(*map(_unmasked, tensors.values()), masks, bias))

    return call


def _unmasked(x):
    """The same without the mask of Keras: `EinsumDense` warns of it."""
    return x if keras_mask(x) is None else x * 1.0


def _as_numbers(*masks):
    """The conjunction of padding masks as 0 and 1, or `None`."""
    given = {id(mask): mask for mask in masks if mask is not None}
    numbers = [ops.cast(ops.cast(x, "bool"), "float32") for x in given.values()]
    return functools.reduce(ops.multiply, numbers) if numbers else None


def zero_padding(x, mask):
    """`x` `(B, T, ...)`, zero where a mask `(B, T)`, if any, is 0."""
    if mask is None:
        return x
    return x * ops.reshape(mask, (-1, x.shape[1], *[1] * (len(x.shape) - 2)))


def with_ones(x):
    """A tensor with one more feature, which is 1."""
    widths = [[0, 0]] * (len(x.shape) - 1) + [[0, 1]]
    return ops.pad(x, widths, constant_values=1.0)


def nonzero(graph, sums):
    """Sums of weights plus 1e-30, so that 0 / 0 = 0.

    That is far below every sum that is not zero. As a number instead of a
    tensor, PyTorch's ONNX exporter would leave it out. LiteRT would round a
    maximum, or a choice of two values, to another scale.
    """
    return sums + graph.constant(np.full([1] * len(sums.shape), 1e-30))


def along_tokens(graph, matrices, x, bias=None):
    """`A x`, for each feature or head: `(B, T, d)` or `(B, T, H, v)`.

    Matrices are `(T, S)` or `(H, T, S)`, an optional bias `(T,)`. The
    `EinsumDense` is one over the last axis, between two `Permute`: over the
    second one, ONNX Runtime takes up to four times as long.
    """
    last = len(x.shape) - 1
    equation = "bds,st->bdt" if last == 2 else "bhvs,hst->bhvt"
    if bias is not None:
        bias = np.reshape(bias, [1] * last + [-1])
    x = keras.layers.Permute((*range(2, last + 1), 1))(x)
    y = graph.product(equation, x, np.swapaxes(matrices, -1, -2), bias)
    return keras.layers.Permute((last, *range(1, last)))(y)


def weighted(weights, values):
    """`A V`, `(B, T, H, v)`, for weights `(B, H, T, S)`, `(B, S, H, v)`."""
    return heads_first(product(weights, heads_first(values)))


def means(graph, sums):
    """Sums divided by the last of their features, a sum of ones; 0 / 0 = 0."""
    width = sums.shape[-1] - 1
    return sums[..., :width] / nonzero(graph, sums[..., width:])


# --- attention ----------------------------------------------------------------


@plain_layer.register(SyntheticAttention)
def _attention(layer, graph):
    def mix(call):
        values = graph.call(layer.value, call.value)
        values = repeated_heads(values, layer.num_heads)
        groups = layer.synthesizer.head_groups()
        masks = layer._groups.masks(layer._limited(call.mask))
        contexts = []
        for group, heads, mask in zip(
            groups, layer._groups.heads, masks, strict=True
        ):
            own_values, bias = values, call.bias
            if len(groups) > 1:
                own_values = values[:, :, heads]
                if bias is not None and bias.shape[1] > 1:
                    bias = bias[:, heads]
            terms = graph.call(group, call.query, call.key)
            contexts.append(
                attend(graph, terms, own_values, mask, bias, layer.normalizer)
            )
        context = contexts[0]
        if len(contexts) > 1:
            context = ops.concatenate(contexts, axis=2)
        if layer.gate is not None:
            context = context * graph.call(layer.gate, call.query)
        context = zero_padding(context, call.mask.queries)
        return graph.call(layer.attention_output, context)

    return called(layer, mix)


def attend(
    graph, terms, values, mask, bias=None, normalizer=normalizers.SOFTMAX
):
    """Returns the context `(B, T, H, v)`.

    The logits are the sum of the terms, tensors `(B, H, T, S)` and arrays
    `(H, T, S)`, and the bias.
    """
    if bias is not None:
        fixed = isinstance(bias, np.ndarray) and bias.shape[0] == 1
        terms = [*terms, bias[0] if fixed else bias]
    allowed = None
    if mask.has_pattern:
        limits = mask._replace(keys=None, pairs=None)
        limits = limits.with_pairs(*terms[0].shape[-2:]).pairs
        allowed = ops.convert_to_numpy(limits)[0, 0]
    tables = [x for x in terms if isinstance(x, np.ndarray)]
    tensors = [x for x in terms if not isinstance(x, np.ndarray)]
    table = sum(tables) if tables else None
    if not tensors and mask.pairs is None:
        weights = _table(table, allowed, normalizer, mask.keys is not None)
        if weights is not None:
            return _by_table(graph, weights, values, mask.keys)
    if tables:
        tensors.append(graph.constant(table[None]))
    logits = functools.reduce(ops.add, tensors)
    pairs, keys = mask.pairs, mask.keys
    if allowed is not None and not allowed.all():
        pairs = both(pairs, graph.constant(allowed[None, None]) > 0.5)
    seen = pairs if keys is None else both(pairs, keys[:, None, None] > 0.5)
    weights = _normalized(graph, normalizer, logits, seen)
    if pairs is not None:
        weights = weights * ops.cast(pairs, "float32")
    return weighted(weights, zero_padding(values, keys))


def _table(logits, allowed, normalizer, padded):
    """The same weights for all samples, `(H, T, S)`, or `None`."""
    seen = np.ones(logits.shape[1:], bool) if allowed is None else allowed
    if padded:
        top = np.where(seen, logits, -np.inf).max(axis=-1, keepdims=True)
        steep = np.any(seen & (logits < top - STEEP))
        if steep or normalizer != normalizers.SOFTMAX:
            return None
    count = np.maximum(seen.sum(axis=-1, keepdims=True), 1)
    weights = normalizers.normalized(
        normalizer,
        ops.convert_to_tensor(logits, "float32"),
        ops.convert_to_tensor(seen),
        ops.convert_to_tensor(count, "float32"),
    )
    return ops.convert_to_numpy(weights) * seen


def _by_table(graph, table, values, keys):
    """`A V`, or `A (m V) / (A m)`: the mask is one more feature."""
    if keys is None:
        return along_tokens(graph, table, values)
    values = zero_padding(with_ones(values), keys)
    # Both sums are zero for a row without visible keys.
    return means(graph, along_tokens(graph, table, values))


def _normalized(graph, normalizer, scores, seen):
    """Returns weights `(B, H, T, S)`, almost zero for hidden pairs.

    The logits of hidden pairs are just below the least of the sample, so that
    they change no other weight by more than 1e-7. A number such as -1e30 would
    stretch the scale of integers to which a converter rounds logits.
    """
    if not (normalizer.sums or normalizer.elementwise):
        raise ValueError(
            "A normalizer of a plain model must divide by the sum of a row, or "
            f"compute each weight separately. Received: {normalizer!r}"
        )
    length = scores.shape[-1]
    if seen is None:
        count = graph.constant([[length]]) if normalizer.counts else None
        return normalizer.weights(scores, count)
    count = None
    if normalizer.counts:
        count = ops.sum(ops.cast(seen, "float32"), axis=-1, keepdims=True)
        count = ops.maximum(count, 1.0)
    least = ops.amin(scores, axis=(1, 2, 3), keepdims=True)
    scores = ops.where(seen, scores, least - (16.0 + math.log(length)))
    return normalizer.weights(scores, count)

"""Plain forms of attention, and common code of mixers."""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from keras import ops

from keras_synth._backend.internals import keras_mask
from keras_synth.attention import normalizers
from keras_synth.attention.masks import AttentionMask
from keras_synth.attention.patterns import Window
from keras_synth.attention.projections import repeated_heads
from keras_synth.folding.plain import plain_layer
from keras_synth.mixers import SyntheticAttention
from keras_synth.mixers.call import is_padding
from keras_synth.mixers.mixer import Mixer
from keras_synth.types import Tensor

# Rows with a larger span of logits do not become a table of weights.
STEEP = 46.0
# Far below every nonzero sum of weights.
LEAST = 1e-30


class Call(NamedTuple):
    """The arguments of a mixer in a plain graph.

    Fields:
        query: Tensor `(B, T, d)`.
        value: Tensor `(B, S, d)`.
        key: Tensor `(B, S, d)`.
        queries: Float tensor `(B, T)`, 0 for padding, or `None`.
        keys: Float tensor `(B, S)`, 0 for padding, or `None`.
        pairs: Boolean tensor `(B or 1, H or 1, T, S)`, or `None`.
        bias: Tensor or array `(B or 1, H or 1, T, S)`, or `None`.
        causal: Whether no token sees a later one.
    """

    query: Tensor
    value: Tensor
    key: Tensor
    queries: Tensor
    keys: Tensor
    pairs: Tensor
    bias: Tensor
    causal: bool

    @property
    def lengths(self):
        """`(T, S)`."""
        return self.query.shape[1], self.value.shape[1]


def called(mixer: Mixer, mix: Callable[[Call], Tensor]) -> Callable:
    """Returns a function with the arguments of a mixer's call.

    Args:
        mixer: The mixer.
        mix: Function of a `Call` that returns a tensor `(B, T, d)`.
    """

    def call(
        query,
        value=None,
        key=None,
        mask=None,
        query_mask=None,
        value_mask=None,
        key_mask=None,
        attention_mask=None,
        attention_bias=None,
        use_causal_mask=False,
        return_attention_scores=False,
        training=None,
    ):
        source = query if value is None else value
        key = source if key is None else key
        # Like Keras for layers.
        if query_mask is None:
            query_mask = keras_mask(query)
        if value_mask is None:
            value_mask = keras_mask(source)
        if key_mask is None:
            key_mask = keras_mask(key)
        known = None not in (*query.shape[1:], *source.shape[1:])
        if return_attention_scores or not known or len(query.shape) != 3:
            raise ValueError(
                "A plain mixer needs tensors (batch, length, features) of "
                "known length, and returns no attention scores. Received: "
                f"query.shape={query.shape} at {mixer.path}, "
                f"return_attention_scores={return_attention_scores}"
            )
        of_source = [value_mask, key_mask, mask if value is None else None]
        if is_padding(attention_mask, query):
            axes = tuple(range(1, len(attention_mask.shape) - 1))
            of_source.append(ops.squeeze(attention_mask, axes))
            attention_mask = None
        pairs = _of_pairs(attention_mask)
        return mix(
            Call(
                *map(_unmasked, (query, source, key)),
                queries=_as_numbers(query_mask, mask),
                keys=_as_numbers(*of_source),
                pairs=None if pairs is None else ops.cast(pairs, "bool"),
                bias=_of_pairs(attention_bias),
                causal=bool(use_causal_mask),
            )
        )

    return call


def _unmasked(x):
    """The same without the mask of Keras: `EinsumDense` warns of it."""
    return x if keras_mask(x) is None else x * 1.0


def _as_numbers(*masks):
    """The conjunction of padding masks as 0 and 1, or `None`."""
    given = {id(mask): mask for mask in masks if mask is not None}
    numbers = [ops.cast(ops.cast(x, "bool"), "float32") for x in given.values()]
    return functools.reduce(ops.multiply, numbers) if numbers else None


def _of_pairs(x):
    """`(T, S)`, `(B, T, S)` or `(B, H, T, S)` with four axes."""
    if x is not None and len(x.shape) == 2:
        return x[None, None]
    return x if x is None or len(x.shape) == 4 else x[:, None]


def zero_padding(x, mask):
    """`x` `(B, T, ...)`, zero where a mask `(B, T)`, if any, is 0."""
    if mask is None:
        return x
    return x * ops.reshape(mask, (-1, x.shape[1], *[1] * (len(x.shape) - 2)))


def with_ones(x):
    """A tensor with one more feature, which is 1."""
    widths = [[0, 0]] * (len(x.shape) - 1) + [[0, 1]]
    return ops.pad(x, widths, constant_values=1.0)


def means(sums, least=LEAST):
    """Sums divided by the last of their features, a sum of ones, or 0 / 0 = 0.

    `least` is added, because LiteRT rounds a maximum with it to another scale.
    """
    width = sums.shape[-1] - 1
    return sums[..., :width] / (sums[..., width:] + least)


# --- attention ----------------------------------------------------------------


@plain_layer.register(SyntheticAttention)
def _attention(layer, graph):
    def of_heads(x, heads):
        return x if x is None or x.shape[1] == 1 else x[:, heads]

    def mix(call):
        values = graph.call(layer.value, call.value)
        values = repeated_heads(values, layer.num_heads)
        contexts, first = [], 0
        for group in layer.synthesizer.head_groups():
            heads = slice(first, first + group.num_heads)
            first = heads.stop
            own, own_values = call, values
            if group is not layer.synthesizer:
                own_values = values[:, :, heads]
                own = call._replace(
                    pairs=of_heads(call.pairs, heads),
                    bias=of_heads(call.bias, heads),
                )
            mask = AttentionMask(
                causal=call.causal,
                window=layer.sliding_window,
                pattern=layer.pattern,
            )
            allowed = allowed_pairs(mask, own)
            if group.reach is not None:
                reach = AttentionMask(pattern=Window(group.reach))
                reach = allowed_pairs(reach, own)
                allowed = reach if allowed is None else allowed & reach
            terms = graph.call(group, own.query, own.key)
            contexts.append(
                attend(graph, terms, own_values, own, allowed, layer.normalizer)
            )
        context = contexts[0]
        if len(contexts) > 1:
            context = ops.concatenate(contexts, axis=2)
        if layer.gate is not None:
            context = context * graph.call(layer.gate, call.query)
        context = zero_padding(context, call.queries)
        return graph.call(layer.attention_output, context)

    return called(layer, mix)


def allowed_pairs(mask, call):
    """The pairs that an `AttentionMask` allows: `(T, S)` booleans."""
    if not mask.has_pattern:
        return None
    pairs = mask.with_pairs(*call.lengths).pairs
    return ops.convert_to_numpy(pairs)[0, 0]


def attend(
    graph, terms, values, call, allowed=None, normalizer=normalizers.SOFTMAX
):
    """Returns the context `(B, T, H, v)`.

    Args:
        graph: `Graph`.
        terms: List of tensors `(B, H, T, S)` and arrays `(H, T, S)`, whose sum
            is the logits.
        values: Tensor `(B, S, H, v)`.
        call: `Call`, with masks that are tensors, and the bias.
        allowed: Boolean array `(T, S)`, or `None`.
        normalizer: `Normalizer`.
    """
    bias = call.bias
    if bias is not None:
        fixed = isinstance(bias, np.ndarray) and bias.shape[0] == 1
        terms = [*terms, bias[0] if fixed else bias]
    tables = [x for x in terms if isinstance(x, np.ndarray)]
    tensors = [x for x in terms if not isinstance(x, np.ndarray)]
    table = sum(tables) if tables else None
    if not tensors and call.pairs is None:
        weights = _table(table, allowed, normalizer, call.keys is not None)
        if weights is not None:
            return _by_table(graph, weights, values, call.keys)
    if tables:
        tensors.append(graph.constant(table[None]))
    logits = functools.reduce(ops.add, tensors)
    seen = visible(graph, call, allowed)
    weights = normalized(graph, normalizer, logits, seen)
    return ops.einsum("bhts,bshv->bthv", weights, values)


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
    equation = "bshv,hts->bthv"
    if keys is None:
        return graph.product(equation, values, table)
    values = zero_padding(with_ones(values), keys)
    # Both sums are zero for a row without visible keys.
    return means(graph.product(equation, values, table))


def visible(graph, call, allowed):
    """Pairs that padding, masks and positions allow, boolean, or `None`."""
    found = [] if call.pairs is None else [call.pairs]
    if call.keys is not None:
        found.append(call.keys[:, None, None] > 0.5)
    if allowed is not None and not allowed.all():
        found.append(graph.constant(allowed[None, None]) > 0.5)
    return functools.reduce(ops.logical_and, found) if found else None


def normalized(graph, normalizer, scores, seen):
    """Returns weights `(B, H, T, S)`, zero for hidden pairs.

    The logits of hidden pairs are just below the least of the row, so that they
    change no other weight by more than 1e-7. A number such as -1e30 would
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
    real, count = ops.cast(seen, "float32"), None
    if normalizer.counts:
        count = ops.maximum(ops.sum(real, axis=-1, keepdims=True), 1.0)
    least = ops.amin(scores, axis=-1, keepdims=True)
    scores = ops.where(seen, scores, least - (16.0 + math.log(length)))
    return normalizer.weights(scores, count) * real

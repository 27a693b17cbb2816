"""Plain forms of attention and of synthesizers."""

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
from keras_synth.folding.plain import form, plain_layer
from keras_synth.folding.plain_logits import plain_logits
from keras_synth.folding.synthesizers import LEAST_WEIGHT
from keras_synth.mixers import SyntheticAttention
from keras_synth.mixers.call import is_padding
from keras_synth.mixers.mixer import Mixer
from keras_synth.types import Tensor


class Call(NamedTuple):
    """What a mixer is called with in a plain graph.

    Fields:
        query: Tensor `(B, T, d)`.
        value: Tensor `(B, S, d)`.
        key: Tensor `(B, S, d)`.
        queries: Float tensor `(B, T)`, 0 for padding, or `None`.
        keys: Float tensor `(B, S)`, 0 for padding, or `None`.
        pairs: Boolean tensor `(B or 1, H or 1, T, S)`, or `None`.
        causal: Whether no token sees a later one.
        bias: Tensor or array `(B or 1, H or 1, T, S)`, or `None`.
    """

    query: Tensor
    value: Tensor
    key: Tensor
    queries: Tensor = None
    keys: Tensor = None
    pairs: Tensor = None
    causal: bool = False
    bias: Tensor = None

    @property
    def lengths(self):
        """`(T, S)`."""
        return self.query.shape[1], self.value.shape[1]


def called(
    mixer: Mixer, mix: Callable[[Call], Tensor]
) -> Callable[..., Tensor]:
    """Returns a function with the arguments of a mixer's call.

    Args:
        mixer: The mixer.
        mix: Function of a `Call` that returns a tensor `(B, T, d)`.
    """

    def call(
        query,
        value=None,
        key=None,
        query_mask=None,
        value_mask=None,
        key_mask=None,
        attention_mask=None,
        attention_bias=None,
        mask=None,
        return_attention_scores=False,
        use_causal_mask=False,
        training=None,
    ):
        if return_attention_scores:
            raise ValueError(
                "A plain model does not return attention scores: call the "
                f"layer without them. Received: {mixer.path}"
            )
        is_alone = value is None
        value = query if is_alone else value
        key = value if key is None else key
        if len(query.shape) != 3 or None in (query.shape[1], value.shape[1]):
            raise ValueError(
                "Plain attention needs tensors (batch, length, features) of a "
                f"known length. Received: shape {query.shape} at {mixer.path}"
            )
        padding = [value_mask, key_mask, mask if is_alone else None]
        if is_padding(attention_mask, query):
            axes = tuple(range(1, len(attention_mask.shape) - 1))
            padding.append(ops.squeeze(attention_mask, axes))
            attention_mask = None
        if attention_mask is not None:
            attention_mask = of_pairs(ops.cast(attention_mask, "bool"))
        if attention_bias is not None:
            attention_bias = of_pairs(attention_bias)
        return mix(
            Call(
                *map(_without_mask, (query, value, key)),
                as_numbers(query_mask, mask),
                as_numbers(*padding),
                attention_mask,
                bool(use_causal_mask),
                attention_bias,
            )
        )

    return call


def _without_mask(x):
    """The same without the mask of Keras, of which `EinsumDense` warns."""
    return x if keras_mask(x) is None else x * 1.0


def as_numbers(*masks):
    """The conjunction of masks as 0 and 1, or `None` if all are `None`."""
    given = {id(mask): mask for mask in masks if mask is not None}
    numbers = [ops.cast(ops.cast(x, "bool"), "float32") for x in given.values()]
    return functools.reduce(ops.multiply, numbers) if numbers else None


def of_pairs(x):
    """`(T, S)`, `(B, T, S)` or `(B, H, T, S)` with four axes."""
    return (
        x
        if len(x.shape) == 4
        else x[None, None]
        if len(x.shape) == 2
        else x[:, None]
    )


# --- attention ----------------------------------------------------------------


@plain_layer.register(SyntheticAttention)
def _attention(layer, graph):
    def mix(call):
        values = graph.call(layer.value, call.value)
        contexts, first = [], 0
        for group in layer.synthesizer.head_groups():
            heads = slice(first, first + group.num_heads)
            first = heads.stop
            own = call
            if group is not layer.synthesizer:
                own = call._replace(
                    pairs=_of_heads(call.pairs, heads),
                    bias=_of_heads(call.bias, heads),
                )
            own_logits = form(plain_logits, group)(group, graph)
            logits = own_logits(own.query, own.key)
            if own.bias is not None:
                logits = logits.plus(own.bias)
            context = attend(
                graph,
                logits,
                values[:, :, heads] if own is not call else values,
                own,
                allowed_pairs(layer, group, call),
                layer.normalizer,
            )
            contexts.append(context)
        context = (
            ops.concatenate(contexts, axis=2) if contexts[1:] else contexts[0]
        )
        if layer.gate is not None:
            context = context * graph.call(layer.gate, call.query)
        if call.queries is not None:
            context = context * call.queries[:, :, None, None]
        return graph.call(layer.attention_output, context)

    return called(layer, mix)


def _of_heads(x, heads):
    return x if x is None or x.shape[1] == 1 else x[:, heads]


def allowed_pairs(layer, group, call):
    """Which pairs position alone allows, boolean `(T, S)`, or `None`."""
    mask = AttentionMask(
        causal=call.causal, window=layer.sliding_window, pattern=layer.pattern
    )
    allowed = of_positions(mask, *call.lengths)
    if group.reach is None:
        return allowed
    reach = AttentionMask(pattern=Window(group.reach))
    reach = of_positions(reach, *call.lengths)
    return reach if allowed is None else allowed & reach


def of_positions(mask, T, S):
    """Which pairs an `AttentionMask` of positions allows: `(T, S)` booleans."""
    if not mask.has_pattern:
        return None
    return ops.convert_to_numpy(mask.with_pairs(T, S).pairs)[0, 0]


def attend(graph, logits, values, call, allowed, normalizer):
    """Returns the context `(B, T, H, v)`.

    Args:
        graph: `Graph`.
        logits: `PlainLogits`.
        values: Tensor `(B, S, H, v)`.
        call: `Call`, with the masks that are tensors.
        allowed: Boolean array `(T, S)`, or `None`.
        normalizer: `Normalizer`.
    """
    if not logits.tensors and call.pairs is None:
        table = _table(logits.table, allowed, normalizer, call.keys is not None)
        if table is not None:
            return _by_table(graph, table, values, call.keys)
    weights = normalized(
        graph, normalizer, logits.total(graph), visible(graph, call, allowed)
    )
    return ops.einsum("bhts,bshv->bthv", weights, values)


def _table(logits, allowed, normalizer, padded):
    """The weights of all samples `(H, T, S)`, or `None` if they differ."""
    visible = np.ones(logits.shape[1:], bool) if allowed is None else allowed
    if padded:
        most = np.where(visible, logits, -np.inf).max(-1, keepdims=True)
        least = np.where(visible, logits, np.inf).min(-1, keepdims=True)
        with np.errstate(invalid="ignore"):
            steep = np.nanmax(most - least) > -math.log(LEAST_WEIGHT)
        if normalizer != normalizers.SOFTMAX or steep:
            return None
    count = np.maximum(visible.sum(-1, keepdims=True), 1).astype("float32")
    weights = normalizers.normalized(
        normalizer,
        ops.convert_to_tensor(logits.astype("float32")),
        ops.convert_to_tensor(visible),
        ops.convert_to_tensor(count),
    )
    return ops.convert_to_numpy(weights) * visible


def _by_table(graph, table, values, keys):
    """`A V`, or `A (m V) / (A m)`: the mask is one more feature."""
    equation = "bshv,hts->bthv"
    if keys is None:
        return graph.product(equation, values, table)
    width = values.shape[-1]
    widths = [[0, 0], [0, 0], [0, 0], [0, 1]]
    values = ops.pad(values, widths, constant_values=1.0)
    product = graph.product(equation, values * keys[:, :, None, None], table)
    # Of a row that sees nothing both are zero.
    total = ops.maximum(product[..., width:], LEAST_WEIGHT / 10)
    return product[..., :width] / total


def visible(graph, call, allowed):
    """Which pairs padding, masks and positions allow, boolean, or `None`."""
    found = [] if call.pairs is None else [call.pairs]
    if call.keys is not None:
        found.append(call.keys[:, None, None] > 0.5)
    if allowed is not None and not allowed.all():
        found.append(graph.constant(allowed[None, None]) > 0.5)
    return functools.reduce(ops.logical_and, found) if found else None


def normalized(graph, normalizer, scores, seen):
    """Returns weights `(B, H, T, S)`, zero for pairs that are not seen.

    The logits of these lie just below the least of the row, by so much that
    they change no other weight by more than 1e-7. A number such as -1e30 would
    stretch the scale of integers to which a converter rounds logits.
    """
    length = scores.shape[-1]
    if seen is None:
        count = graph.constant([[length]]) if normalizer.counts else None
        return normalizer.weights(scores, count)
    real, count = ops.cast(seen, "float32"), None
    if normalizer.counts:
        count = ops.maximum(ops.sum(real, axis=-1, keepdims=True), 1.0)
    least = ops.min(scores, axis=-1, keepdims=True)
    scores = ops.where(seen, scores, least - (16.0 + math.log(length)))
    return normalizer.weights(scores, count) * real

"""Plain forms of mixers other than `SyntheticAttention`."""

import functools

import numpy as np
from keras import layers, ops

from keras_synth.attention import normalizers
from keras_synth.attention.masks import AttentionMask
from keras_synth.folding.plain import plain_layer
from keras_synth.folding.plain_attention import (
    LEAST,
    allowed_pairs,
    attend,
    called,
    means,
    normalized,
    visible,
    with_ones,
    zero_padding,
)
from keras_synth.folding.plain_logits import dot_products
from keras_synth.mixers import (
    CompressedAttention,
    DynamicConvolution,
    FourierMixer,
    GatedMLP,
    LightConvolution,
    LinearAttention,
    LinformerAttention,
    LongformerAttention,
    MLPMixer,
    PerformerAttention,
    PoolingMixer,
)
from keras_synth.mixers.performer import FLOOR


def _registered(cls):
    """Registers a function of a mixer, a `Graph`, a `Call`, and tokens.

    Padded tokens, and outputs of padded queries, are zero.
    """

    def register(mix):
        @plain_layer.register(cls)
        def form(mixer, graph):
            def mixed(call):
                x = zero_padding(call.query, call.keys)
                return zero_padding(mix(mixer, graph, call, x), call.queries)

            return called(mixer, mixed)

        return mix

    return register


# --- one matrix for all samples -----------------------------------------------


@_registered(FourierMixer)
def _fourier(mixer, graph, call, x):
    of_tokens, of_features = (
        2 * np.pi / n * (np.outer(np.arange(n), np.arange(n)) % n)
        for n in x.shape[1:]
    )

    def transformed(wave):
        y = graph.product("bsd,ts->btd", x, wave(of_tokens))
        return graph.product("bte,ef->btf", y, wave(of_features))

    return transformed(np.cos) - transformed(np.sin)


def _along(graph, matrix, bias, x, rows, causal):
    """`matrix x + bias` along the tokens, `(B, rows, d)`."""
    matrix = ops.convert_to_numpy(matrix)[:rows, : x.shape[1]]
    if bias is not None:
        bias = ops.convert_to_numpy(bias)[None, :rows, None]
    matrix = np.tril(matrix) if causal else matrix
    return graph.product("bsd,ts->btd", x, matrix, bias)


@_registered(MLPMixer)
def _mlp(mixer, graph, call, x):
    length = x.shape[1]
    units = length if call.causal else mixer.hidden_dim
    x = _along(graph, mixer.W1, mixer.b1, x, units, call.causal)
    x = mixer.activation(x)
    x = _along(graph, mixer.W2, mixer.b2, x, length, call.causal)
    return zero_padding(x, call.keys)


@_registered(GatedMLP)
def _gated_mlp(mixer, graph, call, x):
    u, v = ops.split(graph.call(mixer.value, x), 2, axis=-1)
    v = zero_padding(graph.call(mixer.norm, v), call.keys)
    gate = _along(graph, mixer.W, mixer.b, v, v.shape[1], call.causal)
    return graph.call(mixer.output_dense, zero_padding(u * gate, call.keys))


# --- neighbours ---------------------------------------------------------------


def _around(x, width, causal):
    """`(B, T, d)` with zeros for the neighbours beyond the ends."""
    before = width - 1 if causal else (width - 1) // 2
    return ops.pad(x, [[0, 0], [before, width - 1 - before], [0, 0]])


def _convolved(x, kernel, causal):
    """Convolves channels of `(B, T, d)` with an array `(n, d)`."""
    layer = layers.DepthwiseConv1D(len(kernel), use_bias=False, dtype="float32")
    y = layer(_around(x, len(kernel), causal))
    layer.set_weights([kernel[:, :, None]])
    return y


@_registered(PoolingMixer)
def _pooling(mixer, graph, call, x):
    ones = zero_padding(with_ones(call.query), call.keys)
    kernel = np.ones((mixer.size, ones.shape[-1]))
    pooled = means(_convolved(ones, kernel, call.causal))
    return zero_padding(pooled - x, call.keys)


def _values(mixer, graph, call, x):
    """The tokens that convolutions mix."""
    x = graph.call(mixer.value, x)
    if mixer.use_glu:
        x, gate = ops.split(x, 2, axis=-1)
        x = x * ops.sigmoid(gate)
    return zero_padding(x, call.keys)


@_registered(LightConvolution)
def _light_convolution(mixer, graph, call, x):
    x = _values(mixer, graph, call, x)
    kernel = ops.convert_to_numpy(ops.softmax(mixer.kernel, axis=-1))
    kernel = np.repeat(kernel, x.shape[-1] // mixer.num_heads, axis=0).T
    y = _convolved(x, kernel, call.causal)
    if mixer.border == "renormalize":
        there = zero_padding(ops.ones_like(x), call.keys)
        there = _convolved(there, kernel, call.causal)
        y = y / (there + LEAST)
    return graph.call(mixer.output_dense, y)


@_registered(DynamicConvolution)
def _dynamic_convolution(mixer, graph, call, x):
    heads, width = mixer.num_heads, mixer.width
    x = _values(mixer, graph, call, x)
    length, features = x.shape[1:]

    def taps(x):
        x = _around(x, width, call.causal)
        return ops.stack([x[:, t : t + length] for t in range(width)], axis=2)

    weights = graph.call(mixer.kernel, x)
    weights = ops.reshape(weights, (-1, length, heads, width))
    weights = ops.softmax(weights, axis=-1)
    if mixer.border == "renormalize":
        there = taps(zero_padding(ops.ones_like(x[..., :1]), call.keys))
        weights = weights * ops.reshape(there, (-1, length, 1, width))
        total = ops.sum(weights, axis=-1, keepdims=True)
        weights = weights / (total + LEAST)
    x = ops.reshape(taps(x), (-1, length, width, heads, features // heads))
    y = ops.einsum("btnhc,bthn->bthc", x, weights)
    y = ops.reshape(y, (-1, length, features))
    return graph.call(mixer.output_dense, y)


# --- queries and keys ---------------------------------------------------------


def _with_heads(cls):
    """Registers a function of a mixer, a `Graph`, a `Call`, q, k and v."""

    def register(mix):
        @plain_layer.register(cls)
        def form(mixer, graph):
            def mixed(call):
                projected = (
                    graph.call(mixer.query, call.query),
                    graph.call(mixer.key, call.key),
                    graph.call(mixer.value, call.value),
                )
                context = mix(mixer, graph, call, *projected)
                context = zero_padding(context, call.queries)
                return graph.call(mixer.attention_output, context)

            return called(mixer, mixed)

        return mix

    return register


@_with_heads(LongformerAttention)
def _longformer(mixer, graph, call, queries, keys, values):
    mask = AttentionMask(causal=call.causal, pattern=mixer.pattern)
    allowed = allowed_pairs(mask, call)
    logits = [dot_products(queries, keys)]
    context = attend(graph, logits, values, call, allowed)
    number, source, allowed = mixer.global_tokens, call.value, None
    first = call.query[:, :number]
    if call.causal:
        keys = None if call.keys is None else call.keys[:, :number]
        source, call = source[:, :number], call._replace(keys=keys)
        allowed = np.tri(source.shape[1], dtype=bool)
    queries, keys = (
        graph.call(mixer.global_query, first),
        graph.call(mixer.global_key, source),
    )
    values = graph.call(mixer.global_value, source)
    first = attend(graph, [dot_products(queries, keys)], values, call, allowed)
    return ops.concatenate([first, context[:, number:]], axis=1)


@_with_heads(LinformerAttention)
def _linformer(mixer, graph, call, queries, keys, values):
    def summed(table, x):
        table = ops.convert_to_numpy(table)[..., : x.shape[1]]
        table = np.broadcast_to(table, (mixer.num_heads, *table.shape[1:]))
        x = zero_padding(x, call.keys)
        return graph.product("bshk,hrs->brhk", x, table)

    keys = summed(mixer.E, keys)
    values = summed(mixer.E if mixer.F is None else mixer.F, values)
    call = call._replace(keys=None)
    return attend(graph, [dot_products(queries, keys)], values, call)


@_with_heads(CompressedAttention)
def _compressed(mixer, graph, call, queries, keys, values):
    stride, size, source = mixer.stride, mixer.kernel, call.lengths[1]

    def windows(x):
        """The first, second, ... token of each window."""
        x = ops.pad(x, [[0, 0], [0, size], *[[0, 0]] * (len(x.shape) - 2)])
        return [x[:, t : t + source : stride] for t in range(size)]

    def convolved(x, kernel):
        product = functools.partial(graph.product, "bmhk,hkl->bmhl")
        x = windows(zero_padding(x, call.keys))
        return sum(map(product, x, ops.convert_to_numpy(kernel)))

    keys = convolved(keys, mixer.key_kernel)
    values = convolved(values, mixer.value_kernel)
    if call.keys is not None:
        real = ops.stack(windows(call.keys), axis=-1)
        call = call._replace(keys=ops.amax(real, axis=-1))
    return attend(graph, [dot_products(queries, keys)], values, call)


@_with_heads(LinearAttention)
def _linear(mixer, graph, call, queries, keys, values):
    queries, keys = ops.elu(queries) + 1.0, ops.elu(keys) + 1.0
    return _of_features(mixer, graph, call, queries, keys, values)


@_with_heads(PerformerAttention)
def _performer(mixer, graph, call, queries, keys, values):
    if mixer.redraw_interval is not None:
        raise ValueError(
            "A Performer that redraws its directions has no fixed form. "
            "Make it with `redraw_interval=None`. Received: "
            f"redraw_interval={mixer.redraw_interval} at {mixer.path}"
        )
    directions = ops.convert_to_numpy(mixer.projection)
    directions = directions * mixer.key_dim**-0.25
    norms = ops.sum(ops.square(keys), axis=-1, keepdims=True)
    queries, keys = (
        graph.product("bthk,mk->bthm", x, directions) for x in (queries, keys)
    )
    keys = keys - norms * (mixer.key_dim**-0.5 / 2)
    largest = ops.amax(keys, axis=-1, keepdims=True)  # (B, S, H, 1)
    queries = queries - ops.amax(queries, axis=-1, keepdims=True)
    queries, keys = ops.exp(queries) + FLOOR, ops.exp(keys - largest) + FLOOR
    logs = ops.transpose(largest, (0, 2, 3, 1))  # (B, H, 1, S)
    return _of_features(mixer, graph, call, queries, keys, values, logs)


def _of_features(mixer, graph, call, queries, keys, values, logs=None):
    """Attention by products of features; `logs` of those of keys apart."""
    T, S = call.lengths
    values = zero_padding(with_ones(values), call.keys)
    allowed = np.tri(T, S, dtype=bool) if call.causal else None
    factors = None if allowed is None else graph.constant(allowed[None, None])
    if logs is not None:
        logs = logs if allowed is None else ops.repeat(logs, T, axis=2)
        seen = visible(graph, call, allowed)
        factors = normalized(graph, normalizers.SOFTMAX, logs, seen)
    if allowed is not None:
        weights = ops.einsum("bthf,bshf->bhts", queries, keys) * factors
        sums = ops.einsum("bhts,bshv->bthv", weights, values)
    else:
        if factors is not None:
            keys = keys * ops.transpose(factors, (0, 3, 1, 2))
        sums = ops.einsum("bshf,bshv->bhfv", keys, values)
        sums = ops.einsum("bthf,bhfv->bthv", queries, sums)
    return means(sums, mixer.epsilon)

"""Plain forms of mixers other than `SyntheticAttention`."""

import numpy as np
from keras import layers, ops

from keras_synth import mixers
from keras_synth.attention.masks import AttentionMask
from keras_synth.folding.plain import plain_layer
from keras_synth.folding.plain_attention import (
    along_tokens,
    attend,
    called,
    means,
    nonzero,
    weighted,
    with_ones,
    zero_padding,
)
from keras_synth.folding.plain_logits import dot_products, pair_products
from keras_synth.mixers.performer import FLOOR


def _registered(cls):
    """Registers a function of a mixer, a `Graph`, a `Call` and tensors.

    The tensors are the tokens, zero for padding; or queries, keys and values.
    Outputs of padded queries are zero.
    """

    def register(mix):
        @plain_layer.register(cls)
        def form(mixer, graph):
            def mixed(call):
                padding = call.mask.queries
                if not isinstance(mixer, mixers.MultiHeadMixer):
                    x = zero_padding(call.query, call.mask.keys)
                    return zero_padding(mix(mixer, graph, call, x), padding)
                context = mix(
                    *(mixer, graph, call),
                    graph.call(mixer.query, call.query),
                    graph.call(mixer.key, call.key),
                    graph.call(mixer.value, call.value),
                )
                context = zero_padding(context, padding)
                return graph.call(mixer.attention_output, context)

            return called(mixer, mixed)

        return mix

    return register


# --- one matrix for all samples -----------------------------------------------


@_registered(mixers.FourierMixer)
def _fourier(mixer, graph, call, x):
    of_tokens, of_features = (
        2 * np.pi / n * (np.outer(np.arange(n), np.arange(n)) % n)
        for n in x.shape[1:]
    )

    def transformed(wave):
        y = along_tokens(graph, wave(of_tokens), x)
        return graph.product("bte,ef->btf", y, wave(of_features))

    return transformed(np.cos) - transformed(np.sin)


def _along(graph, matrix, bias, x, rows, causal):
    """`matrix x + bias` along the tokens, `(B, rows, d)`."""
    matrix = ops.convert_to_numpy(matrix)[:rows, : x.shape[1]]
    if bias is not None:
        bias = ops.convert_to_numpy(bias)[:rows]
    matrix = np.tril(matrix) if causal else matrix
    return along_tokens(graph, matrix, x, bias)


@_registered(mixers.MLPMixer)
def _mlp(mixer, graph, call, x):
    length = x.shape[1]
    units = length if call.mask.causal else mixer.hidden_dim
    x = _along(graph, mixer.W1, mixer.b1, x, units, call.mask.causal)
    # A layer: converters for hardware read no operations.
    x = layers.Activation(mixer.activation, dtype="float32")(x)
    x = _along(graph, mixer.W2, mixer.b2, x, length, call.mask.causal)
    return zero_padding(x, call.mask.keys)


@_registered(mixers.GatedMLP)
def _gated_mlp(mixer, graph, call, x):
    u, v = ops.split(graph.call(mixer.value, x), 2, axis=-1)
    v = zero_padding(graph.call(mixer.norm, v), call.mask.keys)
    gate = _along(graph, mixer.W, mixer.b, v, v.shape[1], call.mask.causal)
    return graph.call(
        mixer.output_dense, zero_padding(u * gate, call.mask.keys)
    )


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


@_registered(mixers.PoolingMixer)
def _pooling(mixer, graph, call, x):
    ones = zero_padding(with_ones(call.query), call.mask.keys)
    kernel = np.ones((mixer.size, ones.shape[-1]))
    pooled = means(graph, _convolved(ones, kernel, call.mask.causal))
    return zero_padding(pooled - x, call.mask.keys)


def _values(mixer, graph, call, x):
    """The tokens that convolutions mix."""
    x = graph.call(mixer.value, x)
    if mixer.use_glu:
        x, gate = ops.split(x, 2, axis=-1)
        x = x * ops.sigmoid(gate)
    return zero_padding(x, call.mask.keys)


@_registered(mixers.LightConvolution)
def _light_convolution(mixer, graph, call, x):
    x = _values(mixer, graph, call, x)
    kernel = ops.convert_to_numpy(ops.softmax(mixer.kernel, axis=-1))
    kernel = np.repeat(kernel, x.shape[-1] // mixer.num_heads, axis=0).T
    y = _convolved(x, kernel, call.mask.causal)
    if mixer.border == "renormalize":
        there = zero_padding(ops.ones_like(x), call.mask.keys)
        there = _convolved(there, kernel, call.mask.causal)
        y = y / nonzero(graph, there)
    return graph.call(mixer.output_dense, y)


@_registered(mixers.DynamicConvolution)
def _dynamic_convolution(mixer, graph, call, x):
    heads, width = mixer.num_heads, mixer.width
    x = _values(mixer, graph, call, x)
    length, features = x.shape[1:]

    def taps(x):
        x = _around(x, width, call.mask.causal)
        return ops.stack([x[:, t : t + length] for t in range(width)], axis=2)

    weights = graph.call(mixer.kernel, x)
    weights = ops.reshape(weights, (-1, length, heads, width))
    weights = ops.softmax(weights, axis=-1)
    if mixer.border == "renormalize":
        there = taps(zero_padding(ops.ones_like(x[..., :1]), call.mask.keys))
        weights = weights * ops.reshape(there, (-1, length, 1, width))
        total = ops.sum(weights, axis=-1, keepdims=True)
        weights = weights / nonzero(graph, total)
    x = ops.reshape(taps(x), (-1, length, width, heads, features // heads))
    y = ops.einsum("btnhc,bthn->bthc", x, weights)
    y = ops.reshape(y, (-1, length, features))
    return graph.call(mixer.output_dense, y)


# --- queries and keys ---------------------------------------------------------


@_registered(mixers.LongformerAttention)
def _longformer(mixer, graph, call, queries, keys, values):
    mask = call.mask._replace(pattern=mixer.pattern)
    context = attend(graph, [dot_products(queries, keys)], values, mask)
    number, source, mask = mixer.global_tokens, call.value, call.mask
    if mask.causal:
        source = source[:, :number]
        if mask.keys is not None:
            mask = mask._replace(keys=mask.keys[:, :number])
    queries = graph.call(mixer.global_query, call.query[:, :number])
    keys = graph.call(mixer.global_key, source)
    values = graph.call(mixer.global_value, source)
    first = attend(graph, [dot_products(queries, keys)], values, mask)
    return ops.concatenate([first, context[:, number:]], axis=1)


@_registered(mixers.LinformerAttention)
def _linformer(mixer, graph, call, queries, keys, values):
    def summed(table, x):
        table = ops.convert_to_numpy(table)[..., : x.shape[1]]
        table = np.broadcast_to(table, (mixer.num_heads, *table.shape[1:]))
        x = zero_padding(x, call.mask.keys)
        return along_tokens(graph, table, x)

    logits = dot_products(queries, summed(mixer.E, keys))
    values = summed(mixer.E if mixer.F is None else mixer.F, values)
    return attend(graph, [logits], values, AttentionMask())


@_registered(mixers.CompressedAttention)
def _compressed(mixer, graph, call, queries, keys, values):
    stride, size, mask = mixer.stride, mixer.kernel, call.mask

    def windows(x):
        """`(B, S, ...) -> (B, M, size, ...)`."""
        length, others = x.shape[1], [[0, 0]] * (len(x.shape) - 2)
        x = ops.pad(x, [[0, 0], [0, size], *others])
        tokens = [x[:, t : t + length : stride] for t in range(size)]
        return ops.stack(tokens, axis=2)

    def convolved(x, kernel):
        x = windows(zero_padding(x, mask.keys))
        return graph.product("bmthk,thkl->bmhl", x, kernel)

    real = None if mask.keys is None else ops.amax(windows(mask.keys), axis=2)
    logits = dot_products(queries, convolved(keys, mixer.key_kernel))
    values = convolved(values, mixer.value_kernel)
    return attend(graph, [logits], values, AttentionMask(keys=real))


@_registered(mixers.LinearAttention)
def _linear(mixer, graph, call, queries, keys, values):
    queries, keys = ops.elu(queries) + 1.0, ops.elu(keys) + 1.0
    values = zero_padding(with_ones(values), call.mask.keys)
    if call.mask.causal:
        allowed = np.tri(queries.shape[1], keys.shape[1])[None, None]
        weights = pair_products(queries, keys) * graph.constant(allowed)
        sums = weighted(weights, values)
    else:
        sums = ops.einsum("bshf,bshv->bhfv", keys, values)
        sums = ops.einsum("bthf,bhfv->bthv", queries, sums)
    return sums[..., :-1] / (sums[..., -1:] + mixer.epsilon)


@_registered(mixers.PerformerAttention)
def _performer(mixer, graph, call, queries, keys, values):
    """The softmax of the logarithms of the estimates."""
    if mixer.redraw_interval is not None:
        raise ValueError(
            "A Performer that redraws its directions has no fixed form. "
            "Make it with `redraw_interval=None`. Received: "
            f"redraw_interval={mixer.redraw_interval} at {mixer.path}"
        )
    directions = ops.convert_to_numpy(mixer.projection)
    directions = directions * mixer.key_dim**-0.25

    def features(x, norms=0.0):
        x = graph.product("bthk,mk->bthm", x, directions) - norms
        largest = ops.amax(x, axis=-1, keepdims=True)
        return ops.exp(x - largest) + FLOOR, largest

    norms = ops.sum(ops.square(keys), axis=-1, keepdims=True)
    queries, _ = features(queries)
    keys, largest = features(keys, norms * (mixer.key_dim**-0.5 / 2))
    logits = ops.log(pair_products(queries, keys))
    logits = logits + ops.transpose(largest, (0, 2, 3, 1))  # (B, H, 1, S)
    return attend(graph, [logits], values, call.mask)

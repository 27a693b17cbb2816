"""Plain forms of mixers other than `SyntheticAttention`."""

import numpy as np
from keras import layers, ops

from keras_synth.attention import normalizers
from keras_synth.attention.masks import AttentionMask
from keras_synth.folding.plain import plain_layer
from keras_synth.folding.plain_attention import (
    attend,
    called,
    normalized,
    of_positions,
    visible,
)
from keras_synth.folding.plain_logits import PlainLogits, dot_products
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

# Below every sum of weights that is not zero.
_LEAST = 1e-30


def _real(x, mask):
    """`x` `(B, T, ...)`, zero where a mask of 0 and 1, if any, is 0."""
    if mask is None:
        return x
    return x * ops.reshape(mask, (-1, x.shape[1], *[1] * (len(x.shape) - 2)))


def _with_ones(x):
    """A tensor with one more feature, which is 1."""
    widths = [[0, 0]] * (len(x.shape) - 1) + [[0, 1]]
    return ops.pad(x, widths, constant_values=1.0)


def _mixes_one_sequence(cls):
    """Registers a function of a mixer, a `Graph` and a `Call`."""

    def register(mix):
        @plain_layer.register(cls)
        def form(mixer, graph):
            return called(
                mixer, lambda call: _real(mix(mixer, graph, call), call.queries)
            )

        return mix

    return register


# --- one matrix for all samples -----------------------------------------------


@_mixes_one_sequence(FourierMixer)
def _fourier(mixer, graph, call):
    x = _real(call.query, call.keys)
    of_tokens, of_features = (
        2 * np.pi / n * (np.outer(np.arange(n), np.arange(n)) % n)
        for n in x.shape[1:]
    )

    def transformed(wave):
        y = graph.product("bsd,ts->btd", x, wave(of_tokens))
        return graph.product("bte,ef->btf", y, wave(of_features))

    return transformed(np.cos) - transformed(np.sin)


def _along(graph, matrix, bias, x, rows, causal=False):
    """`matrix x + bias` along the tokens, `(B, rows, d)`."""
    matrix = ops.convert_to_numpy(matrix)[:rows, : x.shape[1]]
    matrix = np.tril(matrix) if causal else matrix
    if bias is not None:
        bias = ops.convert_to_numpy(bias)[None, :rows, None]
    return graph.product("bsd,ts->btd", x, matrix, bias)


@_mixes_one_sequence(MLPMixer)
def _mlp(mixer, graph, call):
    T = call.query.shape[1]
    x, units = (
        _real(call.query, call.keys),
        T if call.causal else mixer.hidden_dim,
    )
    x = _along(graph, mixer.W1, mixer.b1, x, units, call.causal)
    x = mixer.activation(x)
    x = _along(graph, mixer.W2, mixer.b2, x, T, call.causal)
    return _real(x, call.keys)


@_mixes_one_sequence(GatedMLP)
def _gated_mlp(mixer, graph, call):
    x = graph.call(mixer.value, _real(call.query, call.keys))
    u, v = ops.split(x, 2, axis=-1)
    v = _real(graph.call(mixer.norm, v), call.keys)
    gate = _along(graph, mixer.W, mixer.b, v, v.shape[1], call.causal)
    return graph.call(mixer.output_dense, _real(u * gate, call.keys))


# --- neighbours ---------------------------------------------------------------


def _around(x, width, causal):
    """`(B, T, ...)` with zeros for the neighbours beyond the ends."""
    before = width - 1 if causal else (width - 1) // 2
    others = [[0, 0]] * (len(x.shape) - 2)
    return ops.pad(x, [[0, 0], [before, width - 1 - before], *others])


def _convolved(x, kernel, causal):
    """Convolves channels of `(B, T, d)` with an array `(n, d)`."""
    layer = layers.DepthwiseConv1D(len(kernel), use_bias=False, dtype="float32")
    y = layer(_around(x, len(kernel), causal))
    layer.set_weights([kernel[:, :, None]])
    return y


@_mixes_one_sequence(PoolingMixer)
def _pooling(mixer, graph, call):
    x = _real(call.query, call.keys)
    width = x.shape[-1]
    sums = _real(_with_ones(call.query), call.keys)
    sums = _convolved(sums, np.ones((mixer.size, width + 1)), call.causal)
    means = sums[..., :width] / ops.maximum(sums[..., width:], 1.0)
    return _real(means - x, call.keys)


def _values(mixer, graph, call):
    """The tokens that convolutions mix."""
    x = graph.call(mixer.value, _real(call.query, call.keys))
    if mixer.use_glu:
        x, gate = ops.split(x, 2, axis=-1)
        x = x * ops.sigmoid(gate)
    return _real(x, call.keys)


@_mixes_one_sequence(LightConvolution)
def _light_convolution(mixer, graph, call):
    x = _values(mixer, graph, call)
    kernel = ops.convert_to_numpy(ops.softmax(mixer.kernel, axis=-1))
    kernel = np.repeat(kernel, x.shape[-1] // mixer.num_heads, axis=0).T
    y = _convolved(x, kernel, call.causal)
    if mixer.border == "renormalize":
        shares = _convolved(
            _real(ops.ones_like(x), call.keys), kernel, call.causal
        )
        y = y / ops.maximum(shares, _LEAST)
    return graph.call(mixer.output_dense, y)


@_mixes_one_sequence(DynamicConvolution)
def _dynamic_convolution(mixer, graph, call):
    x, (heads, width) = (
        _values(mixer, graph, call),
        (mixer.num_heads, mixer.width),
    )
    T, d = x.shape[1:]

    def taps(x):
        x = _around(x, width, call.causal)
        return ops.stack([x[:, t : t + T] for t in range(width)], axis=2)

    weights = ops.reshape(graph.call(mixer.kernel, x), (-1, T, heads, width))
    weights = ops.softmax(weights, axis=-1)
    if mixer.border == "renormalize":
        there = taps(_real(ops.ones_like(x[..., :1]), call.keys))
        weights = weights * ops.reshape(there, (-1, T, 1, width))
        total = ops.sum(weights, axis=-1, keepdims=True)
        weights = weights / ops.maximum(total, _LEAST)
    x = ops.reshape(taps(x), (-1, T, width, heads, d // heads))
    y = ops.einsum("btnhc,bthn->bthc", x, weights)
    return graph.call(mixer.output_dense, ops.reshape(y, (-1, T, d)))


# --- queries and keys ---------------------------------------------------------


def _mixes_heads(cls):
    """Registers a function of a mixer, a `Graph`, a `Call`, q, k and v."""

    def register(mix):
        @plain_layer.register(cls)
        def form(mixer, graph):
            def of_heads(call):
                context = mix(
                    mixer,
                    graph,
                    call,
                    graph.call(mixer.query, call.query),
                    graph.call(mixer.key, call.key),
                    graph.call(mixer.value, call.value),
                )
                context = _real(context, call.queries)
                return graph.call(mixer.attention_output, context)

            return called(mixer, of_heads)

        return mix

    return register


def _softmax_attention(graph, call, queries, keys, values, allowed=None):
    logits = PlainLogits(tensors=(dot_products(queries, keys),))
    return attend(graph, logits, values, call, allowed, normalizers.SOFTMAX)


@_mixes_heads(LongformerAttention)
def _longformer(mixer, graph, call, queries, keys, values):
    mask = AttentionMask(causal=call.causal, pattern=mixer.pattern)
    allowed = of_positions(mask, *call.lengths)
    context = _softmax_attention(graph, call, queries, keys, values, allowed)
    number, source = min(mixer.global_tokens, call.lengths[0]), call.value
    if call.causal:
        keys = None if call.keys is None else call.keys[:, :number]
        source, call = source[:, :number], call._replace(keys=keys)
    first = _softmax_attention(
        graph,
        call,
        graph.call(mixer.global_query, call.query[:, :number]),
        graph.call(mixer.global_key, source),
        graph.call(mixer.global_value, source),
        np.tri(number, dtype=bool) if call.causal else None,
    )
    return ops.concatenate([first, context[:, number:]], axis=1)


@_mixes_heads(LinformerAttention)
def _linformer(mixer, graph, call, queries, keys, values):
    def summed(table, x):
        table = ops.convert_to_numpy(table)[..., : x.shape[1]]
        table = np.broadcast_to(table, (mixer.num_heads, *table.shape[1:]))
        return graph.product("bshk,hrs->brhk", _real(x, call.keys), table)

    keys = summed(mixer.E, keys)
    values = summed(mixer.E if mixer.F is None else mixer.F, values)
    call = call._replace(keys=None)
    return _softmax_attention(graph, call, queries, keys, values)


@_mixes_heads(CompressedAttention)
def _compressed(mixer, graph, call, queries, keys, values):
    stride, size = mixer.stride, mixer.kernel
    number = -(-call.lengths[1] // stride)

    def windows(x):
        others = [[0, 0]] * (len(x.shape) - 2)
        x = ops.pad(x, [[0, 0], [0, size], *others])
        last = (number - 1) * stride + 1
        return [x[:, t : t + last : stride] for t in range(size)]

    def convolved(x, kernel):
        kernel = ops.convert_to_numpy(kernel)
        return sum(
            graph.product("bmhk,hkl->bmhl", part, kernel[t])
            for t, part in enumerate(windows(_real(x, call.keys)))
        )

    keys = convolved(keys, mixer.key_kernel)
    values = convolved(values, mixer.value_kernel)
    if call.keys is not None:
        real = ops.amax(ops.stack(windows(call.keys), axis=-1), axis=-1)
        call = call._replace(keys=real)
    return _softmax_attention(graph, call, queries, keys, values)


@_mixes_heads(LinearAttention)
def _linear(mixer, graph, call, queries, keys, values):
    features = (ops.elu(x) + 1.0 for x in (queries, keys))
    return _of_features(mixer, graph, call, *features, values)


@_mixes_heads(PerformerAttention)
def _performer(mixer, graph, call, queries, keys, values):
    if mixer.redraw_interval is not None:
        raise ValueError(
            "A Performer that draws its directions anew has no fixed form. "
            "Make it with `redraw_interval=None`. Received: "
            f"redraw_interval={mixer.redraw_interval} at {mixer.path}"
        )
    directions = ops.convert_to_numpy(mixer.projection)
    directions = directions * mixer.key_dim**-0.25
    norms = ops.sum(ops.square(keys), -1, keepdims=True)
    queries, keys = (
        graph.product("bthk,mk->bthm", x, directions) for x in (queries, keys)
    )
    keys = keys - norms * (mixer.key_dim**-0.5 / 2)
    largest = ops.max(keys, axis=-1, keepdims=True)  # (B, S, H, 1)
    queries = ops.exp(queries - ops.max(queries, -1, keepdims=True)) + FLOOR
    keys = ops.exp(keys - largest) + FLOOR
    logs = ops.transpose(largest, (0, 2, 3, 1))
    return _of_features(mixer, graph, call, queries, keys, values, logs)


def _of_features(mixer, graph, call, queries, keys, values, logs=None):
    """Attention by products of features, `logs` of those of keys apart."""
    values = _real(_with_ones(values), call.keys)
    allowed = np.tri(*call.lengths, dtype=bool) if call.causal else None
    factors = None
    if logs is not None:  # (B, H, T or 1, S)
        if allowed is not None:
            logs = ops.repeat(logs, call.lengths[0], axis=2)
        seen = visible(graph, call, allowed)
        factors = normalized(graph, normalizers.SOFTMAX, logs, seen)
    if allowed is None:
        if factors is not None:
            keys = keys * ops.transpose(factors, (0, 3, 1, 2))
        sums = ops.einsum("bshf,bshv->bhfv", keys, values)
        sums = ops.einsum("bthf,bhfv->bthv", queries, sums)
    else:
        weights = ops.einsum("bthf,bshf->bhts", queries, keys)
        weights = weights * (
            graph.constant(allowed[None, None]) if factors is None else factors
        )
        sums = ops.einsum("bhts,bshv->bthv", weights, values)
    width = values.shape[-1] - 1
    return sums[..., :width] / (sums[..., width:] + mixer.epsilon)

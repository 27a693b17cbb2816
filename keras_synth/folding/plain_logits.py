"""Plain forms of synthesizers: functions that return terms of logits."""

import math

import numpy as np
from keras import ops

from keras_synth import synthesizers
from keras_synth._backend.tensors import heads_first, product
from keras_synth.attention.projections import repeated_heads
from keras_synth.folding.plain import plain_layer
from keras_synth.synthesizers.dot_product import rotated, rotation
from keras_synth.synthesizers.mixture import sharing_parts


def dot_products(queries, keys):
    """Returns `q . k / sqrt(k)`, `(B, H, T, S)`."""
    queries = queries * queries.shape[-1] ** -0.5
    return pair_products(queries, keys)


def pair_products(queries, keys):
    """Returns `q . k` for all pairs of tokens, `(B, H, T, S)`."""
    return product(heads_first(queries), ops.transpose(keys, (0, 2, 3, 1)))


@plain_layer.register(synthesizers.MixtureSynthesizer)
def _mixture(synthesizer, graph):
    parts, giver, takers = synthesizer.synthesizers, None, ()
    if synthesizer.share_queries:
        giver, takers = sharing_parts(parts)

    def terms(query, source):
        found = []
        for part, share in zip(parts, synthesizer.shares(), strict=True):
            shared = {}
            if part in takers:
                shared = {"queries": graph.call(giver.query, query)}
            own = graph.call(part, query, source, **shared)
            if share is not None:  # folding has left it there
                share = ops.convert_to_numpy(share)[:, None, None]
                own = [_scaled(graph, x, share) for x in own]
            found += own
        return found

    return terms


def _scaled(graph, logits, share):
    is_array = isinstance(logits, np.ndarray)
    return logits * (share if is_array else graph.constant(share[None]))


@plain_layer.register(synthesizers.DotProductSynthesizer)
def _dot_product(synthesizer, graph):
    def turned(x):
        if not synthesizer.rotary:
            return x
        width, longest = synthesizer.rotary_dim, x.shape[1]
        angles = rotation(
            np.arange(longest), width, synthesizer.rotary_max_wavelength
        )
        return rotated(
            x, *(graph.constant(ops.convert_to_numpy(a)) for a in angles)
        )

    def terms(query, source):
        queries = turned(graph.call(synthesizer.query, query))
        keys = turned(graph.call(synthesizer.key, source))
        return [dot_products(queries, repeated_heads(keys, queries.shape[2]))]

    return terms


@plain_layer.register(synthesizers.AdditiveSynthesizer)
def _additive(synthesizer, graph):
    def terms(query, source):
        queries = graph.call(synthesizer.query, query)[:, :, None]
        keys = graph.call(synthesizer.key, source)[:, None]
        pairs = ops.tanh(queries + keys)  # (B, T, S, H, k)
        return [graph.product("btshk,hk->bhts", pairs, synthesizer.scale)]

    return terms


@plain_layer.register(synthesizers.DenseSynthesizer)
def _dense(synthesizer, graph):
    def of_heads(x):
        x = ops.convert_to_numpy(x)
        return np.broadcast_to(x, (synthesizer.num_heads, *x.shape[1:]))

    def terms(query, source, queries=None):
        synthesizer.check_lengths(query.shape[1], source.shape[1])
        columns = np.arange(source.shape[1]) % synthesizer.max_length
        bias = synthesizer.b2
        if bias is not None:
            bias = of_heads(bias)[None, :, None, columns]
        if synthesizer.hidden_dim is None:
            kernel = of_heads(synthesizer.W_a)[:, :, columns]
            return [graph.product("btd,hds->bhts", query, kernel, bias)]
        if queries is None:
            queries = graph.call(synthesizer.hidden, query)
        features = synthesizer.activation(queries)
        kernel = of_heads(ops.swapaxes(synthesizer.W2, 0, 1))[:, columns]
        return [graph.product("bthk,hsk->bhts", features, kernel, bias)]

    return terms


@plain_layer.register(synthesizers.FactorizedDenseSynthesizer)
def _factorized_dense(synthesizer, graph):
    size, longest = math.prod(synthesizer.factors), synthesizer.max_length

    def factor(x, kernel, bias, axes):
        bias = (
            None if bias is None else ops.convert_to_numpy(bias)[None, :, None]
        )
        return graph.product(f"{axes},hda->bhta", x, kernel, bias)

    def terms(query, source):
        (T, S), x, axes = (query.shape[1], source.shape[1]), query, "btd"
        synthesizer.check_lengths(T, S)
        if synthesizer.hidden_dim is not None:
            x = synthesizer.activation(graph.call(synthesizer.hidden, query))
            axes = "bthd"
        rows = factor(x, synthesizer.A, synthesizer.b_A, axes)
        columns = factor(x, synthesizer.B, synthesizer.b_B, axes)
        products = rows[..., :, None] * columns[..., None, :]
        products = ops.reshape(products, (-1, synthesizer.num_heads, T, size))
        repeated = [
            products[..., : min(S - at, longest)] for at in range(0, S, longest)
        ]
        return [ops.concatenate(repeated, axis=-1)]

    return terms


@plain_layer.register(synthesizers.LocalDenseSynthesizer)
def _local_dense(synthesizer, graph):
    reach, heads = synthesizer.reach, synthesizer.num_heads

    def terms(query, source):
        length, bias = query.shape[1], synthesizer.b2
        if bias is not None:
            bias = ops.convert_to_numpy(bias)[None, :, None]
        x = synthesizer.activation(graph.call(synthesizer.hidden, query))
        band = graph.product("bthk,ohk->bhto", x, synthesizer.W2, bias)
        # If rows of length n are read as rows of length n - 1, each is shifted
        # by one more: entry o of row i moves to i + o.
        width = length + 2 * reach
        rows = ops.pad(band, [[0, 0], [0, 0], [0, 0], [0, length]])
        flat = ops.reshape(rows, (-1, heads, length * (width + 1)))
        flat = flat[..., : length * width]
        rows = ops.reshape(flat, (-1, heads, length, width))
        return [rows[..., reach : reach + length]]

    return terms

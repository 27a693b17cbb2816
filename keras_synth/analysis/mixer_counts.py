"""`multiplications` of the mixers without a synthesizer."""

import math

from keras_synth import mixers
from keras_synth.analysis.counts import added, multiplications, of_dense
from keras_synth.attention.patterns import GlobalTokens


def _of_heads(cls):
    """Registers a function that returns the pairs of all heads, and the rest.

    The rest does not include the projections to heads, nor a product with keys,
    a division and a product with values for each pair.
    """

    def register(count):
        @multiplications.register(cls)
        def total(layer, queries, keys):
            layer._check_built()
            layer._check_lengths(queries, keys)
            pairs, others = count(layer, queries, keys)
            source = of_dense(layer.key, keys) + of_dense(layer.value, keys)
            own = {
                "projections": of_dense(layer.query, queries) + source,
                "logits": pairs * layer.key_dim,
                "softmax": pairs,
                "mixing": pairs * layer.value_dim,
                "output": of_dense(layer.attention_output, queries),
            }
            return added(own, others)

        return total

    return register


@_of_heads(mixers.LongformerAttention)
def _longformer(layer, queries, keys):
    # Each token has one query, local or global, but two keys and two values.
    first = min(layer.global_tokens, queries)
    products = of_dense(layer.global_query, first)
    products -= of_dense(layer.query, first)
    products += of_dense(layer.global_key, keys)
    products += of_dense(layer.global_value, keys)
    pattern = layer.pattern | GlobalTokens(layer.global_tokens)
    pairs = layer.num_heads * pattern.pairs(queries)
    return pairs, {"projections": products}


@_of_heads(mixers.CompressedAttention)
def _compressed(layer, queries, keys):
    windows = layer.num_heads * -(-keys // layer.stride)
    squares = layer.key_dim**2 + layer.value_dim**2
    return queries * windows, {"projections": windows * layer.kernel * squares}


@_of_heads(mixers.LinformerAttention)
def _linformer(layer, queries, keys):
    slots = layer.num_heads * layer.rank
    widths = layer.key_dim + layer.value_dim  # of products with E and F
    return slots * queries, {"projections": slots * keys * widths}


@_of_heads(mixers.ReformerAttention)
def _reformer(layer, queries, keys):
    # In each round rotations, and a chunk with itself and the previous one,
    # including pairs in different buckets.
    size, rounds = layer.bucket_size, layer.hashes * layer.num_heads
    whole, last = divmod(queries, size)
    pairs = whole * 2 * size**2 + last * (size + last)
    pairs -= size * min(queries, size)  # the first has no previous one
    turned = 0 if layer.rotations is None else layer.rotations.shape[-1]
    rotations = rounds * queries * layer.key_dim * turned
    return rounds * pairs, {"logits": rotations}


@_of_heads(mixers.RoutingAttention)
def _routing(layer, queries, keys):
    # Queries and keys with centroids, pairs of clusters, and averages.
    clusters = layer.num_heads * layer.clusters
    return clusters * min(layer.cluster_size, queries) ** 2, {
        "logits": clusters * (queries + keys) * layer.key_dim,
        "mixing": layer.num_heads * queries * layer.value_dim,
    }


@_of_heads(mixers.SinkhornAttention)
def _sinkhorn(layer, queries, keys):
    # The matrix of blocks, the keys and values that it sorts, and pairs with
    # both blocks. Normalising the matrix takes only a division for each entry.
    size, heads = layer.block_size, layer.num_heads
    entries = heads * (-(-queries // size)) ** 2
    whole, last = divmod(queries, size)
    return heads * (whole * size**2 + last**2 + queries * size), {
        "logits": entries * layer.key_dim,
        "softmax": entries,
        "mixing": entries * size * (layer.key_dim + layer.value_dim),
    }


@_of_heads(mixers.LinearAttention)
def _linear(layer, queries, keys):
    # The form that is not causal, without chunks: sums of weights and divisions
    # by them; sums over the source and their products with queries.
    features, values = layer.num_features, layer.value_dim
    return 0, {
        "softmax": layer.num_heads * queries * (features + values),
        "mixing": layer.num_heads * (queries + keys) * features * values,
    }


@multiplications.register(mixers.PerformerAttention)
def _performer(layer, queries, keys):
    # The products `w . x`, and squares of keys; those of queries cancel.
    # Factors that keep features in range do not count.
    products = (queries + keys) * layer.num_features + keys
    logits = layer.num_heads * layer.key_dim * products
    return added({"logits": logits}, _linear(layer, queries, keys))


# --- others, of T tokens of one sequence --------------------------------------


@multiplications.register(mixers.LightConvolution)
@multiplications.register(mixers.DynamicConvolution)
def _convolution(layer, length, source_length):
    layer._check_built()
    # Taps beyond the borders also count, and products of the gate.
    tokens = length * layer.output_dense.kernel.shape[0]
    kernels, logits = layer.num_heads * length, 0
    if isinstance(layer, mixers.DynamicConvolution):
        logits = of_dense(layer.kernel, length)
    elif layer.border == "zero":  # one kernel for all tokens
        kernels = layer.num_heads
    return added(
        {
            "projections": of_dense(layer.value, length)
            + (tokens if layer.use_glu else 0),
            "logits": logits,
            "softmax": kernels * layer.width,
            "mixing": tokens * layer.width,
            "output": of_dense(layer.output_dense, length),
        }
    )


@multiplications.register(mixers.PoolingMixer)
def _pooling(layer, length, source_length):
    layer._check_built()
    # Only a division for each number, because sums do not count.
    return {"mixing": length * layer._features}


@multiplications.register(mixers.MLPMixer)
def _mlp(layer, length, source_length):
    layer._check_built()
    layer._check_lengths(length, length)
    # Whole matrices: hidden units, T columns and T rows.
    return {"mixing": 2 * length * layer.hidden_dim * layer._features}


@multiplications.register(mixers.GatedMLP)
def _gated_mlp(layer, length, source_length):
    layer._check_built()
    layer._check_lengths(length, length)
    # Products with A, with T rows and columns of W, of the gate, and with C.
    gated = length * layer.output_dense.kernel.shape[0]
    return {
        "projections": of_dense(layer.value, length),
        "mixing": length * gated + gated,
        "output": of_dense(layer.output_dense, length),
    }


@multiplications.register(mixers.FourierMixer)
def _fourier(layer, length, source_length):
    layer._check_built()
    # A fast transform of n = T d complex numbers, counted for radix 2: log2(n)
    # times n / 2 complex products of four real ones each (Cooley and Tukey,
    # 1965, doi.org/10.1090/S0025-5718-1965-0178586-1).
    numbers = length * layer._features
    return {"mixing": round(2 * numbers * math.log2(max(numbers, 1)))}

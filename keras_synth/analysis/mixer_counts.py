"""`multiplications` of the mixers without a synthesizer."""

import math

from keras_synth.analysis.counts import (
    added,
    multiplications,
    of_dense,
    of_multi_head,
    of_pairs,
)
from keras_synth.attention.patterns import GlobalTokens
from keras_synth.mixers.compressed import CompressedAttention
from keras_synth.mixers.convolution import (
    Convolution,
    DynamicConvolution,
    LightConvolution,
)
from keras_synth.mixers.fourier import FourierMixer
from keras_synth.mixers.kernel_attention import KernelMixer
from keras_synth.mixers.linformer import LinformerAttention
from keras_synth.mixers.longformer import LongformerAttention
from keras_synth.mixers.mlp import GatedMLP, MLPMixer
from keras_synth.mixers.performer import PerformerAttention
from keras_synth.mixers.pooling import PoolingMixer
from keras_synth.mixers.reformer import ReformerAttention
from keras_synth.mixers.routing import RoutingAttention
from keras_synth.mixers.sinkhorn import SinkhornAttention

__all__ = ["multiplications"]

# --- attention: of T queries and S keys ---------------------------------------


@multiplications.register(LongformerAttention)
def _longformer(layer, queries, keys):
    # Each token has one query, local or global, but two keys and two values.
    first = min(layer.global_tokens, queries)
    products = of_dense(layer.global_query, first)
    products -= of_dense(layer.query, first)
    products += of_dense(layer.global_key, keys)
    products += of_dense(layer.global_value, keys)
    pattern = layer.pattern | GlobalTokens(layer.global_tokens)
    pairs = layer.num_heads * pattern.pairs(queries)
    return added(
        of_multi_head(layer, queries, keys),
        {"projections": products},
        of_pairs(pairs, layer.key_dim, layer.value_dim),
    )


@multiplications.register(CompressedAttention)
def _compressed(layer, queries, keys):
    windows = layer.num_heads * -(-keys // layer.stride)
    squares = layer.key_dim**2 + layer.value_dim**2
    return added(
        of_multi_head(layer, queries, keys),
        {"projections": windows * layer.kernel * squares},
        of_pairs(queries * windows, layer.key_dim, layer.value_dim),
    )


@multiplications.register(LinformerAttention)
def _linformer(layer, queries, keys):
    slots = layer.num_heads * layer.rank
    widths = layer.key_dim + layer.value_dim
    return added(
        of_multi_head(layer, queries, keys),
        {"projections": slots * keys * widths},  # by E and F
        of_pairs(slots * queries, layer.key_dim, layer.value_dim),
    )


@multiplications.register(ReformerAttention)
def _reformer(layer, queries, keys):
    # In each round rotations, and a chunk with itself and the previous one,
    # including pairs in different buckets; and once the length of keys.
    size, rounds = layer.bucket_size, layer.hashes * layer.num_heads
    whole, last = divmod(queries, size)
    pairs = whole * 2 * size**2 + last * (size + last)
    pairs -= size * min(queries, size)  # the first has no previous one
    turned = 0 if layer.rotations is None else layer.rotations.shape[-1]
    return added(
        of_multi_head(layer, queries, keys),
        {"logits": rounds * queries * layer.key_dim * turned},
        of_pairs(rounds * pairs, layer.key_dim, layer.value_dim),
    )


@multiplications.register(RoutingAttention)
def _routing(layer, queries, keys):
    # Queries and keys with centroids, pairs of clusters, and averages.
    heads, clusters = layer.num_heads, layer.clusters
    pairs = heads * clusters * min(layer.cluster_size, queries) ** 2
    own = {
        "logits": heads * clusters * (queries + keys) * layer.key_dim,
        "mixing": heads * queries * layer.value_dim,
    }
    return added(
        of_multi_head(layer, queries, keys),
        own,
        of_pairs(pairs, layer.key_dim, layer.value_dim),
    )


@multiplications.register(SinkhornAttention)
def _sinkhorn(layer, queries, keys):
    # The matrix of blocks, the keys and values that it sorts, and pairs with
    # both blocks. Normalising the matrix takes only a division for each entry.
    size, heads = layer.block_size, layer.num_heads
    blocks = -(-queries // size)
    whole, last = divmod(queries, size)
    pairs = heads * (whole * size**2 + last**2 + queries * size)
    entries = heads * blocks**2
    own = {
        "logits": entries * layer.key_dim,
        "softmax": entries,
        "mixing": entries * size * (layer.key_dim + layer.value_dim),
    }
    return added(
        of_multi_head(layer, queries, keys),
        own,
        of_pairs(pairs, layer.key_dim, layer.value_dim),
    )


@multiplications.register(KernelMixer)
def _kernels(layer, queries, keys):
    # The form that is not causal, without chunks: sums of weights and divisions
    # by them; sums over the source and their products with queries.
    features, values = layer.num_features, layer.value_dim
    own = {
        "softmax": layer.num_heads * queries * (features + values),
        "mixing": layer.num_heads * (queries + keys) * features * values,
    }
    return added(of_multi_head(layer, queries, keys), own)


@multiplications.register(PerformerAttention)
def _performer(layer, queries, keys):
    # The products `w . x`, and squares of keys; those of queries cancel.
    # Factors that keep features in range do not count.
    products = (queries + keys) * layer.num_features + keys
    logits = layer.num_heads * layer.key_dim * products
    return added({"logits": logits}, _kernels(layer, queries, keys))


def _features(layer):
    """The width of tokens for which a layer is built."""
    config = layer.get_build_config()
    shapes = config.get("shapes_dict", config)
    return next(iter(shapes.values()))[-1]


# --- others, of T tokens of one sequence --------------------------------------


@multiplications.register(Convolution)
def _convolution(layer, length, source_length):
    # Taps beyond the borders also count, and products of the gate.
    tokens = length * layer.output_dense.kernel.shape[0]
    gate = tokens if layer.use_glu else 0
    return {
        "projections": of_dense(layer.value, length) + gate,
        "mixing": tokens * layer.width,
        "output": of_dense(layer.output_dense, length),
    }


@multiplications.register(LightConvolution)
def _light_convolution(layer, length, source_length):
    # One kernel for all tokens, unless tokens at borders have their own.
    kernels = layer.num_heads * (1 if layer.border == "zero" else length)
    own = {"softmax": kernels * layer.width}
    return added(_convolution(layer, length, source_length), own)


@multiplications.register(DynamicConvolution)
def _dynamic_convolution(layer, length, source_length):
    own = {
        "logits": of_dense(layer.kernel, length),
        "softmax": length * layer.num_heads * layer.width,
    }
    return added(_convolution(layer, length, source_length), own)


@multiplications.register(PoolingMixer)
def _pooling(layer, length, source_length):
    # Only a division for each number, because sums do not count.
    return {"mixing": length * _features(layer)}


@multiplications.register(MLPMixer)
def _mlp(layer, length, source_length):
    # Whole matrices: hidden units, T columns and T rows.
    return {"mixing": 2 * length * layer.hidden_dim * _features(layer)}


@multiplications.register(GatedMLP)
def _gated_mlp(layer, length, source_length):
    # Products with A, with T rows and columns of W, of the gate, and with C.
    gated = length * layer.output_dense.kernel.shape[0]
    return {
        "projections": of_dense(layer.value, length),
        "mixing": length * gated + gated,
        "output": of_dense(layer.output_dense, length),
    }


@multiplications.register(FourierMixer)
def _fourier(layer, length, source_length):
    # A fast transform of n = T d complex numbers, counted for radix 2: log2(n)
    # times n / 2 complex products of four real ones each (Cooley and Tukey,
    # 1965, doi.org/10.1090/S0025-5718-1965-0178586-1).
    numbers = length * _features(layer)
    return {"mixing": round(2 * numbers * math.log2(max(numbers, 1)))}

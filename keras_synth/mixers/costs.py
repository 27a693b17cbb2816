"""How many multiplications each type of synthesizer and mixer takes.

What `multiplications` of a layer returns: the function below for the nearest of
its classes. `Mixer.multiplications` says what is counted, and what is not.
"""

import math

from keras_synth.attention.multiplications import (
    added,
    of_attend,
    of_dense,
    of_mixer,
    of_pairs,
    of_projections,
    of_synthesizer,
    pairs_or_all,
    pairs_within,
)
from keras_synth.attention.patterns import GlobalTokens
from keras_synth.mixers.compressed import CompressedAttention
from keras_synth.mixers.convolution import Convolution
from keras_synth.mixers.dynamic_convolution import DynamicConvolution
from keras_synth.mixers.fourier import FourierMixer
from keras_synth.mixers.gated_mlp import GatedMLP
from keras_synth.mixers.kernel_attention import KernelMixer
from keras_synth.mixers.light_convolution import LightConvolution
from keras_synth.mixers.linformer import LinformerAttention
from keras_synth.mixers.longformer import LongformerAttention
from keras_synth.mixers.mlp import MLPMixer
from keras_synth.mixers.multi_head import MultiHeadMixer
from keras_synth.mixers.pair_mixer import PairMixer
from keras_synth.mixers.performer import PerformerAttention
from keras_synth.mixers.pooling import PoolingMixer
from keras_synth.mixers.reformer import ReformerAttention
from keras_synth.mixers.routing import RoutingAttention
from keras_synth.mixers.sinkhorn import SinkhornAttention
from keras_synth.mixers.sparse import PatternMixer
from keras_synth.mixers.synthetic_attention import SyntheticAttention
from keras_synth.synthesizers.composite import CompositeSynthesizer
from keras_synth.synthesizers.dense import DenseSynthesizer
from keras_synth.synthesizers.dot_product import DotProductSynthesizer
from keras_synth.synthesizers.factorized_dense import (
    FactorizedDenseSynthesizer,
)
from keras_synth.synthesizers.local_dense import LocalDenseSynthesizer
from keras_synth.synthesizers.random import (
    FactorizedRandomSynthesizer,
    RandomSynthesizer,
)
from keras_synth.synthesizers.relative import DistanceSynthesizer
from keras_synth.synthesizers.table import TableSynthesizer

# --- logits: of `pairs` of T queries and S keys, of all by default ------------


@of_synthesizer.register(DistanceSynthesizer)
@of_synthesizer.register(RandomSynthesizer)
@of_synthesizer.register(TableSynthesizer)
def _table(synthesizer, queries, keys, pairs=None):
    return {}


@of_synthesizer.register(DotProductSynthesizer)
def _dot_product(synthesizer, queries, keys, pairs=None):
    pairs = synthesizer.num_heads * pairs_or_all(pairs, queries, keys)
    return {
        "projections": of_dense(synthesizer.query, queries)
        + of_dense(synthesizer.key, keys),
        "logits": pairs * synthesizer.key_dim,
    }


@of_synthesizer.register(DenseSynthesizer)
def _dense(synthesizer, queries, keys, pairs=None):
    heads, width = synthesizer.num_heads, synthesizer.hidden_dim
    if width is None:
        heads, width, _ = synthesizer.W_a.shape  # one head if they share it
    return {
        "projections": of_dense(synthesizer.hidden, queries),
        "logits": heads * pairs_or_all(pairs, queries, keys) * width,
    }


@of_synthesizer.register(LocalDenseSynthesizer)
def _local_dense(synthesizer, queries, keys, pairs=None):
    pairs = _within(synthesizer, queries, keys, pairs)
    return {
        "projections": of_dense(synthesizer.hidden, queries),
        "logits": synthesizer.num_heads * pairs * synthesizer.hidden_dim,
    }


def _within(synthesizer, queries, keys, pairs=None):
    """Those of some pairs that a synthesizer has logits for."""
    pairs = pairs_or_all(pairs, queries, keys)
    if synthesizer.reach is None:
        return pairs
    return min(pairs, pairs_within(synthesizer.reach + 1, queries, keys))


@of_synthesizer.register(FactorizedDenseSynthesizer)
def _factorized_dense(synthesizer, queries, keys, pairs=None):
    a, b = synthesizer.factors
    rows = synthesizer.num_heads * queries  # whole ones
    return {
        "projections": of_dense(synthesizer.hidden, queries),
        "logits": rows * ((a + b) * synthesizer.A.shape[1] + a * b),
    }


@of_synthesizer.register(FactorizedRandomSynthesizer)
def _factorized_random(synthesizer, queries, keys, pairs=None):
    # As if for each sample: a batch needs them once.
    pairs = synthesizer.num_heads * pairs_or_all(pairs, queries, keys)
    return {"logits": pairs * synthesizer.rank}


@of_synthesizer.register(CompositeSynthesizer)
def _composite(synthesizer, queries, keys, pairs=None):
    pairs = _within(synthesizer, queries, keys, pairs)
    parts = synthesizer.synthesizers
    return added(*(x.multiplications(queries, keys, pairs) for x in parts))


# --- attention: of T queries and S keys ---------------------------------------


@of_mixer.register(SyntheticAttention)
def _attention(layer, queries, keys):
    # All pairs, unless a window or a pattern leaves some out.
    within = pairs_within(layer.sliding_window, queries, keys)
    if layer.pattern is not None:
        within = min(within, layer.pattern.pairs(queries))
    pairs = sum(
        group.num_heads * _within(group, queries, keys, within)
        for group in layer.synthesizer.head_groups()
    )
    values = layer.num_heads * layer.value_dim
    gate = of_dense(layer.gate, queries)
    if layer.gate is not None:
        gate += queries * values
    own = {
        "projections": gate + of_dense(layer.value, keys),
        "softmax": pairs,
        "mixing": pairs * layer.value_dim,
        "output": of_dense(layer.attention_output, queries),
    }
    logits = layer.synthesizer.multiplications(queries, keys, within)
    return added(own, logits)


@of_mixer.register(MultiHeadMixer)
def _multi_head(layer, queries, keys):
    return added(
        layer.projection_multiplications(queries, keys),
        layer.attend_multiplications(queries, keys),
        {"output": of_dense(layer.attention_output, queries)},
    )


@of_projections.register(MultiHeadMixer)
def _of_tokens(layer, queries, keys):
    source = of_dense(layer.key, keys) + of_dense(layer.value, keys)
    return {"projections": of_dense(layer.query, queries) + source}


@of_attend.register(PairMixer)
def _pairs(layer, queries, keys):
    # As if not causal; blocks that hold the pairs may hold others, too.
    pairs = queries * keys
    if layer.pattern is not None:
        pairs = layer.pattern.pairs(queries)
    return of_pairs(layer.num_heads * pairs, layer.key_dim, layer.value_dim)


@of_attend.register(PatternMixer)
def _pattern(layer, queries, keys):
    layer._check_length(queries)
    return _pairs(layer, queries, keys)


@of_attend.register(LongformerAttention)
def _longformer(layer, queries, keys):
    layer._check_length(queries)
    pattern = layer.pattern | GlobalTokens(layer.global_tokens)
    pairs = layer.num_heads * pattern.pairs(queries)
    return of_pairs(pairs, layer.key_dim, layer.value_dim)


@of_projections.register(LongformerAttention)
def _longformer_of_tokens(layer, queries, keys):
    # Each token has one query, its own or a global one, but two keys and two
    # values.
    first = min(layer.global_tokens, queries)
    source = of_dense(layer.global_key, keys)
    source += of_dense(layer.global_value, keys)
    return added(
        _of_tokens(layer, queries - first, keys),
        {"projections": of_dense(layer.global_query, first) + source},
    )


@of_attend.register(CompressedAttention)
def _compressed(layer, queries, keys):
    pairs = layer.num_heads * queries * -(-keys // layer.stride)
    return of_pairs(pairs, layer.key_dim, layer.value_dim)


@of_projections.register(CompressedAttention)
def _compressed_of_tokens(layer, queries, keys):
    windows = -(-keys // layer.stride) * layer.kernel * layer.num_heads
    squares = layer.key_dim**2 + layer.value_dim**2
    own = {"projections": windows * squares}
    return added(_of_tokens(layer, queries, keys), own)


@of_attend.register(LinformerAttention)
def _linformer(layer, queries, keys):
    pairs = layer.num_heads * queries * layer.rank
    return of_pairs(pairs, layer.key_dim, layer.value_dim)


@of_projections.register(LinformerAttention)
def _linformer_of_tokens(layer, queries, keys):
    along = layer.num_heads * layer.rank * keys  # by E and F
    along *= layer.key_dim + layer.value_dim
    return added(_of_tokens(layer, queries, keys), {"projections": along})


@of_attend.register(ReformerAttention)
def _reformer(layer, queries, keys):
    # In each round rotations, and a chunk with itself and the one before it,
    # whatever buckets leave out of that; keys once have length 1.
    size, rounds = layer.bucket_size, layer.hashes * layer.num_heads
    whole, last = divmod(queries, size)
    pairs = whole * 2 * size**2 + last * (size + last)
    pairs -= size * min(queries, size)  # there is none before the first
    turned = 0 if layer.rotations is None else layer.rotations.shape[-1]
    own = {"logits": rounds * queries * layer.key_dim * turned}
    counts = of_pairs(rounds * pairs, layer.key_dim, layer.value_dim)
    return added(own, counts)


@of_attend.register(RoutingAttention)
def _routing(layer, queries, keys):
    # Queries and keys with centroids, pairs of clusters, and averages.
    heads, clusters = layer.num_heads, layer.clusters
    pairs = heads * clusters * min(layer.cluster_size, queries) ** 2
    own = {
        "logits": heads * clusters * (queries + keys) * layer.key_dim,
        "mixing": heads * queries * layer.value_dim,
    }
    return added(own, of_pairs(pairs, layer.key_dim, layer.value_dim))


@of_attend.register(SinkhornAttention)
def _sinkhorn(layer, queries, keys):
    # The matrix of blocks, keys and values that it sorts, and pairs with both
    # blocks; normalising it takes no products, but a division for each entry.
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
    return added(own, of_pairs(pairs, layer.key_dim, layer.value_dim))


@of_attend.register(KernelMixer)
def _kernels(layer, queries, keys):
    # As if not causal, so without chunks: a row's sum of weights and what is
    # divided by it; sums over the source and their products with queries.
    features, values = layer.num_features, layer.value_dim
    return {
        "softmax": layer.num_heads * queries * (features + values),
        "mixing": layer.num_heads * (queries + keys) * features * values,
    }


@of_attend.register(PerformerAttention)
def _performer(layer, queries, keys):
    # The products `w . x`, and the keys' squares; the queries' cancel. Factors
    # that keep features in range take none.
    products = (queries + keys) * layer.num_features + keys
    logits = layer.num_heads * layer.key_dim * products
    return added({"logits": logits}, _kernels(layer, queries, keys))


# --- others: of T tokens of one sequence --------------------------------------


@of_mixer.register(Convolution)
def _convolution(layer, length, source_length):
    # Taps beyond the borders count as others do; with a gate its products.
    tokens = length * layer.output_dense.kernel.shape[0]
    gate = tokens if layer.use_glu else 0
    return {
        "projections": of_dense(layer.value, length) + gate,
        "mixing": tokens * layer.width,
        "output": of_dense(layer.output_dense, length),
    }


@of_mixer.register(LightConvolution)
def _light_convolution(layer, length, source_length):
    # One kernel for all tokens, unless those at borders have their own.
    kernels = layer.num_heads * (1 if layer.border == "zero" else length)
    own = {"softmax": kernels * layer.width}
    return added(_convolution(layer, length, source_length), own)


@of_mixer.register(DynamicConvolution)
def _dynamic_convolution(layer, length, source_length):
    own = {
        "logits": of_dense(layer.kernel, length),
        "softmax": length * layer.num_heads * layer.width,
    }
    return added(_convolution(layer, length, source_length), own)


@of_mixer.register(PoolingMixer)
def _pooling(layer, length, source_length):
    # Sums take none; a division for each number.
    return {"mixing": length * layer._features}


@of_mixer.register(MLPMixer)
def _mlp(layer, length, source_length):
    # Of whole matrices: hidden units, T columns and T rows.
    return {"mixing": 2 * length * layer.hidden_dim * layer._features}


@of_mixer.register(GatedMLP)
def _gated_mlp(layer, length, source_length):
    # By A, by W, of T rows and columns, with the gate's products, and by C.
    gated = length * layer.output_dense.kernel.shape[0]
    return {
        "projections": of_dense(layer.value, length),
        "mixing": length * gated + gated,
        "output": of_dense(layer.output_dense, length),
    }


@of_mixer.register(FourierMixer)
def _fourier(layer, length, source_length):
    # A fast transform of n = T d complex numbers, as of radix 2 whatever its
    # sizes: log2(n) times n / 2 complex products, of four real ones each
    # (Cooley and Tukey, 1965, doi.org/10.1090/S0025-5718-1965-0178586-1).
    numbers = length * layer._features
    return {"mixing": round(2 * numbers * math.log2(max(numbers, 1)))}

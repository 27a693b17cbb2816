"""Values against the reference and Keras, and tiled tables."""

import keras
import numpy as np
import pytest
import reference
from design_helpers import (
    B,
    D,
    H,
    K,
    N,
    S,
    T,
    attention,
    call,
    check,
    close,
    logits_of,
    normal,
    oriented,
    randomized,
    scores_of,
    tables,
    to_numpy,
    value_of,
    weighted_logits,
)

from keras_synth.layers import SyntheticAttention
from keras_synth.synthesizers import (
    DenseSynthesizer,
    DotProductSynthesizer,
    FactorizedDenseSynthesizer,
    FactorizedRandomSynthesizer,
    MixtureSynthesizer,
    RandomSynthesizer,
)


def test_linear_dense_is_one_projection_per_token():
    layer = attention(DenseSynthesizer(H, None, N))
    x = normal(B, T, D)
    logits = reference.linear_dense_logits(
        x, oriented(layer, H, D, N), oriented(layer, H, N), T
    )
    check(layer, [x], logits)


@pytest.mark.parametrize("hidden_dim", [K, None])
def test_factorized_dense_multiplies_repeated_by_tiled(hidden_dim):
    layer = attention(
        FactorizedDenseSynthesizer(H, hidden_dim, N, factors=(3, 5))
    )
    x = normal(B, T, D)
    hidden = [None, None]
    if hidden_dim is not None:
        hidden = [oriented(layer, D, H, K), oriented(layer, H, K)]
    width = hidden_dim or D
    logits = reference.factorized_dense_logits(
        x,
        *hidden,
        oriented(layer, H, width, 3),
        oriented(layer, H, 3),
        oriented(layer, H, width, 5),
        oriented(layer, H, 5),
        T,
    )
    check(layer, [x], logits)


@pytest.mark.parametrize("case", ["R", "FR"])
def test_random_attention_starts_near_uniform_but_not_exactly(case):
    layer = SyntheticAttention(H, K, synthesizer=case, max_length=N)
    scores = scores_of(layer, normal(1, N, D))
    assert np.abs(scores * N - 1).max() < 0.5
    assert scores.std() > 1e-6


def test_shared_queries_are_the_hidden_layer_before_scaling():
    parts = [DenseSynthesizer(H, K, N), DotProductSynthesizer(H, K)]
    layer = attention(MixtureSynthesizer(parts, share_queries=True))
    x = normal(B, S, D)
    query = value_of(layer, "query/kernel"), value_of(layer, "query/bias")
    logits = [
        reference.dense_logits(
            x, *query, oriented(layer, N, H, K), oriented(layer, H, N), S
        ),
        weighted_logits(layer, "V", x, x),
    ]
    logits = reference.mixture_logits(logits, value_of(layer, "alphas"))
    check(layer, [x], logits)


# Against keras.layers.MultiHeadAttention.


def multi_head_attention_pair(*shapes, **options):
    """Keras' layer, and ours with its weights in the same order."""
    inputs = [np.zeros((1, 2, width), "float32") for width in shapes]
    theirs = keras.layers.MultiHeadAttention(H, K, **options)
    theirs(*inputs)
    randomized(theirs)
    ours = SyntheticAttention(H, K, synthesizer="V", **options)
    ours(*inputs)
    ours.set_weights(theirs.get_weights())
    return ours, theirs


def test_dot_product_equals_multi_head_attention_with_a_key():
    ours, theirs = multi_head_attention_pair(D, 5, 3, output_shape=6)
    inputs = normal(B, T, D), normal(B, S, 5), normal(B, S, 3)
    actual = call(ours, *inputs, return_attention_scores=True)
    expected = call(theirs, *inputs, return_attention_scores=True)
    close(actual[0], expected[0])
    close(actual[1], expected[1])


# Lengths.


@pytest.mark.parametrize("fixed", [False, True])
def test_random_tables_tile_in_both_directions(fixed):
    table = RandomSynthesizer(H, 3, fixed=fixed, long_inputs="tile")
    layer = attention(table)
    (R,) = tables(layer, H, 3, 3)
    x = normal(B, N, D)
    logits = reference.tiled_random_logits(to_numpy(R), N, N)
    check(layer, [x], logits)
    mask = reference.combine_masks(B, H, N, N, causal=True)
    check(layer, [x], logits, mask, use_causal_mask=True)


def test_factorized_random_tables_tile_in_both_directions():
    layer = attention(
        FactorizedRandomSynthesizer(H, 3, rank=2, long_inputs="tile")
    )
    R1, R2 = (to_numpy(table) for table in tables(layer, H, 3, 2))
    x, source = normal(B, T, D), normal(B, N, D, seed=1)
    logits = reference.tiled_factorized_random_logits(R1, R2, T, N)
    check(layer, [x, source], logits)


@pytest.mark.parametrize("cls", [DenseSynthesizer, FactorizedDenseSynthesizer])
def test_dense_rows_tile_in_columns_only(cls):
    layer = attention(cls(H, K, 3, long_inputs="tile"))
    x = normal(B, N, D)
    pieces = [logits_of(layer, x[:, i : i + 1], x[:, :3]) for i in range(N)]
    logits = reference.tiled_columns(np.concatenate(pieces, axis=2), N)
    check(layer, [x], logits)

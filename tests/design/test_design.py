"""What design fixes: values, lengths, weights, masks, blocks.

Values are those of the reference, or of Keras and KerasHub.
"""

import numpy as np
import pytest
import reference
from backend import numpy
from design_helpers import (
    CASES,
    PAIR,
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
    combined,
    count,
    flags,
    logits_of,
    normal,
    oriented,
    output_bias,
    randomized,
    scores_of,
    synthesizer_weights,
    tables,
    value_of,
    variables,
    weighted_logits,
)

from keras_synth.layers import (
    SynthesizerDecoder,
    SynthesizerEncoder,
    SyntheticAttention,
)
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


# Lengths.


@pytest.mark.parametrize("fixed", [False, True])
def test_random_tables_tile_in_both_directions(fixed):
    table = RandomSynthesizer(H, 3, fixed=fixed, long_inputs="tile")
    layer = attention(table)
    (R,) = tables(layer, H, 3, 3)
    x = normal(B, N, D)
    logits = reference.tiled_random_logits(numpy(R), N, N)
    check(layer, [x], logits)
    mask = reference.combine_masks(B, H, N, N, causal=True)
    check(layer, [x], logits, mask, use_causal_mask=True)


def test_factorized_random_tables_tile_in_both_directions():
    layer = attention(
        FactorizedRandomSynthesizer(H, 3, rank=2, long_inputs="tile")
    )
    R1, R2 = (numpy(table) for table in tables(layer, H, 3, 2))
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


@pytest.mark.parametrize("case", ["V", "R", "R+V"])
@pytest.mark.parametrize(
    "shape", [(B, H, T, S), (1, H, T, S), (B, 1, 1, S), (T, S)], ids=str
)
def test_an_attention_bias_adds_outside_the_alphas(case, shape):
    layer = attention(case)
    bias, mask = normal(*shape, seed=2), flags("111100", "110111")
    logits, options = logits_of(layer, *PAIR) + bias, {"attention_bias": bias}
    check(layer, PAIR, logits, **options)
    check(layer, PAIR, logits, mask[:, None, None], value_mask=mask, **options)


def test_the_synthesizer_is_keyword_only():
    with pytest.raises(TypeError):
        SyntheticAttention(H, K, "V")


# Weights: names, shapes, counts.


def parameters(letter):
    """Per layer, without biases: the design's table, times the heads."""
    a, b = reference.default_factors(N)
    per_head = {
        "V": 2 * D * K,
        "D": D * K + K * N,
        "R": N * N,
        "Fix": N * N,
        "FD": D * K + K * (a + b),
        "FR": 2 * N * 8,
    }
    return H * per_head[letter]


@pytest.mark.parametrize("case", CASES)
def test_parameter_counts_are_those_of_the_table(case):
    layer = attention(case, use_bias=False)
    parts = [part.strip() for part in case.split("+")]
    letters = [part.upper() if part.islower() else part for part in parts]
    expected = sum(parameters(letter) for letter in letters)
    if len(letters) > 1:
        expected += len(letters) * H
    assert count(synthesizer_weights(layer)) == expected
    assert count(layer.weights) == expected + 2 * D * H * K
    trainable = 0 if case == "Fix" else expected
    assert count(layer.trainable_weights) == trainable + 2 * D * H * K


def test_linear_and_shared_forms_have_fewer_weights():
    plain = {"use_bias": False}
    dense = DenseSynthesizer(H, K, N, **plain)
    parts = [dense, DotProductSynthesizer(H, K, **plain)]
    for synthesizer, expected in (
        (DenseSynthesizer(H, None, N, **plain), H * D * N),
        (
            FactorizedDenseSynthesizer(H, None, N, factors=(3, 5), **plain),
            H * D * (3 + 5),
        ),
        (
            DenseSynthesizer(H, K, N, shared_heads=True, **plain),
            D * H * K + K * N,
        ),
        (
            MixtureSynthesizer(parts, share_queries=True),
            H * K * N + 2 * D * H * K + 2 * H,
        ),
    ):
        layer = attention(synthesizer)
        assert count(synthesizer_weights(layer)) == expected


# Errors.


@pytest.mark.parametrize("case", ["V", "R"])
def test_dropout_follows_normalisation(case):
    """A row of one weight, 1, becomes either 0 or 1 / (1 - rate)."""
    layer = attention(case, num_heads=1, dropout=0.75, seed=1)
    x = np.repeat(normal(1, 1, D), 4, axis=0)
    clean = call(layer, x) - output_bias(layer)
    dropped = []
    for _ in range(12):
        context = call(layer, x, training=True) - output_bias(layer)
        for before, after in zip(clean, context, strict=True):
            dropped.append(bool(np.abs(after).max() < 1e-6))
            close(after, before * (0.0 if dropped[-1] else 4.0), 1e-4)
    assert set(dropped) == {False, True}


def encoder(case, seed=0, **options):
    layer = SynthesizerEncoder(12, H, synthesizer=case, max_length=N, **options)
    layer(np.zeros((1, 2, D), "float32"))
    return randomized(layer, seed)


def decoder(case, cross=False, seed=0, **options):
    layer = SynthesizerDecoder(12, H, synthesizer=case, max_length=N, **options)
    x = np.zeros((1, 2, D), "float32")
    layer(x, x) if cross else layer(x)
    return randomized(layer, seed)


@pytest.mark.parametrize("case", ["V", "R"])
@pytest.mark.parametrize("normalize_first", [False, True])
def test_encoders_have_the_call_of_kerashub(case, normalize_first):
    layer = encoder(case, normalize_first=normalize_first)
    x, mask = normal(B, S, D), flags("111100", "111111")
    allowed = normal(B, S, S, seed=7) < 1.0
    options = {"padding_mask": mask, "attention_mask": allowed}
    output, scores = call(
        layer, x, training=False, return_attention_scores=True, **options
    )
    assert output.shape == (B, S, D)
    assert scores.shape == (B, H, S, S)
    visible = combined(S, S, value_mask=mask, attention_mask=allowed)
    real = np.broadcast_to(mask[:, None, :, None], visible.shape)
    assert (scores[real & ~visible] == 0).all()
    sums, real = scores.sum(axis=-1), real[..., 0]
    close(sums[real], visible.any(axis=-1)[real])
    close(call(layer, x, **options)[mask], output[mask])


@pytest.mark.parametrize("normalize_first", [False, True])
def test_a_dot_product_encoder_equals_that_of_kerashub(normalize_first):
    keras_hub = pytest.importorskip("keras_hub")
    options = {"normalize_first": normalize_first, "activation": "gelu"}
    theirs = keras_hub.layers.TransformerEncoder(12, H, **options)
    theirs(np.zeros((1, 2, D), "float32"))
    randomized(theirs)
    ours = encoder("V", seed=1, **options)
    assert roles(ours).keys() == roles(theirs).keys()
    for role, weight in roles(ours).items():
        weight.assign(roles(theirs)[role])
    x, mask = normal(B, S, D), flags("111100", "111111")
    expected = call(theirs, x, padding_mask=mask)
    close(call(ours, x, padding_mask=mask)[mask], expected[mask], 2e-5)
    close(call(ours, x), call(theirs, x), 2e-5)


def roles(layer):
    """Weights by part, kind, shape and order: alike in both libraries."""
    found = {}
    for weight in layer.weights:
        owner, kind = weight.path.split("/")[-2:]
        known = ("query", "key", "value", "attention_output")
        part = owner if owner in known else None
        order = 0
        while (part, kind, tuple(weight.shape), order) in found:
            order += 1
        found[part, kind, tuple(weight.shape), order] = weight
    return found


@pytest.mark.parametrize("case", ["V", "D+V"])
def test_decoders_have_the_call_of_kerashub(case):
    layer = decoder(case, cross=True)
    x, memory = PAIR
    mask, padding = flags("1110", "1111"), flags("111100", "101111")
    own = {"decoder_padding_mask": mask}
    options = {**own, "encoder_padding_mask": padding}
    clean = call(layer, x, memory, **options)
    assert clean.shape == (B, T, D)
    close(call(layer, x, encoder_sequence=memory, **options), clean, 1e-6)
    spoiled = np.where(padding[..., None], memory, np.float32(np.nan))
    close(call(layer, x, spoiled, **options)[mask], clean[mask], 2e-5)
    spoiled = np.where(mask[..., None], x, np.float32(7.0))
    close(call(layer, spoiled, memory, **options)[mask], clean[mask], 2e-5)
    unmasked = call(layer, x, memory)
    assert np.abs(unmasked - clean)[mask].max() > 1e-3
    allowed = np.broadcast_to(padding[:, None, :], (B, T, S))
    equal = call(layer, x, memory, encoder_attention_mask=allowed, **own)
    close(equal[mask], clean[mask], 2e-5)


@pytest.mark.parametrize("case", ["V", "R", "R+V"])
def test_cross_attention_stays_dot_product(case):
    layer = decoder(case, cross=True)
    own = decoder(case)
    for ending in ("query/kernel", "key/kernel", "value/kernel"):
        extra = len(variables(layer, ending)) - len(variables(own, ending))
        assert extra == 1
    assert len(tables(layer, H, N, N)) == len(tables(own, H, N, N))

"""Multiplications counted by hand."""

from functools import partial

import pytest
from cases import MIXERS

from keras_synth import fold, layers, mixers, models, synthesizers
from keras_synth.analysis import multiplications
from keras_synth.mixers import patterns

pytestmark = pytest.mark.once  # nothing here depends on the backend

H, K, D, N, T, S = 2, 3, 10, 8, 5, 7

PROJECTION, VALUE = D * H * K, S * D * H * K
PAIRS = H * T * S
BY_HAND = {
    # name: (projections but the value's, logits)
    "V": ((T + S) * PROJECTION, PAIRS * K),
    "R": (0, 0),
    "Fix": (0, 0),
    "FR(rank=4)": (0, PAIRS * 4),
    "D": (T * PROJECTION, PAIRS * K),
    "dense(shared_heads=True)": (T * PROJECTION, PAIRS * K),
    "dense(hidden_dim=None)": (0, PAIRS * D),
    "dense(hidden_dim=None, shared_heads=True)": (0, T * S * D),
    "FD(factors=(2, 4))": (T * PROJECTION, H * T * ((2 + 4) * K + 8)),
    "relative": (0, 0),
    "alibi + V": ((T + S) * PROJECTION, PAIRS * K),
    "alibi(trainable=True) + V": ((T + S) * PROJECTION, PAIRS * K),
    "R + V": ((T + S) * PROJECTION, PAIRS * K),
    "D + V": ((2 * T + S) * PROJECTION, 2 * PAIRS * K),
    "mixture(D + V, share_queries=True)": ((T + S) * PROJECTION, 2 * PAIRS * K),
    "heads(V=1, R=1)": ((T + S) * PROJECTION // 2, PAIRS * K // 2),
    # A gate is a projection, and a product with the context.
    "attention(V, use_gate=True)": (
        (2 * T + S) * PROJECTION + T * H * K,
        PAIRS * K,
    ),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_attention(name):
    layer = mixers.get(name, num_heads=H, key_dim=K, max_length=N)
    layer.build((None, None, D), (None, None, D))
    projections, logits = BY_HAND[name]
    assert multiplications(layer, T, S) == {
        "projections": projections + VALUE,
        **({"logits": logits} if logits else {}),
        "softmax": PAIRS,
        "mixing": PAIRS * K,
        "output": T * PROJECTION,
    }


@pytest.mark.parametrize("gated", [False, True])
def test_feed_forward(gated):
    layer = layers.FeedForward(6, use_gated_activation=gated)
    layer.build((None, None, D))
    expected = 2 * D * 6 if not gated else 3 * D * 6 + 6
    assert multiplications(layer, T, T) == {"feed-forward": T * expected}


def test_a_folded_table_has_weights_already():
    layer = layers.SyntheticAttention(2, 4, synthesizer="R", max_length=T)
    layer.build((None, None, D))
    folded = fold(layer)
    whole, shorter = (multiplications(folded, n, n) for n in (T, T - 1))
    assert "softmax" not in whole
    assert shorter["softmax"] == 2 * (T - 1) ** 2  # divided by their sums


SHAPE = {
    "vocabulary_size": 20,
    "num_heads": 2,
    "hidden_dim": 8,
    "intermediate_dim": 12,
    "synthesizer": "R",
    "max_sequence_length": 16,
}


def test_models():
    backbone = models.SynthesizerBackbone(num_layers=3, **SHAPE)
    attention = {
        "projections": T * 64,
        "softmax": 2 * T * T,
        "mixing": 8 * T * T,
        "output": T * 64,
    }
    per_layer = {**attention, "feed-forward": T * 2 * 8 * 12}
    whole = {part: 3 * count for part, count in per_layer.items()}
    assert multiplications(backbone, T, T) == whole
    classifier = models.SynthesizerTextClassifier(backbone, 4)
    assert multiplications(classifier, T, T) == {**whole, "output layer": 8 * 4}
    tagger = models.SynthesizerTokenClassifier(backbone, 3)
    tags = {"output layer": T * 8 * 3}
    assert multiplications(tagger, T, T) == {**whole, **tags}
    causal = models.SynthesizerBackbone(num_layers=3, causal=True, **SHAPE)
    lm = models.SynthesizerCausalLM(causal)
    assert multiplications(lm, T, T) == {**whole, "output layer": T * 8 * 20}


def test_both_sides_of_a_translation_model():
    backbone = models.SynthesizerSeq2SeqBackbone(num_layers=1, **SHAPE)
    lm = models.SynthesizerSeq2SeqLM(backbone)
    own = 8 + 2  # mixing and softmax of a pair
    assert sum(multiplications(lm, T, S).values()) == (
        (S * 2 * 64 + S * S * own + S * 192)  # encoder
        + (T * 2 * 64 + T * T * own + T * 192)  # decoder
        + (2 * (T + S) * 64 + T * S * (own + 8))  # cross-attention
        + T * 8 * 20
    )


def test_t5_base_has_the_papers_ratios():
    """Table 4: 3.80, 3.36, 4.03 and 4.20 TFLOPs against 3.70."""
    totals = {}
    for name in ("V", "D", "R", "R+V", "D+V"):
        config = models.config("t5_base", name)
        layers = config.pop("num_layers")  # that are alike
        one = models.SynthesizerSeq2SeqBackbone(num_layers=1, **config)
        counts = multiplications(models.SynthesizerSeq2SeqLM(one), 512, 512)
        output = counts.pop("output layer")
        totals[name] = layers * sum(counts.values()) + output
    paper = {"V": 3.70, "D": 3.80, "R": 3.36, "R+V": 4.03, "D+V": 4.20}
    for name, flops in paper.items():
        ratio = totals[name] / totals["V"]
        assert ratio == pytest.approx(flops / paper["V"], rel=0.02), name


# Other mixers: L tokens, or L queries of S keys, values of 4 features. L is
# prime, and no block, stride or window divides it.
L, MAX = 11, 13
OF_KEYS, OF_VALUES = 10 * 2 * 3, 10 * 2 * 4
SELF = L * (2 * OF_KEYS + OF_VALUES)
CROSS = L * OF_KEYS + S * (OF_KEYS + OF_VALUES)
# The two nearest tokens on each side, of which those at the ends have fewer.
NEAR = 11 * 5 - 2 * (2 + 1)


def of_pairs(number, projections, key_features=3):
    """Of H = 2 heads that compare so many pairs."""
    return {
        "projections": projections,
        "logits": 2 * number * key_features,
        "softmax": 2 * number,
        "mixing": 2 * number * 4,
        "output": 11 * (2 * 4) * 10,
    }


WITHIN_ONE_SEQUENCE = {
    "local(window=2)": of_pairs(NEAR, SELF),
    "local(window=2, synthesizer='FR(rank=5) + V')": of_pairs(
        NEAR, SELF, 5 + 3
    ),
    "local(window=2, synthesizer='FD(factors=(2, 7))')": {
        **of_pairs(NEAR, 11 * (10 * 2 * 3 + OF_VALUES)),
        "logits": 2 * 11 * ((2 + 7) * 3 + 2 * 7),  # of whole rows
    },
    # Of ten tokens those at a distance of 0, 1, 2, 3 and 6; first tokens. A
    # pair that several patterns allow counts once.
    "attention(V, pattern='local(window=2) | local(window=2, dilation=3) | "
    "global(tokens=1)')": of_pairs(10 + 2 * (9 + 8 + 7 + 4) + 2 * 11 - 1, SELF),
    "local_dense(window=2)": of_pairs(NEAR, L * (OF_KEYS + OF_VALUES)),
    "local_dense(window=2) + V": of_pairs(NEAR, SELF + L * OF_KEYS, 2 * 3),
    # A head of each, of which the second sees all.
    "heads(1 * local_dense(window=2) + 1 * R)": {
        "projections": 11 * (10 * 3 + OF_VALUES),
        "logits": NEAR * 3,
        "softmax": NEAR + 11 * 11,
        "mixing": (NEAR + 11 * 11) * 4,
        "output": 11 * (2 * 4) * 10,
    },
    # Beyond the window tokens at a distance of 4 and of 8.
    "strided(stride=4, window=2)": of_pairs(NEAR + 2 * (7 + 3), SELF),
    # Three rows of all, three columns of the others, and these among them.
    "longformer(window=2, global_tokens=3)": of_pairs(
        3 * 11 + 8 * 3 + (8 * 5 - 2 * (2 + 1)),
        SELF + 11 * (OF_KEYS + OF_VALUES),
    ),
    "big_bird(block_size=2, random_blocks=9)": of_pairs(11 * 11, SELF),
    # Queries are keys. Chunks of 3, 3, 3 and 2, each with the one before it.
    "reformer(bucket_size=3, hashes=4)": {
        "projections": L * (OF_KEYS + OF_VALUES),
        "logits": 2 * 4 * (11 * 3 * 3 + 55 * 3),  # three rotations: 6 buckets
        "softmax": 2 * 4 * 55,
        "mixing": 2 * 4 * 55 * 4,
        "output": 11 * (2 * 4) * 10,
    },
    # Clusters of five of 11 queries and keys.
    "routing(clusters=3)": {
        **of_pairs(3 * 5 * 5, SELF),
        "logits": 2 * 3 * (2 * 11 * 3 + 5 * 5 * 3),
        "mixing": 2 * (3 * 5 * 5 * 4 + 11 * 4),
    },
    # Blocks of 4, 4 and 3; a sorted block has four places.
    "sinkhorn(block_size=4)": {
        **of_pairs(4 * 4 + 4 * 4 + 3 * 3 + 11 * 4, SELF),
        "logits": 2 * ((41 + 44) * 3 + 3 * 3 * 3),
        "softmax": 2 * (41 + 44 + 3 * 3),
        "mixing": 2 * ((41 + 44) * 4 + 3 * 3 * 4 * (3 + 4)),
    },
    "light_conv(width=3)": {
        "projections": 11 * 10 * 20 + 11 * 10,
        "softmax": 2 * 3,
        "mixing": 11 * 10 * 3,
        "output": 11 * 10 * 10,
    },
    "light_conv(width=4, border='renormalize', use_glu=False)": {
        "projections": 11 * 10 * 10,
        "softmax": 11 * 2 * 4,
        "mixing": 11 * 10 * 4,
        "output": 11 * 10 * 10,
    },
    "dynamic_conv(width=3)": {
        "projections": 11 * 10 * 20 + 11 * 10,
        "logits": 11 * 10 * (2 * 3),
        "softmax": 11 * 2 * 3,
        "mixing": 11 * 10 * 3,
        "output": 11 * 10 * 10,
    },
    "pooling": {"mixing": 11 * 10},
    "mlp_mixer": {"mixing": (13 * 11 + 11 * 13) * 10},
    "mlp_mixer(hidden_dim=6)": {"mixing": (6 * 11 + 11 * 6) * 10},
    "gmlp(ffn_dim=14)": {
        "projections": 11 * 10 * 14,
        "mixing": 11 * 11 * 7 + 11 * 7,
        "output": 11 * 7 * 10,
    },
    # 2 n log2(n), n = 11 * 10 = 2 ** 6.78136
    "fnet": {"mixing": 1492},
}


OF_A_SOURCE = {
    # Of rows 0 to 8; none of 9 and 10.
    "attention(V, sliding_window=3)": of_pairs(
        3 + 4 + 3 * 5 + 4 + 3 + 2 + 1, CROSS
    ),
    "additive": of_pairs(11 * 7, CROSS),
    "relu": of_pairs(11 * 7, CROSS),
    # E and F make 5 keys and values of 7.
    **{
        f"linformer(rank=5, share='{share}')": of_pairs(
            11 * 5, CROSS + 2 * 5 * 7 * (3 + 4)
        )
        for share in ("none", "heads", "key_value")
    },
    # Three windows of four keys and values: of 7 tokens the last has one.
    "compressed(stride=3, kernel=4)": of_pairs(
        11 * 3, CROSS + 3 * 4 * 2 * (3 * 3 + 4 * 4)
    ),
    "linear": {
        "projections": CROSS,
        # the sum of a row's weights, and what is divided by it
        "softmax": 2 * 11 * (3 + 4),
        "mixing": 2 * (7 * 3 * 4 + 11 * 3 * 4),
        "output": 11 * (2 * 4) * 10,
    },
    "performer(features=5)": {
        "projections": CROSS,
        # five directions, and the squares of keys
        "logits": 2 * ((11 + 7) * 5 * 3 + 7 * 3),
        "softmax": 2 * 11 * (5 + 4),
        "mixing": 2 * (7 * 5 * 4 + 11 * 5 * 4),
        "output": 11 * (2 * 4) * 10,
    },
}


@pytest.mark.parametrize("name", [*WITHIN_ONE_SEQUENCE, *OF_A_SOURCE])
def test_mixers(name):
    layer = mixers.get(name, H, K, MAX, defaults={"value_dim": 4})
    layer.build((None, None, D), (None, None, D))
    length, table = L, WITHIN_ONE_SEQUENCE
    if name in OF_A_SOURCE:
        length, table = S, OF_A_SOURCE
    assert multiplications(layer, L, length) == table[name]


def test_pairs_of_many_rows_are_counted():
    assert patterns.Window(3).pairs(1009) == 1009 * 7 - 2 * (3 + 2 + 1)


@pytest.mark.parametrize("name", MIXERS)
def test_every_mixer_counts_within_a_model(name):
    backbone = models.SynthesizerBackbone(
        num_layers=2, **{**SHAPE, "synthesizer": name}
    )
    counts = multiplications(backbone, L, L)
    assert counts.pop("feed-forward") == 2 * L * 2 * 8 * 12
    own = mixers.get(name, num_heads=2, key_dim=4, max_length=16)
    own.build((None, None, 8))
    own = multiplications(own, L, L)
    assert counts == {part: 2 * count for part, count in own.items()}
    parts = {"projections", "logits", "softmax", "mixing", "output"}
    assert {*counts} <= parts
    assert all(isinstance(count, int) for count in counts.values())


class SilentMixer(mixers.SelfMixer):
    def mix(self, x, padding_mask=None, causal=False, training=None):
        return x


class SilentAttention(mixers.MultiHeadMixer):
    def attend(self, queries, keys, values, mask, *, training=None):
        return values


class SilentSynthesizer(synthesizers.Synthesizer):
    def call(self, query, keys=None, *, start=0, length=None):
        raise NotImplementedError


@pytest.mark.parametrize(
    "layer",
    [SilentMixer(), SilentAttention(2, 4), SilentSynthesizer(2)],
    ids=lambda layer: type(layer).__name__,
)
def test_a_class_without_a_count_is_named_with_the_way_out(layer):
    name = type(layer).__name__
    match = (
        rf"{name}\. .*@keras_synth.analysis.multiplications.register\({name}"
    )
    with pytest.raises(ValueError, match=match):
        multiplications(layer, T, T)


@pytest.mark.parametrize(
    "make",
    [
        *(partial(mixers.get, name, 2, 4, 16) for name in MIXERS),
        lambda: layers.SynthesizerEncoder(8, 2, synthesizer="V"),
        lambda: layers.SynthesizerDecoder(8, 2, synthesizer="V"),
        lambda: layers.FeedForward(8),
    ],
)
def test_a_layer_that_is_not_built_says_so(make):
    with pytest.raises(ValueError, match=r"Call it.*Received.*not built"):
        multiplications(make(), T, T)


def test_a_masked_lm_guesses_only_hidden_tokens():
    shape = {**SHAPE, "max_sequence_length": 40}
    backbone = models.SynthesizerBackbone(num_layers=1, **shape)
    counts = multiplications(models.SynthesizerMaskedLM(backbone), 40, 40)
    # 6 of 40 tokens: a dense layer, and the table of tokens.
    assert counts.pop("output layer") == 6 * (8 * 8 + 8 * 20)
    assert counts == multiplications(backbone, 40, 40)


@pytest.mark.parametrize(
    "options",
    [
        {"synthesizer": "V", "sliding_window": 4},
        {"synthesizer": "local_dense(window=3)"},
    ],
)
def test_a_window_and_a_pattern_count_what_both_allow(options):
    layer = layers.SyntheticAttention(
        1, 4, pattern="stride(stride=8)", **options
    )
    layer.build((None, None, D))
    # Only the token itself is near, and a multiple of 8 away.
    assert multiplications(layer, 64, 64)["mixing"] == 64 * 4


@pytest.mark.parametrize(
    "name", ["R", "FD", "heads(R=1, V=1)", "mlp_mixer", "gmlp", "linformer"]
)
def test_too_many_tokens_are_an_error(name):
    layer = mixers.get(name, 2, K, N)
    layer.build((None, None, D))
    with pytest.raises(ValueError, match=f"max_length={N}"):
        multiplications(layer, N + 1, N + 1)

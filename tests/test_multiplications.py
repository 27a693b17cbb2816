"""Multiplications counted by hand."""

import pytest
from backend import slow_but_on

from keras_synth import layers, mixers, models, reporting

# Nothing here depends on the backend.
pytestmark = slow_but_on("torch")

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
    "R + V": ((T + S) * PROJECTION, PAIRS * K),
    "D + V": ((2 * T + S) * PROJECTION, 2 * PAIRS * K),
    "mixture(D + V, share_queries=True)": ((T + S) * PROJECTION, 2 * PAIRS * K),
    "heads(V=1, R=1)": ((T + S) * PROJECTION // 2, PAIRS * K // 2),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_attention(name):
    layer = mixers.get(name, num_heads=H, key_dim=K, max_length=N)
    layer.build((None, None, D), (None, None, D))
    projections, logits = BY_HAND[name]
    found = layer.multiplications(T, S)
    assert found == {
        "projections": projections + VALUE,
        "softmax": PAIRS,
        "mixing": PAIRS * K,
        "output": T * PROJECTION,
        **({"logits": found["logits"]} if "logits" in found else {}),
    }
    assert found.get("logits", 0) == logits


def test_a_gate_is_a_projection():
    options = {"num_heads": H, "key_dim": K, "synthesizer": "V"}
    counts = []
    for use_gate in (False, True):
        layer = layers.SyntheticAttention(**options, use_gate=use_gate)
        layer.build((None, None, D))
        counts.append(layer.multiplications(T, T)["projections"])
    plain, gated = counts
    assert gated - plain == T * PROJECTION + T * H * K


@pytest.mark.parametrize("gated", [False, True])
def test_feed_forward(gated):
    layer = layers.FeedForward(6, use_gated_activation=gated)
    layer.build((None, None, D))
    expected = 2 * D * 6 if not gated else 3 * D * 6 + 6
    assert layer.multiplications(T) == T * expected


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
    assert backbone.multiplications(T) == whole
    classifier = models.SynthesizerTextClassifier(backbone, 4)
    assert classifier.multiplications(T) == {**whole, "output layer": 8 * 4}
    causal = models.SynthesizerBackbone(num_layers=3, causal=True, **SHAPE)
    lm = models.SynthesizerCausalLM(causal)
    assert lm.multiplications(T) == {**whole, "output layer": T * 8 * 20}


def test_both_sides_of_a_translation_model():
    backbone = models.SynthesizerSeq2SeqBackbone(num_layers=1, **SHAPE)
    lm = models.SynthesizerSeq2SeqLM(backbone)
    own = 8 + 2  # mixing and softmax of a pair
    assert sum(lm.multiplications(S, T).values()) == (
        (S * 2 * 64 + S * S * own + S * 192)  # encoder
        + (T * 2 * 64 + T * T * own + T * 192)  # decoder
        + (2 * (T + S) * 64 + T * S * (own + 8))  # cross-attention
        + T * 8 * 20
    )
    assert lm.multiplications(S) == lm.multiplications(S, S)


def test_t5_base_has_the_papers_ratios():
    """Table 4: 3.80, 3.36, 4.03 and 4.20 TFLOPs against 3.70."""
    totals = {
        name: sum(
            models.SynthesizerSeq2SeqLM(
                models.SynthesizerSeq2SeqBackbone(**models.t5_base(name))
            )
            .multiplications(512)
            .values()
        )
        for name in ("V", "D", "R", "R+V", "D+V")
    }
    paper = {"V": 3.70, "D": 3.80, "R": 3.36, "R+V": 4.03, "D+V": 4.20}
    for name, flops in paper.items():
        ratio = totals[name] / totals["V"]
        assert ratio == pytest.approx(flops / paper["V"], rel=0.02), name


def test_a_table_names_all_models(capsys):
    counts = {"R": {"logits": 2_000_000}, "V": {"projections": 5_000_000}}
    reporting.print_multiplications(counts)
    printed = capsys.readouterr().out
    assert "2.50" in printed
    assert all(word in printed for word in ("R", "V", "logits", "5.0"))


def test_a_sliding_window_leaves_pairs_out():
    layer = layers.SyntheticAttention(H, K, synthesizer="V", sliding_window=3)
    layer.build((None, None, D), (None, None, D))
    pairs = H * (3 + 4 + 5 + 4 + 3)  # of five rows
    found = layer.multiplications(T, T)
    assert found["softmax"] == pairs
    assert found["logits"] == found["mixing"] == pairs * K
    # Of seven keys the last two rows see more: one, and two.
    assert layer.multiplications(T, S)["softmax"] == pairs + H * (1 + 2)


def test_what_does_not_count_says_so():
    layer = mixers.get("fnet", num_heads=H, key_dim=K)
    with pytest.raises(ValueError, match="FourierMixer does not count"):
        layer.multiplications(T, T)


def test_a_masked_lm_guesses_hidden_tokens_alone():
    backbone = models.SynthesizerBackbone(
        vocabulary_size=20,
        num_layers=1,
        num_heads=2,
        hidden_dim=8,
        intermediate_dim=16,
        synthesizer="R",
        max_sequence_length=40,
    )
    counts = models.SynthesizerMaskedLM(backbone).multiplications(40)
    # 6 of 40 tokens: a dense layer, and the table of tokens.
    assert counts.pop("output layer") == 6 * (8 * 8 + 8 * 20)
    assert counts == backbone.multiplications(40)

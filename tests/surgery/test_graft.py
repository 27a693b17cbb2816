"""Grafted models begin with the outputs of what they are made of."""

import keras
import keras_hub
import numpy as np
import pytest
from backend import numpy

from keras_synth import fold, models
from keras_synth.surgery import graft

SIZES = {
    "vocabulary_size": 30,
    "num_layers": 2,
    "num_heads": 2,
    "hidden_dim": 8,
    "intermediate_dim": 12,
    "max_sequence_length": 10,
    "dropout": 0.1,
}
FAMILIES = {
    "bert": keras_hub.models.BertBackbone,
    "distil_bert": keras_hub.models.DistilBertBackbone,
    "roberta": keras_hub.models.RobertaBackbone,
    "gpt2": keras_hub.models.GPT2Backbone,
    "ours": lambda **sizes: models.SynthesizerBackbone(
        **sizes, synthesizer="V", causal=True
    ),
}
B, T = 3, 7


def trained(name, **changes):
    """A backbone none of whose weights is 0 or 1 by default."""
    model = FAMILIES[name](**{**SIZES, **changes})
    rng = np.random.default_rng(3)
    for weight in model.weights:
        value = numpy(weight)
        weight.assign(value + 0.2 * rng.normal(size=value.shape))
    return model


def inputs(model, length=T):
    drawn = np.random.default_rng(0).integers(1, 30, (B, length))
    real = np.arange(length) < np.array([[length], [4], [2]])
    given = {"token_ids": drawn, "padding_mask": real.astype("int32")}
    if getattr(model, "num_segments", 0):
        given["segment_ids"] = (np.arange(length) > 2) + np.zeros_like(drawn)
    return given


def real_outputs(model, given):
    found = model(given)
    if isinstance(found, dict):
        found = found["sequence_output"]
    return numpy(found)[given["padding_mask"].astype(bool)]


def check_same(model, grafted, length=T):
    given = inputs(model, length)
    np.testing.assert_allclose(
        real_outputs(grafted, given), real_outputs(model, given), atol=1e-5
    )


@pytest.mark.parametrize("name", FAMILIES)
def test_outputs_are_the_same_at_the_start(name):
    model = trained(name)
    before = [numpy(w) for w in model.weights]
    check_same(model, graft(model, "R+V"))
    for weight, value in zip(model.weights, before, strict=True):
        np.testing.assert_array_equal(numpy(weight), value)


@pytest.mark.parametrize(
    "synthesizer",
    [
        "V",
        "D+V",
        "FD + V",
        "V + FR(rank=3)",
        "relative + V",
        "additive + V",
        "t5_relative(num_buckets=8, max_distance=6) + V",
        "R + mixture(D + V)",
        "mixture(R + V, per_head=False)",
    ],
)
def test_whatever_is_added_begins_without_effect(synthesizer):
    model = trained("bert")
    check_same(model, graft(model, synthesizer))


def test_some_blocks_and_shorter_sequences():
    model = trained("roberta")
    grafted = graft(model, "R+V", max_length=8, layers=[1])
    check_same(model, grafted, 8)
    tables = [w.path for w in grafted.weights if w.name == "R"]
    assert len(tables) == 1
    assert "layer_1/" in tables[0]
    assert grafted.max_sequence_length == 8


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_it_trains_saves_loads_and_folds(name, tmp_path):
    model = trained(name)
    grafted = graft(model, "R+V")
    given = inputs(model)
    table = next(w for w in grafted.weights if w.name == "R")
    head = keras.Sequential([grafted, keras.layers.Dense(1)])
    head.compile("adam", "mse")
    head.fit(given, np.ones((B, T, 1)), epochs=2, verbose=0)
    assert np.abs(numpy(table)).max() > 0
    path = tmp_path / "grafted.keras"
    grafted.save(path)
    again = keras.saving.load_model(path)
    expected = real_outputs(grafted, given)
    np.testing.assert_allclose(real_outputs(again, given), expected, atol=1e-5)
    np.testing.assert_allclose(
        real_outputs(fold(grafted), given), expected, atol=1e-4
    )


def test_a_grafted_decoder_decodes_with_a_cache():
    grafted = graft(trained("gpt2"), "R+V")
    given = inputs(grafted)
    given["padding_mask"][:] = 1
    whole = numpy(models.SynthesizerCausalLM(grafted)(given))
    lm = models.SynthesizerCausalLM(grafted)
    caches = grafted.stack.make_caches(B, T)
    ids = given["token_ids"]
    for start, end in ((0, 4), (4, 5), (5, T)):
        logits, _, caches = lm.call_with_cache(ids[:, start:end], caches, start)
        np.testing.assert_allclose(
            numpy(logits), whole[:, start:end], atol=1e-4
        )


class Plain(keras.Model):
    pass


@pytest.mark.parametrize(
    ("model", "options", "match"),
    [
        (lambda: Plain(), {}, "Only backbones.*BertBackbone.*Plain"),
        (lambda: trained("bert"), {"synthesizer": "R"}, "V in all heads"),
        (
            lambda: trained("bert"),
            {"synthesizer": "heads(V=1, R=1)"},
            "V in all heads",
        ),
        (lambda: trained("bert"), {"synthesizer": "Fix + V"}, "without effect"),
        (lambda: trained("bert"), {"synthesizer": "alibi + V"}, "without eff"),
        (lambda: trained("bert"), {"layers": [2]}, "blocks 0 to 1.*\\[2\\]"),
        (lambda: trained("bert"), {"max_length": 11}, "10 positions.*11"),
        (
            lambda: models.SynthesizerBackbone(**SIZES, synthesizer="R"),
            {},
            "compares tokens by dot products",
        ),
        (
            lambda: models.SynthesizerBackbone(**SIZES, synthesizer="R+V"),
            {},
            "compares tokens by dot products",
        ),
        (
            lambda: keras_hub.models.BertTextClassifier(trained("bert"), 2),
            {},
            "model.backbone",
        ),
    ],
)
def test_what_cannot_be_grafted_is_refused(model, options, match):
    with pytest.raises(ValueError, match=f"(?s){match}"):
        graft(model(), **{"synthesizer": "R+V", **options})


def test_quantized_and_adapted_models_are_refused():
    model = trained("gpt2")
    model.enable_lora(2)
    with pytest.raises(ValueError, match="LoRA"):
        graft(model, "R+V")
    model = trained("bert")
    model.quantize("int8")
    with pytest.raises(ValueError, match="quantized"):
        graft(model, "R+V")

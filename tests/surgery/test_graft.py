"""Grafted models begin with the outputs of what they are made of."""

import keras
import keras_hub
import numpy as np
import pytest
import small_tasks
from assertions import close, equal
from backend import numpy
from noise import noisy

from keras_synth import models
from keras_synth.surgery import graft, lengthen

SIZES = {**small_tasks.SIZES, "vocabulary_size": 30, "num_layers": 2}
SIZES |= {"intermediate_dim": 12, "max_sequence_length": 10, "dropout": 0.1}
FAMILIES = {
    "bert": keras_hub.models.BertBackbone,
    "roberta": keras_hub.models.RobertaBackbone,
    "gpt2": keras_hub.models.GPT2Backbone,
    "t5": lambda max_sequence_length, **sizes: keras_hub.models.T5Backbone(
        **sizes
    ),
    "our_seq2seq": lambda **sizes: models.SynthesizerSeq2SeqBackbone(
        **sizes, synthesizer="V", max_decoder_length=9, num_decoder_layers=1
    ),
}
B, T = 3, 7


def trained(name, noise=0.2, **changes):
    """A backbone none of whose weights is 0 or 1 by default."""
    keras.utils.set_random_seed(0)
    return noisy(FAMILIES[name](**{**SIZES, **changes}), noise)


def inputs(model, length=T):
    drawn = np.random.default_rng(0).integers(1, 30, (B, length))
    real = np.arange(length) < np.array([[length], [4], [2]])
    given = {"token_ids": drawn, "padding_mask": real.astype("int32")}
    if getattr(model, "num_segments", 0):
        given["segment_ids"] = (np.arange(length) > 2) + np.zeros_like(drawn)
    if "encoder_token_ids" in model.input:
        return {
            f"{side}_{name}": x[:, :end]
            for side, end in (("encoder", length), ("decoder", length - 1))
            for name, x in given.items()
        }
    return given


def real_outputs(model, given):
    found = model(given)
    if not isinstance(found, dict):
        found = {"sequence_output": found}
    end, real = "padding_mask", []
    for key in [key for key in given if key.endswith(end)]:
        x = numpy(found[f"{key.removesuffix(end)}sequence_output"])
        real.append(x[given[key].astype(bool)])
    return np.concatenate(real)


def check_same(model, grafted, length=T):
    given = inputs(model, length)
    close(real_outputs(grafted, given), real_outputs(model, given))


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


@pytest.mark.parametrize("chosen", [None, [1]])
def test_options_of_attention_stay(chosen, tmp_path):
    name = "attention(V, num_key_value_heads=1, dropout=0.3)"
    model = noisy(models.SynthesizerBackbone(**SIZES, synthesizer=name), 0.2)
    new = graft(model, "R+V", layers=chosen)
    for block in new.stack.blocks:
        assert block.attention.num_key_value_heads == 1
        assert block.attention.get_config()["dropout"] == 0.3
    new.save(tmp_path / "new.keras")
    check_same(model, keras.saving.load_model(tmp_path / "new.keras"))
    longer = lengthen(new, 12)
    check_same(model, longer)
    assert longer(inputs(longer, 12)).shape == (B, 12, 8)


@pytest.mark.parametrize(
    "name, layers, blocks",
    [
        ("roberta", [1], ["transformer_layer_1"]),
        # Blocks of a decoder are counted after those of the encoder.
        ("t5", [1, 2], ["encoder_layer_1", "decoder_layer_0"]),
    ],
)
def test_some_blocks_and_shorter_sequences(name, layers, blocks):
    model = trained(name)
    grafted = graft(model, "R+V", max_length=8, layers=layers)
    check_same(model, grafted, 8)
    tables = [w.path for w in grafted.weights if w.name == "R"]
    assert [path.partition("/self")[0] for path in tables] == blocks
    assert grafted.max_sequence_length == 8


@pytest.mark.parametrize(
    ("gated", "tied"),  # 1.0 and 1.1
    [(False, True), (True, False)],
)
def test_t5_of_every_form(gated, tied):
    """With lengths at which buckets of distances change."""
    model = trained(
        "t5",
        use_gated_activation=gated,
        tie_embedding_weights=tied,
        key_value_dim=3,
        activation="gelu",
    )
    theirs = keras_hub.models.T5Seq2SeqLM(model)
    ours = graft(theirs, "D+V", max_length=140)
    given = inputs(model, 140)
    real = given["decoder_padding_mask"].astype(bool)
    close(numpy(ours(given))[real], numpy(theirs(given))[real], atol=2e-5)
    tables = [w.path for w in ours.weights if "relative" in w.path]
    assert len(tables) == 2
    assert not [
        w.path
        for w in ours.weights
        if "bias" in w.name
        and w.path not in tables
        and "synthesizer/" not in w.path
    ]


def test_targets_shorter_than_sources_stay_so():
    model = trained("our_seq2seq")
    grafted = graft(model, "R+V", max_length=10)
    check_same(model, grafted)
    assert grafted.max_sequence_length == 10
    assert grafted.max_decoder_length == 9
    assert graft(model, "R+V", max_length=8).max_decoder_length == 8


def prompts():
    """Prompts of unequal lengths, and room for ten tokens."""
    real = np.arange(10) < np.array([[4], [2], [1]])
    drawn = np.random.default_rng(0).integers(1, 30, real.shape)
    return {"token_ids": drawn * real, "padding_mask": real.astype("int32")}


def written(lm, given):
    lm.compile(sampler="greedy")
    return lm.generate(dict(given), stop_token_ids=None)


def lively_gpt2():
    """One that does not write the same token again and again."""
    model = trained("gpt2", noise=0.5)
    for weight in model.weights:
        if "position_embedding/" in weight.path:
            weight.assign(20 * numpy(weight))
        if weight.path == "layer_norm/beta":
            weight.assign(0 * numpy(weight))
    return model


@pytest.mark.parametrize("synthesizer", ["R+V", "D+V"])
def test_a_grafted_gpt2_writes_as_before(synthesizer):
    theirs = keras_hub.models.GPT2CausalLM(lively_gpt2())
    ours = graft(theirs, synthesizer)
    assert isinstance(ours, models.SynthesizerCausalLM)
    expected = written(theirs, prompts())["token_ids"]
    assert len(np.unique(expected[:, 4:])) > 3
    equal(written(ours, prompts())["token_ids"], expected)


def test_a_grafted_gpt2_is_called_with_caches_as_kerashubs_is():
    """`call_with_cache(token_ids, cache, cache_update_index)`."""
    theirs = keras_hub.models.GPT2CausalLM(trained("gpt2"))
    ours = graft(theirs, "R+V")
    ids = keras.ops.convert_to_tensor(inputs(ours)["token_ids"])
    found = {}
    for lm, cache in (
        (theirs, keras.ops.zeros((B, 2, 2, T, 2, 4))),
        (ours, ours.make_caches(B, T)),
    ):
        found[lm] = []
        for start, end in ((0, 3), (3, 4), (4, T)):
            logits, hidden, cache = lm.call_with_cache(
                ids[:, start:end], cache, start
            )
            found[lm] += [numpy(logits), numpy(hidden)]
    close(found[ours], found[theirs], atol=2e-5)


def test_parts_of_a_t5_stay_frozen():
    model = trained("t5")
    first, second = model.encoder_transformer_layers
    first.self_attention.query_projector.trainable = False
    first.layer_norm.trainable = second.trainable = False
    model.encoder_layer_norm.trainable = False
    new = graft(model, "V", max_length=10)
    assert len(new.trainable_weights) == len(model.trainable_weights)
    assert not new.encoder.blocks[0].attention.synthesizer.query.trainable


def test_a_grafted_t5_writes_as_before():
    theirs = keras_hub.models.T5Seq2SeqLM(trained("t5", noise=1.0))
    ours = graft(theirs, "R+V", max_length=10)
    given = inputs(theirs)
    given |= {f"decoder_{name}": x for name, x in prompts().items()}
    expected = written(theirs, given)["decoder_token_ids"]
    assert len(np.unique(expected[:, 4:])) > 1
    equal(written(ours, given)["decoder_token_ids"], expected)


def test_tasks_keep_their_heads_and_preprocessors(tmp_path):
    backbone = models.SynthesizerBackbone(**SIZES, synthesizer="V")
    classifier = models.SynthesizerTextClassifier(backbone, 3)
    grafted = graft(classifier, "R+V")
    given = inputs(classifier)
    close(grafted(given), classifier(given))
    assert grafted.num_classes == 3
    tokenizer = keras_hub.models.GPT2Tokenizer(
        {"<|endoftext|>": 0, "a": 1, "b": 2, "ab": 3}, ["a b"]
    )
    lm = keras_hub.models.GPT2CausalLM(
        trained("gpt2"),
        keras_hub.models.GPT2CausalLMPreprocessor(tokenizer, 10),
    )
    expected = lm.compile(sampler="greedy") or lm.generate("ab", max_length=8)
    grafted = graft(lm, "R+V")  # with the sampler
    assert grafted.backbone.pretrained  # a low learning rate
    assert grafted.generate("ab", max_length=8) == expected
    copy = lengthen(grafted, 12)
    assert isinstance(copy.sampler, keras_hub.samplers.GreedySampler)
    grafted.fit(["a b", "ab"], verbose=0)
    grafted.save(tmp_path / "lm.keras")
    again = keras.saving.load_model(tmp_path / "lm.keras")
    assert again.generate("ab", max_length=8) == grafted.generate(
        "ab", max_length=8
    )


def after(model, method, argument):
    getattr(model, method)(argument)
    return model


@pytest.mark.parametrize(
    ("model", "options", "match"),
    [
        (lambda: trained("bert"), {"synthesizer": "R"}, "V in all heads"),
        (
            lambda: trained("bert"),
            {"synthesizer": "heads(V=1, R=1)"},
            "V in all heads",
        ),
        (lambda: trained("bert"), {"synthesizer": "Fix + V"}, "without effect"),
        *(
            (lambda: trained("bert"), {"synthesizer": name}, "needs V")
            for name in ("V(rotary=True)", "R + V(num_key_value_heads=1)")
        ),
        (lambda: trained("bert"), {"layers": [2]}, "layers 0 to 1.*\\[2\\]"),
        (lambda: trained("bert"), {"layers": [1.0]}, "numbers of.*\\[1.0\\]"),
        (lambda: trained("bert"), {"max_length": 11}, "10 positions.*11"),
        (
            lambda: models.SynthesizerBackbone(**SIZES, synthesizer="R+V"),
            {},
            "compares all tokens by dot products",
        ),
        (lambda: trained("t5"), {}, "how long.*max_length=512"),
        (
            lambda: models.SynthesizerBackbone(
                **SIZES, synthesizer="local(window=2)"
            ),
            {},
            "compares all tokens.*encoder_layer_0.*",
        ),
        (lambda: after(trained("gpt2"), "enable_lora", 2), {}, "LoRA"),
        (lambda: after(trained("bert"), "quantize", "int8"), {}, "A quantized"),
    ],
)
def test_what_cannot_be_grafted_is_refused(model, options, match):
    with pytest.raises(ValueError, match=f"(?s){match}"):
        graft(model(), **{"synthesizer": "R+V", **options})

"""The sequence-to-sequence model as a user meets it: strings to strings."""

import keras
import keras_hub
import numpy as np
import pytest
from backend import numpy
from keras import ops
from language_models import VOCABULARY, WORDS, each_sampler
from translators import (
    SOURCE_LENGTH,
    TARGET_LENGTH,
    greedy,
    preprocessor,
    seq2seq,
    tensors,
)

from keras_synth import models
from keras_synth.training import LabelSmoothedCrossentropy

SOURCES = [" ".join(WORDS[i : i + 3 + i % 4]) for i in range(8)]
TARGETS = [" ".join(reversed(text.split()[:4])) for text in SOURCES]
TEXTS = {"encoder_text": SOURCES, "decoder_text": TARGETS}


@pytest.mark.parametrize(
    ("options", "prompts"),
    [
        ({"synthesizer": "V"}, ["", "", ""]),
        (
            {
                "synthesizer": "D",
                "decoder_synthesizer": "R",
                "num_decoder_layers": 3,
            },
            ["fox", "", "the lazy"],
        ),
        (
            {"synthesizer": "FR", "positions": "learned"},
            ["fox", "quick brown", "the lazy dog then"],
        ),
        (
            {"synthesizer": ["R+V", "V"], "normalize_first": False},
            ["", "a", ""],
        ),
        (
            {"synthesizer": "V", "cross_synthesizer": ["R", "D+V"]},
            ["fox", "", "the lazy"],
        ),
    ],
)
def test_writing_with_caches_is_writing_without(options, prompts):
    """Sources and prompts of unequal lengths, to the end of the target."""
    model = seq2seq(**options)
    model.compile(sampler="greedy")
    features = tensors(
        model.preprocessor.generate_preprocess(
            {"encoder_text": SOURCES[:3], "decoder_text": prompts}
        )
    )
    written = model.generate_step(features)
    np.testing.assert_array_equal(
        numpy(written["decoder_token_ids"]), greedy(model, features)
    )


@each_sampler
def test_every_sampler_writes_for_every_source(sampler):
    model = seq2seq("R+V")
    model.compile(sampler=sampler)
    texts = model.generate(SOURCES[:3], max_length=8)
    assert len(texts) == 3
    given = {"encoder_text": SOURCES[:2], "decoder_text": ["fox", "the dog"]}
    texts = model.generate(given)
    assert texts[0].startswith("fox")
    assert texts[1].startswith("the dog")


def test_beams_remember_their_own_past():
    """The best of all texts of three tokens, found by trying all of them."""
    model = seq2seq("D+V", preprocess=False)
    rng = np.random.default_rng(0)
    model.set_weights(
        [w + rng.normal(scale=0.3, size=w.shape) for w in model.get_weights()]
    )
    tokens, length = len(VOCABULARY), 4
    source = rng.integers(5, tokens, (2, 6)).astype("int32")
    start = np.zeros((2, length), "int32")
    start[:, 0] = 1
    features = {
        "encoder_token_ids": source,
        "encoder_padding_mask": np.ones_like(source),
        "decoder_token_ids": start,
        "decoder_padding_mask": start,
    }
    # As many beams as there are texts of two tokens: nothing is lost.
    model.compile(sampler=keras_hub.samplers.BeamSampler(tokens**2))
    found = numpy(model.generate_step(tensors(features))["decoder_token_ids"])
    texts = np.stack(
        np.meshgrid([1], *[np.arange(tokens)] * (length - 1), indexing="ij"),
        axis=-1,
    ).reshape(-1, length)
    for sample in range(2):
        every = {
            "encoder_token_ids": np.tile(source[sample], (len(texts), 1)),
            "decoder_token_ids": texts.astype("int32"),
        }
        for side in ("encoder", "decoder"):
            ids = every[f"{side}_token_ids"]
            every[f"{side}_padding_mask"] = np.ones_like(ids)
        logits = numpy(model(tensors(every)))[:, :-1].astype("float64")
        logits -= np.log(np.exp(logits).sum(axis=-1, keepdims=True))
        scores = np.take_along_axis(logits, texts[:, 1:, None], -1).sum((1, 2))
        np.testing.assert_array_equal(found[sample], texts[scores.argmax()])


def test_a_model_learns_pairs_by_heart():
    """32 random pairs, to the last token, R+V within a minute."""
    rng = np.random.default_rng(0)
    sources, targets = (
        [" ".join(rng.permutation(WORDS)[: 2 + i % 5]) for i in range(32)]
        for _ in range(2)
    )
    model = seq2seq("R+V", hidden_dim=32, intermediate_dim=64)
    model.compile(
        keras.optimizers.Adam(0.005),
        loss=LabelSmoothedCrossentropy(0.1),
        sampler="greedy",
    )
    batch = model.preprocessor(
        {"encoder_text": sources, "decoder_text": targets}
    )
    model.preprocessor, kept = None, model.preprocessor
    for _ in range(150):
        model.train_on_batch(*batch)
    model.preprocessor = kept
    assert model.generate(sources) == targets


def test_strings_go_through_fit_and_evaluate():
    model = seq2seq()
    model.fit(TEXTS, batch_size=4, verbose=0)
    loss, accuracy = model.evaluate(TEXTS, batch_size=4, verbose=0)
    assert loss > 0
    assert 0 <= accuracy <= 1


def test_generate_works_without_compile():
    """With KerasHub's default sampler, for one string and for several."""
    model = seq2seq()
    assert isinstance(model.generate(SOURCES[0]), str)
    assert len(model.generate(SOURCES[:2])) == 2


def test_padding_of_the_source_has_no_influence():
    model = seq2seq("D+V", preprocess=False)
    features = tensors(preprocessor()(TEXTS)[0])
    expected = numpy(model(features))
    padded = numpy(features["encoder_padding_mask"]) == 0
    ids = np.where(padded, 7, numpy(features["encoder_token_ids"]))
    features["encoder_token_ids"] = ops.convert_to_tensor(ids.astype("int32"))
    np.testing.assert_allclose(numpy(model(features)), expected, atol=1e-5)


def test_files_and_presets_keep_what_is_written(tmp_path):
    model = seq2seq(
        "R+V", decoder_synthesizer=["FR", "D"], cross_synthesizer="R+V"
    )
    model.compile(sampler="greedy")
    expected = model.generate(SOURCES[:2])
    model.save(tmp_path / "model.keras")
    model.save_to_preset(tmp_path / "preset")
    for loaded in (
        keras.saving.load_model(tmp_path / "model.keras"),
        models.SynthesizerSeq2SeqLM.from_preset(tmp_path / "preset"),
        keras_hub.models.Seq2SeqLM.from_preset(str(tmp_path / "preset")),
    ):
        loaded.compile(sampler="greedy")
        assert loaded.generate(SOURCES[:2]) == expected
        lengths = loaded.preprocessor.get_config()
        assert lengths["encoder_sequence_length"] == SOURCE_LENGTH
        assert lengths["decoder_sequence_length"] == TARGET_LENGTH


@pytest.mark.once
def test_the_parameters_of_table_2():
    """Tay et al., 2021: differences in millions, trainable ones."""
    sizes = {
        name: sum(
            int(np.prod(w.shape))
            for w in models.SynthesizerSeq2SeqBackbone(
                **models.config("transformer_base", name, vocabulary_size=8)
            ).trainable_weights
        )
        for name in ("V", "Fix", "R", "R+V", "FR")
    }
    for one, other, difference in (
        ("V", "Fix", -6.29),
        ("Fix", "R", 6.29),
        ("V", "R+V", 6.29),
        ("Fix", "FR", 0.39),
    ):
        found = (sizes[other] - sizes[one]) / 1e6
        assert found == pytest.approx(difference, abs=5e-3), (one, other)


def test_what_does_not_fit_is_refused():
    model = seq2seq()
    given = {"encoder_text": "a fox", "decoder_text": "a quick brown fox jumps"}
    with pytest.raises(ValueError, match="room for 4"):
        model.generate(given, max_length=5)
    with pytest.raises(ValueError, match="max_decoder_length=9"):
        model.generate("a fox", max_length=10)
    with pytest.raises(ValueError, match="encoder_text"):
        model.generate({"decoder_text": "a fox"})
    with pytest.raises(ValueError, match="encoder_sequence_length=13"):
        models.SynthesizerSeq2SeqLM(model.backbone, preprocessor(encoder=13))
    with pytest.raises(ValueError, match="decoder_sequence_length=10"):
        models.SynthesizerSeq2SeqLM(model.backbone, preprocessor(decoder=10))
    tokenizer = models.SynthesizerTokenizer([*VOCABULARY, "more"])
    other = models.SynthesizerSeq2SeqLMPreprocessor(tokenizer, 12, 9)
    with pytest.raises(ValueError, match="more tokens than"):
        models.SynthesizerSeq2SeqLM(model.backbone, other)
    long = np.ones((1, 13), "int32")
    short = np.ones((1, 3), "int32")
    with pytest.raises(ValueError, match="max_sequence_length=12"):
        model.backbone(
            {
                "encoder_token_ids": long,
                "encoder_padding_mask": long,
                "decoder_token_ids": short,
                "decoder_padding_mask": short,
            }
        )
    with pytest.raises(ValueError, match=r"(?i)sampler"):
        model.compile(sampler="gready")

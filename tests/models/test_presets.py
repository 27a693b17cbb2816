"""Presets load by our classes, and by KerasHub's base classes."""

import warnings

import keras_hub
import numpy as np
import pytest
from backend import numpy
from small_tasks import KINDS, SIZES, WORDS, examples, task

from keras_synth import models

BASES = {
    "classifier": "TextClassifier",
    "causal_lm": "CausalLM",
    "seq2seq_lm": "Seq2SeqLM",
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_base_class_loads_its_part_of_a_preset(kind, tmp_path):
    model = task(kind)
    model.save_to_preset(tmp_path)
    hub = keras_hub.models
    base = getattr(hub, BASES[kind])
    loaded = base.from_preset(str(tmp_path))
    assert type(loaded) is type(model)
    for backbone in (hub.Backbone, type(model.backbone)):
        loaded = backbone.from_preset(str(tmp_path))
        assert type(loaded) is type(model.backbone)
        for mine, its in zip(
            model.backbone.get_weights(), loaded.get_weights(), strict=True
        ):
            np.testing.assert_array_equal(mine, its)
    preprocessor = getattr(hub, f"{BASES[kind]}Preprocessor")
    for kinds in (preprocessor, type(model.preprocessor)):
        loaded = kinds.from_preset(str(tmp_path))
        assert type(loaded) is type(model.preprocessor)
    expected = model.preprocessor.tokenizer(WORDS)
    for tokenizer in (
        keras_hub.tokenizers.Tokenizer,
        keras_hub.tokenizers.WordPieceTokenizer,
        models.SynthesizerTokenizer,
    ):
        loaded = tokenizer.from_preset(str(tmp_path))
        assert type(loaded) is models.SynthesizerTokenizer
        assert loaded(WORDS) == expected


@pytest.mark.parametrize("kind", ["classifier", "seq2seq_lm"])
def test_byte_pair_tokenizers_load_from_presets_of_all_backbones(
    kind, tmp_path
):
    tokenizer = models.SynthesizerBytePairTokenizer.from_texts(WORDS, 280)
    size = tokenizer.vocabulary_size()
    made = {
        "classifier": models.SynthesizerBackbone,
        "seq2seq_lm": models.SynthesizerSeq2SeqBackbone,
    }[kind]
    backbone = made(vocabulary_size=size, synthesizer="V", **SIZES)
    backbone.save_to_preset(tmp_path)
    tokenizer.save_to_preset(tmp_path)
    for loading in (
        keras_hub.tokenizers.Tokenizer,
        keras_hub.tokenizers.BytePairTokenizer,
        models.SynthesizerBytePairTokenizer,
    ):
        loaded = loading.from_preset(str(tmp_path))
        assert type(loaded) is models.SynthesizerBytePairTokenizer
        assert loaded(WORDS) == tokenizer(WORDS)


@pytest.mark.parametrize("kind", KINDS)
def test_presets_of_trained_models_hold_no_optimizer(kind, tmp_path):
    model = task(kind)
    model.fit(*examples(kind, WORDS), verbose=0)
    model.save_to_preset(tmp_path)
    with warnings.catch_warnings():  # Keras warns of variables that it skips
        warnings.filterwarnings("error", message="Skipping")
        loaded = type(model).from_preset(tmp_path)
    for mine, its in zip(
        model.get_weights(), loaded.get_weights(), strict=True
    ):
        np.testing.assert_array_equal(mine, its)
    assert model.optimizer.iterations == 1  # training can go on


def learning_rate(model):
    return float(numpy(model.optimizer.learning_rate))


@pytest.mark.parametrize("kind", KINDS)
def test_the_default_optimizer_knows_whether_weights_were_loaded(
    kind, tmp_path
):
    model = task(kind)
    assert learning_rate(model) == pytest.approx(1e-3)
    model.save_to_preset(tmp_path)
    loaded = type(model).from_preset(tmp_path)
    assert learning_rate(loaded) == pytest.approx(5e-5)
    fresh = type(model).from_preset(tmp_path, load_weights=False)
    assert learning_rate(fresh) == pytest.approx(1e-3)
    backbone = type(model.backbone).from_preset(tmp_path)
    if kind == "causal_lm":
        other = models.SynthesizerCausalLM(backbone)
        assert learning_rate(other) == pytest.approx(5e-5)


def test_a_preset_takes_the_place_of_an_older_one_as_a_whole(tmp_path):
    folder = tmp_path / "preset"
    task("classifier").save_to_preset(folder)
    (folder / "README.md").write_text("A card.")
    (folder / "notes").mkdir()
    (folder / "notes" / "a.txt").write_text("Mine.")
    task("causal_lm").backbone.save_to_preset(folder)
    assert {path.name for path in folder.iterdir()} == {
        "README.md",
        "config.json",
        "metadata.json",
        "model.weights.h5",
        "notes",
    }
    assert (folder / "notes" / "a.txt").read_text() == "Mine."
    assert [path.name for path in tmp_path.iterdir()] == ["preset"]


def test_the_working_directory_is_not_replaced(tmp_path, monkeypatch):
    (tmp_path / "inside").mkdir()
    monkeypatch.chdir(tmp_path / "inside")
    for folder in (".", tmp_path):
        with pytest.raises(ValueError, match="a folder of its own"):
            task("classifier").save_to_preset(folder)

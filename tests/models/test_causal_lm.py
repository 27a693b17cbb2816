"""The language model as a user meets it: strings in, strings out."""

import keras
import keras_hub
import numpy as np
import pytest
from backend import numpy
from keras import ops
from language_models import (
    LENGTH,
    VOCABULARY,
    WORDS,
    each_sampler,
    greedy,
    language_model,
    preprocessor,
)

from keras_synth import models

TEXTS = [" ".join(WORDS[i : i + 5]) for i in range(8)]
BACKEND = keras.backend.backend()


@pytest.mark.parametrize(
    ("synthesizer", "positions"),
    [("V", "learned"), ("R", "sinusoidal"), ("D+FR", "learned")],
)
def test_generating_with_caches_is_generating_without(synthesizer, positions):
    """Prompts of unequal lengths, up to the end of the maximum length."""
    model = language_model(synthesizer, positions=positions)
    model.compile(sampler="greedy")
    prompts = ["a quick", "the lazy dog and then", "fox"]
    features = model.preprocessor.generate_preprocess(prompts, LENGTH)
    written = model.generate_step(
        {k: ops.convert_to_tensor(v) for k, v in features.items()}
    )
    np.testing.assert_array_equal(
        numpy(written["token_ids"]), greedy(model, prompts, LENGTH)
    )


@pytest.mark.parametrize("mixer", ["R+V", "linear"])
def test_generating_computes_no_more_than_it_needs(mixer, monkeypatch):
    """Logits of last tokens alone; of prompts, one by one, what all hold."""
    model = language_model(mixer)
    model.compile(sampler="greedy")
    stack, backbone = model.backbone.stack, model.backbone
    read, logits = stack.call_with_caches, backbone.logits
    seen = {"read": [], "logits": []}

    def noted_read(token_ids, *arguments, **options):
        seen["read"].append(token_ids.shape[1])
        return read(token_ids, *arguments, **options)

    def noted_logits(x):
        seen["logits"].append(x.shape[1])
        return logits(x)

    monkeypatch.setattr(stack, "call_with_caches", noted_read)
    monkeypatch.setattr(backbone, "logits", noted_logits)
    prompts = ["a quick", "a quick brown fox"]
    model.generate(prompts, stop_token_ids=None)
    first, *others = seen["read"]
    at_once = BACKEND == "torch" and stack.overwrites_caches
    assert first == (3 if at_once else LENGTH)
    assert {*others} == {*seen["logits"]} == {1}


def test_strings_go_through_fit_and_generate_gives_strings():
    model = language_model()
    model.fit(TEXTS, batch_size=4, verbose=0)
    text = model.generate("a quick brown", max_length=9)
    assert isinstance(text, str)
    assert text.startswith("a quick brown")
    texts = model.generate(["a quick", "the lazy dog"], max_length=9)
    assert [t.split()[0] for t in texts] == ["a", "the"]
    assert model.generate("fox", max_length=2) == "fox"


@each_sampler
def test_every_sampler_keeps_the_prompt(sampler):
    model = language_model("R+V")
    model.compile(sampler=sampler)
    texts = model.generate(["a quick", "the lazy dog"], max_length=LENGTH)
    assert texts[0].startswith("a quick")
    assert texts[1].startswith("the lazy dog")


def test_one_beam_is_greedy():
    model = language_model("R+V")
    model.compile(sampler="greedy")
    prompts = ["a quick", "the lazy dog and"]
    expected = model.generate(prompts, stop_token_ids=None)
    model.compile(sampler=keras_hub.samplers.BeamSampler(num_beams=1))
    assert model.generate(prompts, stop_token_ids=None) == expected


def test_generate_works_without_compile():
    """With KerasHub's default sampler."""
    model = language_model()
    assert model.generate("a quick").startswith("a quick")


def test_a_model_learns_texts_by_heart():
    """32 texts whose first two words tell the rest."""
    rng = np.random.default_rng(0)
    starts = [(a, b) for a in WORDS for b in WORDS if a != b][:96:3]
    texts = [
        " ".join([*start, *rng.permutation(WORDS)[: 1 + i % 6]])
        for i, start in enumerate(starts)
    ]
    model = language_model("R+V", hidden_dim=32, intermediate_dim=64)
    model.compile(keras.optimizers.Adam(0.005), sampler="greedy")
    batch = model.preprocessor(texts)
    model.preprocessor, kept = None, model.preprocessor
    for _ in range(150):
        model.train_on_batch(*batch)
    model.preprocessor = kept
    assert model.generate([" ".join(start) for start in starts]) == texts


def test_future_tokens_have_no_influence():
    model = language_model("D+V", preprocess=False)
    ids = np.random.default_rng(0).integers(5, 17, (2, LENGTH))
    other = ids.copy()
    other[:, 6:] = 5
    outputs = [
        numpy(model({"token_ids": x, "padding_mask": np.ones_like(x)}))
        for x in (ids, other)
    ]
    np.testing.assert_allclose(outputs[0][:, :6], outputs[1][:, :6], atol=1e-5)


def test_files_and_presets_keep_what_is_written(tmp_path):
    model = language_model("R+V")
    model.compile(sampler="greedy")
    expected = model.generate("a quick")
    model.save(tmp_path / "model.keras")
    model.save_to_preset(tmp_path / "preset")
    for loaded in (
        keras.saving.load_model(tmp_path / "model.keras"),
        models.SynthesizerCausalLM.from_preset(tmp_path / "preset"),
        keras_hub.models.CausalLM.from_preset(str(tmp_path / "preset")),
    ):
        loaded.compile(sampler="greedy")
        assert loaded.generate("a quick") == expected


def test_what_does_not_fit_is_refused():
    model = language_model()
    with pytest.raises(ValueError, match="room for 5"):
        model.generate("a quick brown fox jumps over", max_length=6)
    with pytest.raises(ValueError, match="max_sequence_length=12"):
        model.generate("a quick brown", max_length=13)
    with pytest.raises(ValueError, match="causal=True"):
        language_model(causal=False)
    with pytest.raises(ValueError, match="sequence_length=12"):
        models.SynthesizerCausalLM(model.backbone, preprocessor(13))
    tokenizer = models.SynthesizerTokenizer([*VOCABULARY, "more"])
    other = models.SynthesizerCausalLMPreprocessor(tokenizer, 12)
    with pytest.raises(ValueError, match="more tokens than"):
        models.SynthesizerCausalLM(model.backbone, other)
    with pytest.raises(ValueError, match="positions"):
        language_model(positions="relative")
    with pytest.raises(ValueError, match=r"(?i)sampler"):
        model.compile(sampler="gready")

"""Language models and translators as a user meets them: strings to strings."""

import keras
import keras_hub
import numpy as np
import pandas
import pytest
from arrays import padding
from assertions import close, equal
from backend import numpy, some_on_each_backend
from language_models import (
    LENGTH,
    VOCABULARY,
    WORDS,
    assert_writes_as_without_caches,
    language_model,
    tensors,
    translator,
)
from noise import noisy

from keras_synth import models
from keras_synth.training import LabelSmoothedCrossentropy

TEXTS = [" ".join(WORDS[i : i + 3 + i % 4]) for i in range(8)]
PROMPTS = ["a quick", "the lazy dog and then", "fox"]


# Caches of any structure.
MIXED = ["linear", "heads(V=1, R=1)"]
each = pytest.mark.each_backend


@pytest.mark.parametrize(
    "options",
    [
        {"synthesizer": "V"},
        pytest.param(
            {"synthesizer": "R", "positions": "sinusoidal"}, marks=each
        ),
        {"synthesizer": "D+FR"},
        pytest.param({"synthesizer": MIXED}, marks=each),
    ],
    ids=str,
)
def test_generating_with_caches_is_generating_without(options):
    """Prompts of unequal lengths, up to the end of the maximum length."""
    assert_writes_as_without_caches(language_model(**options), PROMPTS)


@pytest.mark.parametrize(
    ("options", "prompts"),
    [
        ({"synthesizer": "V"}, ["", "", ""]),
        (
            {"synthesizer": "FR", "positions": "learned"},
            ["fox", "quick brown", "the lazy dog then"],
        ),
        (
            {"synthesizer": ["R+V", "V"], "normalize_first": False},
            ["", "a", ""],
        ),
        pytest.param(
            {
                "synthesizer": "D",
                "decoder_synthesizer": "R",
                "cross_synthesizer": ["V", "R", "D+V"],
                "num_decoder_layers": 3,
            },
            ["fox", "", "the lazy"],
            marks=each,
        ),
    ],
)
def test_translating_with_caches_is_translating_without(options, prompts):
    """Sources and prompts of unequal lengths, to the end of the target."""
    texts = {"encoder_text": TEXTS[:3], "decoder_text": prompts}
    assert_writes_as_without_caches(translator(**options), texts)


def test_a_translator_decodes_in_steps_of_your_own():
    model = translator("R", cross_synthesizer="V")
    ids = np.random.default_rng(0).integers(5, 9, (2, LENGTH + 6))
    features = tensors(
        {
            "encoder_token_ids": ids[:, 6:],
            "encoder_padding_mask": padding(LENGTH, 5, size=LENGTH),
            "decoder_token_ids": ids[:, :6],
            "decoder_padding_mask": np.ones((2, 6)),
        }
    )
    sources, real, targets, _ = features.values()
    remembered, steps = model.call_encoder(sources, real), []
    caches = model.backbone.decoder.make_caches(2, 6)
    for at in range(0, 6, 2):
        logits, _, caches = model.call_decoder_with_cache(
            targets[:, at : at + 2], caches, at, remembered, real
        )
        steps.append(numpy(logits))
    close(np.concatenate(steps, axis=1), model(features))


def test_generate_returns_a_string_for_a_string_and_a_list_for_a_list():
    """Without `compile`, with KerasHub's default sampler."""
    model = language_model()
    assert model.generate("a quick brown", max_length=9).startswith("a quick")
    assert model.generate("fox", max_length=2) == "fox"
    for model in (language_model(), translator()):
        model.compile(sampler="greedy")
        texts = model.generate(["a quick", "fox"], max_length=9)
        one = model.generate(b"a quick", max_length=9)
        assert one == model.generate("a quick", max_length=9)
        for form in (tuple, np.array, pandas.Series):
            prompts = form([b"a quick", b"fox"])
            assert model.generate(prompts, max_length=9) == texts
    texts = {"encoder_text": TEXTS[0], "decoder_text": "a"}
    for _ in range(2):  # KerasHub would change the dictionary
        assert isinstance(model.generate(texts), str)


@pytest.mark.parametrize("kind", ["R+V", MIXED, "translator"], ids=str)
def test_every_sampler_keeps_the_prompt(kind):
    prompts = texts = ["a quick", "the lazy dog"]
    if kind == "translator":
        model = translator(vocabulary_size=999)  # more than there are tokens
        texts = {"encoder_text": TEXTS[:2], "decoder_text": prompts}
    else:
        model = language_model(kind, vocabulary_size=999)
    for sampler in (
        "greedy",
        keras_hub.samplers.TopKSampler(3, seed=1),
        keras_hub.samplers.TopPSampler(0.5, seed=1),
        keras_hub.samplers.RandomSampler(seed=1),
        keras_hub.samplers.BeamSampler(num_beams=3),
        keras_hub.samplers.ContrastiveSampler(k=2, alpha=0.2),
    ):
        model.compile(sampler=sampler)
        for text, prompt in zip(model.generate(texts), prompts, strict=True):
            assert text.startswith(prompt), sampler


class HiddenStates(keras_hub.samplers.GreedySampler):
    """Keeps the hidden states of prompts, as contrastive search reads them."""

    def __call__(self, *args, hidden_states=None, **options):
        self.hidden_states = hidden_states
        return super().__call__(*args, **options)


@pytest.mark.parametrize("synthesizer", ["R+V", MIXED], ids=str)
def test_samplers_receive_the_hidden_states_of_prompts(synthesizer):
    model, sampler = language_model(synthesizer), HiddenStates()
    model.compile(sampler=sampler)
    prompts = tensors(model.preprocessor.generate_preprocess(PROMPTS))
    model.generate_step(prompts)
    shortest = int(numpy(prompts["padding_mask"]).sum(axis=1).min())
    close(
        numpy(sampler.hidden_states)[:, :shortest],
        numpy(model.backbone(prompts))[:, :shortest],
    )


def test_a_text_ends_after_its_stop_token():
    model, length = language_model("R+V", preprocess=False), 8
    model.compile(sampler="greedy")
    prompt = np.array([[3, 4, 0, 0, 0, 0, 0, 0]])
    x = {"token_ids": prompt, "padding_mask": padding(2, size=length)}
    whole = model.generate(x, stop_token_ids=None)
    assert numpy(whole["padding_mask"]).all()
    # A stop token in the prompt does not count.
    tokens = numpy(whole["token_ids"])[0]
    stops = [3, int(tokens[-1])]
    end = 2 + int(np.isin(tokens[2:], stops).argmax())
    found = model.generate(x, stop_token_ids=stops)
    real = np.arange(length) <= end
    equal(numpy(found["padding_mask"])[0], real)
    equal(numpy(found["token_ids"])[0][real], tokens[real])


def test_beams_remember_their_own_past():
    """The best of all texts of three tokens, found by trying all of them."""
    model = translator("D+V", preprocess=False)
    noisy(model, 0.3)
    rng, tokens, length = np.random.default_rng(0), len(VOCABULARY), 4
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
        equal(found[sample], texts[scores.argmax()])


@pytest.mark.parametrize("make", [language_model, translator])
def test_a_model_learns_texts_by_heart(make):
    """16 texts whose first two words, or whose sources, tell the rest."""
    rng = np.random.default_rng(0)
    starts = [(a, b) for a in WORDS for b in WORDS if a != b][:96:6]
    rest = [rng.permutation(WORDS)[: 1 + i % 6] for i in range(16)]
    x, expected = ([" ".join(words) for words in y] for y in (starts, rest))
    texts = {"encoder_text": x, "decoder_text": expected}
    if make is language_model:
        texts = expected = [*map("{} {}".format, x, expected)]
    model = make(num_layers=1, hidden_dim=32, intermediate_dim=64)
    model.compile(
        keras.optimizers.Adam(0.005),
        LabelSmoothedCrossentropy(0.1) if make is translator else "auto",
        sampler="greedy",
    )
    batch = model.preprocessor(texts)
    model.preprocessor, kept = None, model.preprocessor
    for _ in range(100):
        model.train_on_batch(*batch)
    model.preprocessor = kept
    assert model.generate(x) == expected


def refused(words, call, *arguments, **options):
    with pytest.raises(ValueError, match=words):
        call(*arguments, **options)


def test_wrong_arguments_of_a_language_model_are_errors():
    model = language_model()
    long = "a quick brown fox jumps over"
    for prompts in (long, [long], ("a", long), np.array(["a", long])):
        refused("at most 5 fit", model.generate, prompts, max_length=6)
    refused("at least one prompt", model.generate, [])
    refused("must be a column with a text", model.generate, None)
    tokens = {"token_ids": [[1, 5]]}
    refused("preprocessor = None for tokens", model.generate, tokens)
    alone = models.SynthesizerCausalLM(model.backbone).generate
    refused("Inputs must be a dictionary", alone, "fox", stop_token_ids=None)
    refused("max_sequence_length=12", model.generate, "a quick", max_length=13)
    refused("causal=True", language_model, causal=False)
    refused("num_segments=2", language_model, num_segments=2)
    refused("positions", language_model, positions="relative")
    for sampler in ("gready", None):
        refused("(?i)sampler", model.compile, sampler=sampler)
    assert model.generate("a quick", max_length=4)  # by the one before


LEFT, HOLE, EMPTY, RIGHT = "000111", "101100", "000000", "111000"


@pytest.mark.parametrize(
    "name",
    some_on_each_backend(
        ["padding_mask", "decoder_padding_mask", "encoder_padding_mask"],
        ["padding_mask", "decoder_padding_mask"],
    ),
)
def test_generating_from_left_padding_is_an_error(name):
    """Although the values are unknown to a compiled function."""
    of_source = name == "encoder_padding_mask"
    make = language_model if name == "padding_mask" else translator
    model = make("V", preprocess=False, num_layers=1)
    model.compile(sampler="greedy")

    def generate(*rows):
        right = np.tile(padding(3, size=6), (len(rows), 1)).astype(int)
        mask = np.array([[*map(int, row)] for row in rows])
        x = {**dict.fromkeys(model.input, right), name: mask}
        model.generate(x, stop_token_ids=None)

    for row in (LEFT,) if of_source else (LEFT, HOLE, EMPTY):
        with pytest.raises(ValueError, match=rf"right.*Received: {name}"):
            generate(RIGHT, row)
    if of_source:
        generate(HOLE, EMPTY, RIGHT)


def test_wrong_arguments_of_a_translator_are_errors():
    model = translator()
    given = {"encoder_text": "a fox", "decoder_text": "a quick brown fox jumps"}
    refused("at most 4 fit", model.generate, given, max_length=5)
    refused("max_decoder_length=9", model.generate, "a fox", max_length=10)
    refused("encoder_text", model.generate, {"decoder_text": "a fox"})
    for sources, prompts in (([], []), ("a", TEXTS[:2]), (TEXTS[:2], "a")):
        given = {"encoder_text": sources, "decoder_text": prompts}
        refused("at least one .* for each source", model.generate, given)
    long, short = np.ones((1, 13), "int32"), np.ones((1, 3), "int32")
    x = dict.fromkeys(("encoder_token_ids", "encoder_padding_mask"), long)
    x |= dict.fromkeys(("decoder_token_ids", "decoder_padding_mask"), short)
    refused("max_sequence_length=12", model.backbone, x)
    refused("max_sequence_length=12", model.generate_step, x)
    generate = models.SynthesizerSeq2SeqLM(model.backbone).generate
    refused("max_sequence_length=12", generate, x, stop_token_ids=None)

"""
Title: Attention with and without comparisons of tokens
Author: The keras_synth authors
Date created: 2026/11/24
Last modified: 2026/11/26
Description: Draw and measure the attention weights of trained models.
Accelerator: None
"""

"""
## Introduction

Figures 2 to 7 of the [Synthesizer paper](https://arxiv.org/abs/2005.00743) show
attention weights. This example draws the same figures for a translator, two
language models, and all heads of a BERT encoder. If you pass no presets, it
trains small models on generated sentences for a minute or two, and skips the
encoder.

## Setup
"""

import json
import os
import pathlib

import keras
import keras_hub
import numpy as np

from keras_synth import analysis, datasets, models

# Presets, files with one sentence per line, and a file with any text.
TRANSLATOR = os.environ.get("TRANSLATOR")
SOURCES, TARGETS = os.environ.get("SOURCES"), os.environ.get("TARGETS")
LANGUAGE_MODELS = os.environ.get("LANGUAGE_MODELS")  # "V=preset R=preset"
TEXT = os.environ.get("TEXT")
ENCODER = os.environ.get("ENCODER")  # of KerasHub's BERT
FOLDER = pathlib.Path("attention_analysis")  # for pictures
SENTENCE = "A man is playing a large flute on the street."
LENGTH, VOCABULARY_SIZE = 32, 1_000  # tokens
SAMPLES = 256  # sentences or windows of text to average over
WINDOW, REACH = 2, 16  # tokens: the width of "near", and the length of profiles
SIZES = {"num_layers": 2, "num_heads": 4, "hidden_dim": 64}
SIZES |= {"intermediate_dim": 128, "max_sequence_length": LENGTH}

FOLDER.mkdir(exist_ok=True)
found = {}  # statistics of layers, for each model

"""
## A translator

Figure 2 of the paper shows the weights of decoders before training. Figure 3
shows those of encoders and decoders after training. Figures 4 and 5 show the
heads. Random (R) learns a table for each head; only cross-attention compares
tokens.
"""

sources, targets = datasets.generated_translations(2_000)
tokenizer = models.SynthesizerBytePairTokenizer.from_texts(
    [*sources, *targets], VOCABULARY_SIZE
)
if TRANSLATOR:
    translator = models.SynthesizerSeq2SeqLM.from_preset(TRANSLATOR)
else:
    keras.utils.set_random_seed(0)
    translator = models.SynthesizerSeq2SeqLM(
        models.SynthesizerSeq2SeqBackbone(
            tokenizer.vocabulary_size(), **SIZES, synthesizer="R"
        ),
        preprocessor=models.SynthesizerSeq2SeqLMPreprocessor(
            tokenizer, LENGTH, LENGTH
        ),
    )
    translator.compile(
        keras.optimizers.Adam(2e-3),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    translator.fit(
        {"encoder_text": sources, "decoder_text": targets},
        batch_size=64,
        epochs=3,
        verbose=2,
    )
if SOURCES and TARGETS:
    files = pathlib.Path(SOURCES), pathlib.Path(TARGETS)
    sources, targets = (x.read_text("utf-8").splitlines() for x in files)
texts = {
    "encoder_text": sources[:SAMPLES],
    "decoder_text": targets[:SAMPLES],
}
inputs, *_ = translator.preprocessor(texts)
trained = translator.backbone
found["translator"] = analysis.attention_statistics(trained, inputs)
sides = {
    side: {k: x for k, x in found["translator"].items() if side in k}
    for side in ("encoder", "decoder")
}
analysis.plot_histograms(sides).savefig(FOLDER / "figure_3_after_training.png")

keras.utils.set_random_seed(0)
new = type(trained).from_config(trained.get_config())
before = analysis.attention_statistics(new, inputs, [*sides["decoder"]])
picture = analysis.plot_histograms({"decoder": before})
picture.savefig(FOLDER / "figure_2_before_training.png")

one = analysis.sample_of(inputs)
weights = analysis.attention_weights(trained, one)
analysis.plot_heads(weights).savefig(FOLDER / "figures_4_5_translator.png")

"""
## Language models

Figures 6 and 7: does attention by position learn a local window? The plots show
the average weight at each distance, and the average weights of each head.
"""


def trained_language_model(synthesizer):
    keras.utils.set_random_seed(0)
    model = models.SynthesizerCausalLM(
        models.SynthesizerBackbone(
            tokenizer.vocabulary_size(),
            **SIZES,
            synthesizer=synthesizer,
            causal=True,
        ),
        preprocessor=models.SynthesizerCausalLMPreprocessor(tokenizer, LENGTH),
    )
    model.compile(
        keras.optimizers.Adam(2e-3),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    model.fit(sources, batch_size=64, epochs=3, verbose=2)
    return model


if LANGUAGE_MODELS:
    presets = dict(pair.split("=", 1) for pair in LANGUAGE_MODELS.split())
    language_models = {
        name: models.SynthesizerCausalLM.from_preset(preset)
        for name, preset in presets.items()
    }
else:
    language_models = {name: trained_language_model(name) for name in "VR"}
text = pathlib.Path(TEXT).read_text("utf-8") if TEXT else " ".join(sources)
profiles = {}
for name, model in language_models.items():
    length = model.backbone.max_sequence_length
    tokens = model.preprocessor.tokenizer(text[: 10 * SAMPLES * length])
    tokens = keras.ops.convert_to_numpy(tokens)
    number = min(SAMPLES, len(tokens) // length)
    windows = tokens[: number * length].reshape(number, length)
    data = {"token_ids": windows, "padding_mask": np.ones_like(windows)}
    profiles[name] = analysis.attention_statistics(model.backbone, data)
    averages = {k: own.averages() for k, own in profiles[name].items()}
    picture = analysis.plot_heads(averages)
    picture.savefig(FOLDER / f"figures_6_7_averages_{name}.png")
found |= profiles
picture = analysis.plot_distance_profile(profiles, reach=REACH)
picture.savefig(FOLDER / "figures_6_7_distance_profile.png")

"""
## All heads of an encoder

The weights of all heads in one sentence, and how much they depend on the input.
"""

if ENCODER:
    encoder = keras_hub.models.Backbone.from_preset(ENCODER)
    file = pathlib.Path(ENCODER, "tokenizer.json")
    known = json.loads(file.read_text("utf-8")) if file.exists() else {}
    if "model" in known:  # of Hugging Face
        ids = known["model"]["vocab"]
        words = sorted(ids, key=ids.get)
        tokenizer = keras_hub.models.BertTokenizer(words, lowercase=True)
    else:
        tokenizer = keras_hub.models.BertTokenizer.from_preset(ENCODER)
    preprocessor = keras_hub.models.BertTextClassifierPreprocessor(
        tokenizer, sequence_length=32
    )
    reviews, _ = datasets.generated_reviews(SAMPLES)
    inputs = preprocessor([SENTENCE, *reviews])
    weights = analysis.attention_weights(encoder, analysis.sample_of(inputs))
    analysis.plot_heads(weights).savefig(FOLDER / "encoder_heads.png")
    found["encoder"] = analysis.attention_statistics(encoder, inputs)
    for name, own in found["encoder"].items():
        print(name, "input dependence", own.input_dependence().round(2))

"""
## Results

Means over the heads of each layer. Tables can replace the heads that depend
least on the input: see `keras_synth.surgery.synthesize`. `docs/analysis.md`
explains the pictures.
"""

for model, layers in found.items():
    for layer, own in layers.items():
        summary = own.summary(WINDOW).items()
        print(model, layer, *(f"{key} {value:.2f}" for key, value in summary))
print(f"The pictures are in {FOLDER}/")

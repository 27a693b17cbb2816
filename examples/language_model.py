"""
Title: Language models with Synthesizers
Author: The keras_synth authors
Date created: 2026/11/21
Last modified: 2026/11/26
Description: Train a language model with synthesizers and generate text.
Accelerator: None
"""

"""
## Introduction

The [Synthesizer paper](https://arxiv.org/abs/2005.00743) finds that mixtures
with dot-product attention ("D+V") predict the next token best, and that
attention by position ("R") comes close. This example trains such a model on the
byte pairs of a text. `keras-synth compare --task language_model` has words and
bytes, too.

## Setup
"""

import keras
import keras_hub
import numpy as np

from keras_synth import datasets, models, training

DATA = None  # a text file, UTF-8
SYNTHESIZER = "R+V"
SEQUENCE_LENGTH, VOCABULARY_SIZE = 64, 2_000
NUM_LAYERS, NUM_HEADS, HIDDEN_DIM = 2, 4, 128
BATCH_SIZE, EPOCHS, LEARNING_RATE = 32, 3, 1e-3
PROMPT = "the"
PRESET = "language_model"

"""
## Data

The text becomes one long sequence of tokens, cut into windows. The labels of a
window are its tokens, one further on. The last tenth is to test on.
"""

if DATA is None:
    sentences, _ = datasets.generated_translations(8_000)
    text = "\n".join(sentences)
else:
    text = datasets.read(DATA, "text")
end = len(text) * 9 // 10
lines = text[:end].splitlines(keepends=True)
tokenizer = models.SynthesizerBytePairTokenizer.from_texts(
    lines, VOCABULARY_SIZE
)


def windows(text):
    ids = np.concatenate([*tokenizer(text.splitlines(keepends=True))])
    count = (len(ids) - 1) // SEQUENCE_LENGTH
    x, y = (
        ids[start:][: count * SEQUENCE_LENGTH].reshape(count, SEQUENCE_LENGTH)
        for start in (0, 1)
    )
    return {"token_ids": x, "padding_mask": np.ones_like(x)}, y


train, test = windows(text[:end]), windows(text[end:])

"""
## Model

No token sees a later one, and the embedding is the output layer, too.
"""

keras.utils.set_random_seed(0)
backbone = models.SynthesizerBackbone(
    vocabulary_size=tokenizer.vocabulary_size(),
    num_layers=NUM_LAYERS,
    num_heads=NUM_HEADS,
    hidden_dim=HIDDEN_DIM,
    intermediate_dim=4 * HIDDEN_DIM,
    synthesizer=SYNTHESIZER,
    max_sequence_length=SEQUENCE_LENGTH,
    causal=True,
)
model = models.SynthesizerCausalLM(backbone, preprocessor=None)
model.compile(
    training.adamw(LEARNING_RATE),
    loss=training.LabelSmoothedCrossentropy(),
    weighted_metrics=[keras_hub.metrics.Perplexity(from_logits=True)],
    sampler=keras_hub.samplers.TopPSampler(0.9, seed=0),
)

"""
## Training
"""

model.fit(
    *train,
    batch_size=BATCH_SIZE,
    epochs=EPOCHS,
    validation_data=test,
    verbose=2,
)

"""
## What came out

Given a tokenizer, the model goes on with a text.
"""

model.preprocessor = models.SynthesizerCausalLMPreprocessor(
    tokenizer, SEQUENCE_LENGTH
)
model.save_to_preset(PRESET)
print(model.generate(PROMPT, max_length=SEQUENCE_LENGTH))

"""
The generated sentences follow a grammar: which verb form is right depends on a
noun some words back. Attention that compares tokens finds it wherever it is;
attention by position must know where to look.
"""

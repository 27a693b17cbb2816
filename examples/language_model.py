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

In the [Synthesizer paper](https://arxiv.org/abs/2005.00743), mixtures of Dense
and dot-product attention ("D+V") predict the next token best, and attention by
position (Random, "R") comes close. This example trains such a model on the byte
pairs of a text. `keras-synth compare --task language_model` also supports words
and bytes.

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

The text becomes one long sequence of tokens, which is cut into windows. The
labels are the tokens shifted by one. The last tenth is the test set.
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

No token attends to a later one. The embedding is also the output layer.
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
## Results

With a preprocessor, the model continues a text.
"""

model.preprocessor = models.SynthesizerCausalLMPreprocessor(
    tokenizer, SEQUENCE_LENGTH
)
model.save_to_preset(PRESET)
print(model.generate(PROMPT, max_length=SEQUENCE_LENGTH))

"""
The generated sentences follow a grammar: the form of a verb depends on an
earlier noun. Attention that compares tokens finds the noun at any position.
Attention by position finds it only at positions that it has learned.
"""

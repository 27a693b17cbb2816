"""
Title: Language models with Synthesizers
Author: The keras_synth authors
Date created: 2026/11/21
Last modified: 2026/11/24
Description: Train language models with synthesized attention; they write.
Accelerator: None
"""

"""
## Introduction

The [Synthesizer paper](https://arxiv.org/abs/2005.00743) finds that mixtures
with dot-product attention ("D+V") predict the next token best, and that
attention by position alone ("R") comes close. This example trains such models
on words, on bytes, or on sentences that it generates:

```shell
python examples/language_model.py --variants V R
python examples/language_model.py --task wikitext2 --data wikitext-2
python examples/language_model.py --task text --data book.txt
```

`KERAS_BACKEND` chooses the backend. `keras-synth compare --task wikitext2` does
the same in other sizes and with many seeds.

## Setup
"""

import os

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras_synth_command

script = keras_synth_command.script(
    __doc__,
    objectives=["bytes", "words"],
    variants=["R+V"],
    epochs=3,
    output="language_model",
)
settings = script.parse()

import keras
import keras_hub
import numpy as np

from keras_synth import (
    batches,
    callbacks,
    metrics,
    models,
    optimizers,
    vocabulary,
)

SEQUENCE_LENGTH, BATCH_SIZE = 64, 32
NUM_LAYERS, NUM_HEADS, HIDDEN_DIM = 2, 4, 128
LEARNING_RATE = 1e-3

script.check_variants(NUM_HEADS, HIDDEN_DIM, SEQUENCE_LENGTH)

"""
## Data

A text to train on, one to validate on and one to test on. Words are numbered by
how often they occur in the first one, and those that do not are `<unk>`; bytes
are numbers already. The model sees windows of the texts.
"""

texts = script.load()
if isinstance(texts[0], list):
    tokens = vocabulary.WordVocabulary.from_text(texts[0])
else:
    tokens = vocabulary.ByteVocabulary()
train, validation, test = map(tokens.encode, texts)


def windows(ids, **options):
    with script.errors():  # the text may be too short
        return batches.TokenWindows(ids, SEQUENCE_LENGTH, BATCH_SIZE, **options)


train_windows = windows(train, seed=settings.seed)
validation_windows = windows(validation, shuffle=False)
test_windows = windows(test, shuffle=False)

"""
## Model

No token sees a later one, and the embedding is the output layer, too.
"""


def build_model(synthesizer):
    keras.utils.set_random_seed(settings.seed)
    backbone = models.SynthesizerBackbone(
        vocabulary_size=len(tokens),
        num_layers=NUM_LAYERS,
        num_heads=NUM_HEADS,
        hidden_dim=HIDDEN_DIM,
        intermediate_dim=4 * HIDDEN_DIM,
        synthesizer=synthesizer,
        max_sequence_length=SEQUENCE_LENGTH,
        causal=True,
    )
    model = models.SynthesizerCausalLM(backbone)
    model.compile(
        optimizers.adamw(LEARNING_RATE, steps=script.steps(train_windows)),
        weighted_metrics=[metrics.TokenCrossentropy()],  # in nats per token
        sampler=keras_hub.samplers.TopPSampler(0.9, seed=0),
    )
    return model


"""
## Training and writing

After each epoch all that training needs to go on is in a file: the same command
with `--resume` goes on from there. Models of words are scored by perplexity,
those of bytes by bits per byte. To write, a model reads how the text to test on
begins, and samples from the likeliest tokens.
"""

for name in settings.variants:
    model = build_model(name)
    path = script.checkpoint(name)
    history = callbacks.fit_from_checkpoint(
        model, train_windows, path, settings.epochs, validation_windows
    )
    found = model.evaluate(test_windows, verbose=0, return_dict=True)
    score = script.objective.score_of(found["crossentropy"], test_windows)
    row, mask = np.zeros((2, 1, SEQUENCE_LENGTH), "int32")
    row[0, :8], mask[0, :8] = test[:8], 1
    inputs = {"token_ids": row, "padding_mask": mask}
    written = model.generate(inputs, stop_token_ids=None)["token_ids"]
    print(sample := tokens.to_text(np.asarray(written)[0]))
    figures = {script.objective.score.name: float(score)}
    data, more = f"{len(train):,} tokens", {"sample": sample}
    script.save(model, name, history, figures, data, words=tokens.words, **more)
script.report("crossentropy")

"""
## What to look for

The generated sentences follow a grammar: which verb form is right depends on a
noun some words back. Attention that compares tokens finds it wherever it is;
attention by position must know where to look.
"""

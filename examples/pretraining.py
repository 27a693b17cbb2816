"""
Title: Pretraining on plain text
Author: The keras_synth authors
Date created: 2026/11/22
Last modified: 2026/11/24
Description: Pretrain an encoder on texts without labels, by masked tokens.
Accelerator: None
"""

"""
## Introduction

An encoder that has learned to guess what is missing in plain text starts every
later task from there (`examples/fine_tuning.py`). As in BERT's pretraining, 15%
of the tokens are hidden. `python examples/pretraining.py --data novels` reads a
text file or a folder of such.

`keras-synth train --task mlm` does the same in other sizes, for hours on much
text; `--task span_corruption` pretrains models that write, as T5.

## Setup
"""

import os

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras_synth_command

script = keras_synth_command.script(
    __doc__, variants=["R+V"], epochs=6, output="pretrained"
)
script.add("--data", metavar="PATH", help="a text file, or a folder of such")
settings = script.parse()

import keras
import numpy as np

from keras_synth import (
    callbacks,
    datasets,
    losses,
    metrics,
    models,
    optimizers,
    pretraining,
)

SEQUENCE_LENGTH, VOCABULARY_SIZE = 64, 8_000
NUM_LAYERS, NUM_HEADS, HIDDEN_DIM = 2, 4, 64
BATCH_SIZE, LEARNING_RATE = 32, 2e-3

script.check_variants(NUM_HEADS, HIDDEN_DIM, SEQUENCE_LENGTH)

"""
## Data

The lines of all texts become one long sequence of word pieces, cut into rows of
`[CLS] tokens [SEP]`. The last two hundredths are to validate and to test on.
What is hidden is drawn from seed, epoch and place: the same for every model.
"""

if settings.data is None:
    lines, _ = datasets.generated_reviews(8_000, seed=2)
else:
    with script.errors():
        text = "\n".join(datasets.load_texts(settings.data))
    lines = [line for line in text.split("\n") if line.strip()]
sample = lines[:: 1 + len(lines) // 100_000]  # more take long
tokenizer = models.SynthesizerTokenizer.from_texts(sample, VOCABULARY_SIZE)
preprocessor = models.SynthesizerMaskedLMPreprocessor(
    tokenizer, SEQUENCE_LENGTH
)
tokens = np.concatenate(tokenizer(lines))


def masked(tokens, **options):
    ends = tokenizer.start_token_id, tokenizer.end_token_id
    with script.errors():  # there may be too few tokens
        rows = pretraining.pack_tokens(tokens, SEQUENCE_LENGTH, *ends)
    return pretraining.MaskedTokens(
        rows,
        tokenizer.mask_token_id,
        tokenizer.vocabulary_size(),
        preprocessor.special_token_ids,
        batch_size=BATCH_SIZE,
        seed=settings.seed,
        **options,
    )


ends = [len(tokens) * 98 // 100, len(tokens) * 99 // 100]
train, validation, test = np.split(tokens, ends)
train_batches = masked(train, drop_remainder=True)
validation_batches = masked(validation, shuffle=False)
test_batches = masked(test, shuffle=False)

"""
## Model: an encoder whose embedding is the output layer, too
"""


def build_model(synthesizer):
    keras.utils.set_random_seed(settings.seed)
    backbone = models.SynthesizerBackbone(
        vocabulary_size=tokenizer.vocabulary_size(),
        num_layers=NUM_LAYERS,
        num_heads=NUM_HEADS,
        hidden_dim=HIDDEN_DIM,
        intermediate_dim=4 * HIDDEN_DIM,
        synthesizer=synthesizer,
        max_sequence_length=SEQUENCE_LENGTH,
    )
    model = models.SynthesizerMaskedLM(backbone)
    model.compile(
        optimizers.adamw(LEARNING_RATE, steps=script.steps(train_batches)),
        loss=losses.LabelSmoothedCrossentropy(),
        weighted_metrics=[metrics.TokenCrossentropy()],
    )
    return model


"""
## Training

After each epoch all that training needs to go on is in a file: the same command
with `--resume` goes on from there. Filling in shows what has been learned.
"""

for name in settings.variants:
    model = build_model(name)
    path = script.checkpoint(name)
    history = callbacks.fit_from_checkpoint(
        model, train_batches, path, settings.epochs, validation_batches
    )
    found = model.evaluate(test_batches, verbose=0, return_dict=True)
    model.preprocessor = preprocessor  # from here on it takes texts
    print(model.fill_mask("The plot was [MASK]."))
    figures = {"log-perplexity": found["crossentropy"]}
    script.save(model, name, history, figures, f"{len(tokens):,} tokens")
script.report("crossentropy")

"""
## What to look for

Log-perplexity stands a while at that of guessing by frequency, then falls, as
the model learns which tokens go together. On generated reviews, the default,
that takes a minute; a model of use to other tasks takes hours.
"""

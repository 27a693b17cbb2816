"""
Title: What attention can learn from positions, and what from words
Author: The keras_synth authors
Date created: 2026/11/22
Last modified: 2026/11/24
Description: Four kinds of attention on easy and on hard movie reviews.
Accelerator: None
"""

"""
## Introduction

This example trains four small classifiers that differ in their attention alone:

- "V", the usual one, compares each word with each other word;
- "R" has a learned table: which position looks at which, whatever the words;
- "D" lets each word say, by itself, which positions it looks at;
- "R+V" adds R to V, with learned shares that start equal and sum to 1.

The movie reviews are generated. In an *easy* one most adjectives tell the
label: "The plot was truly dull". A *hard* one has one good and one bad
adjective and denies one of them: "The plot was not dull but moving". Each has a
twin with the same words and the other label, so that counting words is right on
half of them. `KERAS_BACKEND` chooses the backend.

## Setup
"""

import os

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras_synth_command

variants = ["V", "R", "D", "R+V"]
script = keras_synth_command.script(
    __doc__, variants=variants, epochs=10, output="demo", resumes=False
)
script.add("--examples", type=int, default=6_000, help="reviews to train on")
settings = script.parse()

import keras

from keras_synth import batches, callbacks, datasets, models, schedules

SEQUENCE_LENGTH = 64  # word pieces; longer reviews keep their end
BATCH_SIZE = 32
NUM_HEADS, HIDDEN_DIM = 4, 64
LEARNING_RATE = 3e-3

script.check_variants(NUM_HEADS, HIDDEN_DIM, SEQUENCE_LENGTH)

"""
## Data

Half of the reviews to train on are hard. All are tokenized once, up front.
"""

with script.errors():
    train = datasets.generated_reviews(settings.examples, settings.seed)
easy = datasets.generated_reviews(1_000, settings.seed + 1, hard_fraction=0)
hard = datasets.generated_reviews(1_000, settings.seed + 1, hard_fraction=1)
print(f"An easy review: {easy[0][0]}\nA hard review:  {hard[0][0]}")

tokenizer = models.SynthesizerTokenizer.from_texts(train[0], 20_000)
preprocessor = models.SynthesizerTextClassifierPreprocessor(
    tokenizer, SEQUENCE_LENGTH, keep="end"
)


def batches_of(reviews, **options):
    x, y = preprocessor(*reviews)
    return batches.LengthBuckets(x, y, BATCH_SIZE, **options)


# No smaller last batch: JAX and XLA would compile a step of its own for it.
train_batches = batches_of(train, drop_remainder=True, seed=settings.seed)
easy_batches = batches_of(easy, shuffle=False)
hard_batches = batches_of(hard, shuffle=False)

"""
## Model

One block of an ordinary Transformer encoder. The name of a synthesizer is all
it takes to change its attention.
"""


def build_classifier(synthesizer):
    keras.utils.set_random_seed(settings.seed)
    backbone = models.SynthesizerBackbone(
        vocabulary_size=tokenizer.vocabulary_size(),
        num_layers=1,
        num_heads=NUM_HEADS,
        hidden_dim=HIDDEN_DIM,
        intermediate_dim=4 * HIDDEN_DIM,
        synthesizer=synthesizer,
        dropout=0.0,
        max_sequence_length=SEQUENCE_LENGTH,
    )
    names = ["negative", "positive"]
    classifier = models.SynthesizerTextClassifier(
        backbone, num_classes=2, dropout=0.0, class_names=names
    )
    schedule = schedules.cosine_with_warmup(
        LEARNING_RATE, script.steps(train_batches)
    )
    classifier.compile(keras.optimizers.AdamW(schedule), metrics=["accuracy"])
    return classifier


"""
## Training

After each epoch the hard test reviews tell how far it is. A preset with a model
card keeps each classifier.
"""

for name in settings.variants:
    classifier = build_classifier(name)
    train_batches.epoch = 0  # the same batches for all
    log = callbacks.EpochLog()
    classifier.fit(
        train_batches,
        epochs=settings.epochs,
        validation_data=hard_batches,
        callbacks=[log],
        verbose=2,
    )
    _, accuracy = classifier.evaluate(easy_batches, verbose=0)
    figures = {"easy reviews": accuracy}
    figures["hard reviews"] = log.history["val_accuracy"][-1]
    classifier.preprocessor = preprocessor  # from here on it takes strings
    data = f"{len(train[0]):,} generated reviews, half of them hard"
    script.save(classifier, name, log.history, figures, data)
script.report("accuracy")

"""
## What to look for

All four get the easy reviews right: there the majority of the adjectives
decides, wherever they stand. On the hard ones R stays near a half, since a
table of positions must learn about each place by itself. V compares words,
whatever their places, and soon finds out which adjective "not" denies; D, whose
words choose where to look without knowing what is there, gets less far, and
later. R+V learns what V learns; with other seeds it ends a little above V or a
little below.
"""

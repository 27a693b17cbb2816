"""
Title: What attention can learn from positions, and what from words
Author: The keras_synth authors
Date created: 2026/11/22
Last modified: 2026/11/22
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
adjective and denies one of them: "The plot was not dull but moving". Each hard
review has a twin with the same words and the other label, so whoever only
counts words is right on half of them.

Run it as `python examples/demo.py`; `KERAS_BACKEND` chooses the backend.

## Setup
"""

import argparse
import os
import pathlib
import time

os.environ.setdefault("KERAS_BACKEND", "jax")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras_synth_command

keras_synth_command.keras_waits = True  # for the command line

from keras_synth import command_line

NUM_HEADS = 4
HIDDEN_DIM = 64
SEQUENCE_LENGTH = 64  # word pieces; longer reviews keep their end
BATCH_SIZE = 32
LEARNING_RATE = 3e-3

parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
add = command_line.adder(parser)
add(
    "--variants",
    nargs="+",
    default=["V", "R", "D", "R+V"],
    metavar="X",
    help="synthesizers to train",
)
add(
    "--examples",
    type=int,
    default=6_000,
    help="reviews to train on, half of them hard",
)
add(
    "--test-examples",
    type=int,
    default=1_000,
    help="other reviews to test on, of each kind",
)
add("--epochs", type=int, default=10, help="passes")
add(
    "--seed",
    type=int,
    default=0,
    help="of reviews, initial weights, batches",
)
add(
    "--output",
    type=pathlib.Path,
    default=pathlib.Path("demo"),
    help="folder for the models and the picture",
)
settings = parser.parse_args()
command_line.require_at_least(
    parser, settings, examples=BATCH_SIZE, test_examples=1, epochs=1, seed=0
)

# After the command line: --help does not wait for Keras. And before Keras, so
# that TensorFlow starts in silence.
from keras_synth import (
    datasets,
    model_card,
    models,
    reporting,
    schedules,
    synthesizers,
)

# isort: split
import keras

try:
    for name in settings.variants:
        synthesizers.get(name, NUM_HEADS, HIDDEN_DIM, SEQUENCE_LENGTH)
except ValueError as error:
    parser.error(str(error))

"""
## Data

A WordPiece vocabulary is made of the reviews to train on. All reviews are
tokenized once, up front.
"""

texts, labels = datasets.generated_reviews(settings.examples, settings.seed)
easy, hard = (
    datasets.generated_reviews(
        settings.test_examples, settings.seed + 1, hard_fraction=fraction
    )
    for fraction in (0.0, 1.0)
)
print("An easy review:", easy[0][0])
print("A hard review: ", hard[0][0])

tokenizer = models.SynthesizerTokenizer.from_texts(texts, 20_000)
preprocessor = models.SynthesizerTextClassifierPreprocessor(
    tokenizer, sequence_length=SEQUENCE_LENGTH, keep="end"
)


def batches_of(texts, labels, **options):
    features = keras.tree.map_structure(
        keras.ops.convert_to_numpy, preprocessor(texts)
    )
    return datasets.LengthBuckets(features, labels, BATCH_SIZE, **options)


# No smaller last batch: JAX and XLA would compile a step of its own for it.
train_batches = batches_of(
    texts, labels, drop_remainder=True, seed=settings.seed
)
easy_batches, hard_batches = (
    batches_of(*reviews, shuffle=False) for reviews in (easy, hard)
)

"""
## Model

One block of an ordinary Transformer encoder, width 64, four heads. The name of
a synthesizer is all it takes to change its attention.
"""


def build_classifier(synthesizer):
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
    return models.SynthesizerTextClassifier(
        backbone,
        num_classes=2,
        dropout=0.0,
        class_names=["negative", "positive"],
    )


"""
## Training

The learning rate warms up over a tenth of the steps and then
falls to zero along a cosine. After each epoch the hard test reviews tell how
far it is. A preset with a model card keeps each classifier.
"""


def train(synthesizer):
    keras.utils.set_random_seed(settings.seed)
    classifier = build_classifier(synthesizer)
    steps = settings.epochs * len(train_batches)
    schedule = schedules.cosine_with_warmup(LEARNING_RATE, steps)
    classifier.compile(
        optimizer=keras.optimizers.AdamW(schedule),
        metrics=[keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
    )
    train_batches.epoch = 0  # the same batches for all
    started = time.perf_counter()
    history = classifier.fit(
        train_batches,
        epochs=settings.epochs,
        validation_data=hard_batches,
        verbose=2,
    ).history
    seconds = time.perf_counter() - started
    _, easy_accuracy = classifier.evaluate(easy_batches, verbose=0)
    # From here on the classifier takes raw strings.
    classifier.preprocessor = preprocessor
    folder = settings.output / synthesizer
    classifier.save_to_preset(folder)
    model_card.write_model_card(
        folder,
        f"Review classifier {synthesizer}",
        "Tells negative from positive reviews. A `SynthesizerTextClassifier` "
        f"of keras_synth: one block, self-attention {synthesizer}.",
        f"{len(texts):,} generated reviews, half of them hard: as many bad as "
        f"good adjectives. Epochs: {settings.epochs}.",
        {
            "accuracy, easy test reviews": f"{easy_accuracy:.3f}",
            "accuracy, hard test reviews": f"{history['val_accuracy'][-1]:.3f}",
            "parameters": f"{classifier.count_params():,}",
        },
        f"""
from keras_synth import models

classifier = models.SynthesizerTextClassifier.from_preset("{synthesizer}")
print(classifier.class_names)
print(classifier.predict(["The plot was not dull but moving."]))
""",
        licence="apache-2.0",
    )
    return {
        "synthesizer": synthesizer,
        "easy": easy_accuracy,
        "hard": history["val_accuracy"],
        "parameters": classifier.count_params(),
        "seconds": seconds,
    }


settings.output.mkdir(parents=True, exist_ok=True)
runs = []
for synthesizer in settings.variants:
    print(f"\n{synthesizer} on {keras.backend.backend()}")
    runs.append(train(synthesizer))

"""
## Report
"""


headings = "synthesizer;easy reviews;hard reviews;parameters;training"
reporting.print_table(
    f"Test accuracy, {keras.backend.backend()} backend",
    headings.split(";"),
    [
        [
            run["synthesizer"],
            f"{run['easy']:.3f}",
            f"{run['hard'][-1]:.3f}",
            f"{run['parameters']:,}",
            f"{run['seconds']:.0f} s",
        ]
        for run in runs
    ],
)
with reporting.picture(settings.output / "hard_reviews.png") as axes:
    epochs = range(1, settings.epochs + 1)
    for run in runs:
        axes.plot(epochs, run["hard"], marker=".", label=run["synthesizer"])
    axes.axhline(0.5, color="gray", linestyle=":", label="counting words")
    axes.set_ylabel("accuracy on hard test reviews")
    axes.set_ylim(0.4, 1.02)
    axes.legend()
print(f"Presets and hard_reviews.png are in {settings.output}/")

"""
## What to look for

All four get the easy reviews right: there the majority of the adjectives
decides, wherever they stand. On the hard ones R stays near a half, since the
word that denies stands now here, now there, and a table of positions must
learn about each place by itself. V compares words, whatever their places, and
soon finds out which adjective "not" denies; D, whose words choose where to look
without knowing what is there, gets less far, and later.

The mixture R+V holds V, so it learns what V learns, though its shares start
equal, which halves the logits of V at first. With other seeds it ends a little
above V or a little below.
"""

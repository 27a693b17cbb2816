"""
Title: Text classification with Synthesizers
Author: The keras_synth authors
Date created: 2026/11/21
Last modified: 2026/11/21
Description: Train classifiers with synthesized attention on raw text.
Accelerator: None
"""

"""
## Introduction

A Transformer compares all pairs of tokens to decide who attends to whom. A
[Synthesizer](https://arxiv.org/abs/2005.00743) does not: its attention weights
come from a learned table of positions ("R", or of low rank "FR"), from each
token alone ("D"), or from a learned mixture of these with the usual dot
product ("R+V"). This example trains such classifiers on raw text and puts them
side by side.

It reads movie reviews (the IMDB folder or its tar.gz), any CSV or TSV file
with a column of texts and one of labels, or, if no data is given, reviews that
it generates itself. Run it as

```shell
python examples/text_classification.py --variants V R R+V
python examples/text_classification.py --data aclImdb_v1.tar.gz
python examples/text_classification.py --data mine.csv --label topic
```

and choose the backend with `KERAS_BACKEND=jax`, `tensorflow` or `torch`. The
vocabulary is trained by keras-nlp, which needs `tensorflow-text` for that on
every backend.

## Setup
"""

import argparse
import os
import pathlib
import re
import time

os.environ.setdefault("KERAS_BACKEND", "jax")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras_synth_command

keras_synth_command.keras_waits = True  # for the command line

from keras_synth import command_line

SMOOTHING = 25  # steps over which the picture's loss curves are averaged

parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
add = command_line.adder(parser)
add("--data", metavar="PATH", help="IMDB folder or tar.gz, or a CSV/TSV file")
add("--text", metavar="COLUMN", help="the CSV's column of texts, if not 'text'")
add("--label", metavar="COLUMN", help="that of classes, if not 'label'")
add(
    "--delimiter",
    type=command_line.character,
    metavar="X",
    help="between the fields of a CSV, \\t for a tab, if not a comma",
)
add(
    "--skip-empty",
    action="store_true",
    help="leave out rows of a CSV with an empty field, and say how many",
)
add("--variants", nargs="+", default=["R"], metavar="X", help="synthesizers")
add("--rank", type=int, default=8, help="of FR")
add("--epochs", type=int, default=3, help="passes over the texts")
add("--batch-size", type=int, default=64, help="texts per training step")
add("--sequence-length", type=int, default=64, help="longest text, in tokens")
add(
    "--keep",
    choices=["start", "end"],
    default="end",
    help="which part of a long text; reviews conclude at their end",
)
add(
    "--lengths",
    type=int,
    nargs="+",
    default=[],
    help="in tokens, to pad shorter texts to, beside --sequence-length",
)
add("--vocabulary-size", type=int, default=20_000, help="word pieces, at most")
add("--vocabulary", type=pathlib.Path, help="file to keep the word pieces in")
add("--num-layers", type=int, default=2, help="blocks of the encoder")
add("--num-heads", type=int, default=4, help="of each block")
add("--hidden-dim", type=int, default=64, help="model width")
add("--dropout", type=float, default=0.1, help="share to drop in training")
add("--learning-rate", type=float, default=1e-3, help="the highest one")
add("--weight-decay", type=float, default=0.004, help="of AdamW")
add(
    "--pooling",
    choices=["mean", "first"],
    default="mean",
    help="how tokens become one vector",
)
add("--examples", type=int, default=6_000, help="reviews to generate")
add("--seed", type=int, default=0, help="of weights, batches and dropout")
add(
    "--output",
    type=pathlib.Path,
    default=pathlib.Path("demo"),
    help="folder for the models and the picture",
)
settings = parser.parse_args(
    command_line.arguments(
        {"--synthesizers": "--variants", "--buckets": "--lengths"}
    )
)

# After the command line: --help does not wait for Keras. And before Keras, so
# that TensorFlow starts in silence.
from keras_synth import (
    callbacks,
    datasets,
    files,
    model_card,
    models,
    optimizers,
    reporting,
    schedules,
    synthesizers,
)

# isort: split
import keras
import numpy as np
import tensorflow as tf  # only for making tokens

"""
## Data

Texts and labels, for training and for testing. Files without a test split of
their own give up a tenth of their rows for it.
"""


def load_data():
    if settings.data is None:
        texts, labels = datasets.generated_reviews(
            settings.examples, seed=settings.seed
        )
        names = ["negative", "positive"]
    elif settings.delimiter or settings.data.removesuffix(".gz").endswith(
        (".csv", ".tsv")
    ):
        texts, labels, names = datasets.load_csv(
            settings.data,
            text=settings.text,
            label=settings.label,
            delimiter=settings.delimiter,
            skip_empty=settings.skip_empty,
        )
    else:
        return *datasets.load_imdb(settings.data), ["negative", "positive"]
    train, test = datasets.train_validation_split(
        texts, labels, seed=settings.seed
    )
    return train, test, names


with command_line.errors_in_options(parser, settings):
    (train_texts, train_labels), (test_texts, test_labels), class_names = (
        load_data()
    )
print(
    f"{len(train_texts):,} texts to train on, {len(test_texts):,} to test on, "
    f"classes: {', '.join(class_names)}"
)

"""
## Tokens

A WordPiece vocabulary is trained on the training texts alone. Everything is
tokenized once, up front, so that no training step waits for it.
"""


def train_vocabulary():
    tokenizer = models.SynthesizerTokenizer.from_texts(
        train_texts, settings.vocabulary_size
    )
    if settings.vocabulary:
        words = tokenizer.get_vocabulary()
        with files.writing(settings.vocabulary) as file:
            file.write("\n".join(words) + "\n")
    return tokenizer


started = time.perf_counter()
if settings.vocabulary and settings.vocabulary.exists():
    tokenizer = models.SynthesizerTokenizer(str(settings.vocabulary))
else:
    tokenizer = train_vocabulary()
print(
    f"{tokenizer.vocabulary_size():,} word pieces "
    f"({time.perf_counter() - started:.1f} s)"
)
preprocessor = models.SynthesizerTextClassifierPreprocessor(
    tokenizer, sequence_length=settings.sequence_length, keep=settings.keep
)


def tokenized(texts):
    batches = tf.data.Dataset.from_tensor_slices(texts).batch(512)
    batches = list(batches.map(preprocessor).as_numpy_iterator())
    return {
        name: np.concatenate([batch[name] for batch in batches])
        for name in ("token_ids", "padding_mask")
    }


started = time.perf_counter()
train_features, test_features = tokenized(train_texts), tokenized(test_texts)
print(f"All texts tokenized ({time.perf_counter() - started:.1f} s)")

"""
Batches hold texts of about equal length, padded to one of the `--lengths` or to
`--sequence-length`. There are few lengths and no smaller last batch, since JAX
and XLA compile a training step anew for every shape.
"""

train_batches = datasets.LengthBuckets(
    train_features,
    train_labels,
    settings.batch_size,
    settings.lengths,
    drop_remainder=True,
    seed=settings.seed,
)
test_batches = datasets.LengthBuckets(
    test_features, test_labels, 256, settings.lengths, shuffle=False
)

"""
## Model

The backbone is an ordinary pre-norm Transformer encoder; only its attention
differs. A name such as `"R+V"` is all it takes. Where a part has options of
its own, they stand in brackets: `"FR(rank=32) + V"`. `--rank` is that of the
parts that do not say theirs.
"""


def build_synthesizer(name):
    heads, length = settings.num_heads, settings.sequence_length
    return synthesizers.get(
        name,
        heads,
        settings.hidden_dim // heads,
        length,
        defaults={"rank": settings.rank},
    )


def build_classifier(name):
    backbone = models.SynthesizerBackbone(
        vocabulary_size=tokenizer.vocabulary_size(),
        num_layers=settings.num_layers,
        num_heads=settings.num_heads,
        hidden_dim=settings.hidden_dim,
        intermediate_dim=4 * settings.hidden_dim,
        synthesizer=build_synthesizer(name),
        dropout=settings.dropout,
        max_sequence_length=settings.sequence_length,
    )
    return models.SynthesizerTextClassifier(
        backbone,
        num_classes=len(class_names),
        class_names=class_names,
        dropout=settings.dropout,
        pooling=settings.pooling,
    )


"""
## Training

The learning rate warms up over a tenth of the steps and decays to zero along a
cosine. `StepLog` notes loss and duration of every step; the first steps of each
length, which compile, do not count for the speed. What making the batches takes
bounds the time that training waits for data. A preset holds the model, its
vocabulary and its class names; its card says what it is and how to load it.
"""

USAGE = """
from keras_synth import models

classifier = models.SynthesizerTextClassifier.from_preset("{folder}")
print(classifier.class_names)
print(classifier.predict([{text!r}]))
"""


def save(classifier, name, folder, accuracy):
    source = settings.data and pathlib.Path(settings.data).name
    classifier.save_to_preset(settings.output / folder)
    model_card.write_model_card(
        settings.output / folder,
        f"Text classifier {name}",
        f"Tells texts apart: {', '.join(class_names)}. A "
        f"`SynthesizerTextClassifier` of keras_synth: {settings.num_layers} "
        f"blocks, self-attention {name}.",
        f"{len(train_texts):,} texts of {source or 'generated reviews'}. "
        f"Epochs: {settings.epochs}.",
        {
            "accuracy, test": f"{accuracy:.4f}",
            "parameters": f"{classifier.count_params():,}",
        },
        USAGE.format(folder=folder, text=test_texts[0][:60]),
        licence=None if source else "apache-2.0",  # of other data, unknown
    )


def train(name):
    keras.utils.set_random_seed(settings.seed)
    classifier = build_classifier(name)
    steps = settings.epochs * len(train_batches)
    schedule = schedules.cosine_with_warmup(settings.learning_rate, steps)
    optimizer = optimizers.adamw(schedule, settings.weight_decay)
    classifier.compile(optimizer=optimizer)
    history = {name: [] for name in callbacks.STEPS}
    timed = callbacks.TimedBatches(train_batches)
    started = time.perf_counter()
    classifier.fit(
        timed,
        epochs=settings.epochs,
        callbacks=[callbacks.StepLog(timed, history)],
        verbose=2,
    )
    seconds = time.perf_counter() - started
    _, accuracy = classifier.evaluate(test_batches, verbose=0)
    # From here on the classifier takes raw strings.
    classifier.preprocessor = preprocessor
    folder = re.sub(r"[^\w+.-]+", "_", name).strip("_")
    save(classifier, name, folder, accuracy)
    print(f"{name}: test accuracy {accuracy:.4f}, saved as {folder}")
    return {
        "variant": name,
        "accuracy": accuracy,
        "parameters": classifier.count_params(),
        "seconds": seconds,
        "losses": history["losses"],
        **callbacks.speed(history),
    }


settings.output.mkdir(parents=True, exist_ok=True)
results = []
for name in settings.variants:
    print(f"\n{name} on {keras.backend.backend()}")
    results.append(train(name))

"""
## Report

A table of all runs, and a picture of their learning curves.
"""


reporting.print_table(
    f"Test accuracy, {keras.backend.backend()} backend, seed {settings.seed}",
    "variant accuracy parameters steps/s data s".split(),
    [
        [
            run["variant"],
            f"{run['accuracy']:.4f}",
            f"{run['parameters']:,}",
            f"{run['steps_per_second'] or 0:.2f}",
            f"{100 * run['data_share']:.1f}%",
            f"{run['seconds']:.0f}",
        ]
        for run in results
    ],
)
with reporting.picture(settings.output / "learning_curves.png") as axes:
    for run in results:
        label = f"{run['variant']} (test accuracy {run['accuracy']:.3f})"
        curve = reporting.smoothed(run["losses"], SMOOTHING, settings.epochs)
        axes.plot(*curve, label=label)
    axes.set_ylabel(f"training loss, mean of {SMOOTHING} steps")
    axes.set_ylim(bottom=0)
    axes.legend()
print(f"Presets and learning_curves.png are in {settings.output}/")

"""
## What to look for

On the generated reviews half of the texts come in pairs with the same words
and opposite labels: a bag of words cannot tell them apart and stays at 75%.
Dot-product attention, alone or in a mixture, soon finds out which word "not"
denies; a mixture a little later, since equal alphas halve its logits at the
start, so give it epochs enough. R attends by position, whatever the words: it
must learn about each position by itself, and on texts whose phrases move about
it needs more of them.
"""

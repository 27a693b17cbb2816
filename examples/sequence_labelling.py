"""
Title: Sequence labelling with Synthesizers
Author: The keras_synth authors
Date created: 2026/11/22
Last modified: 2026/11/22
Description: Label each word of a sentence with synthesized attention.
Accelerator: None
"""

"""
## Introduction

Many tasks ask for a label of each word: its part of speech, or whether it
belongs to the name of a person, a place, an organisation. What a word is
depends on the words around it. This example trains taggers whose attention is
a [Synthesizer](https://arxiv.org/abs/2005.00743) on the English Web Treebank
of Universal Dependencies, or, if no data is given, on sentences that it
generates, in which the same names are persons, places and organisations.

```shell
python examples/sequence_labelling.py --variants V R R+V
python examples/sequence_labelling.py --data UD_English-EWT --epochs 6
python examples/sequence_labelling.py --data UD_English-EWT --init pretrained
```

`--init` takes a preset, such as one that `SynthesizerMaskedLM.save_to_preset`
wrote, and trains its encoder on, with its vocabulary. Choose the backend with
`KERAS_BACKEND=jax`, `tensorflow` or `torch`.

## Setup
"""

import argparse
import collections
import json
import os
import pathlib
import time

os.environ.setdefault("KERAS_BACKEND", "jax")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras_synth_command

keras_synth_command.keras_waits = True  # for the command line

from keras_synth import command_line

parser = argparse.ArgumentParser(description=__doc__.split("\n")[1])
add = command_line.adder(parser)
add("--data", metavar="FOLDER", help="of UD English EWT; else generated data")
add("--init", metavar="PRESET", help="folder of a pre-trained preset")
add(
    "--variants",
    nargs="+",
    metavar="NAME",
    help="synthesizers, if not of --init (default: R+V)",
)
add("--epochs", type=int, default=4, help="passes over the sentences")
add("--batch-size", type=int, default=32, help="sentences per training step")
add("--sequence-length", type=int, default=64, help="longest, in tokens")
add(
    "--lengths",
    type=int,
    nargs="+",
    default=[32],
    help="in tokens, to pad shorter sentences to",
)
add("--vocabulary-size", type=int, default=16_000, help="tokens, at most")
add("--num-layers", type=int, default=2, help="blocks of the encoder")
add("--num-heads", type=int, default=4, help="of each block")
add("--hidden-dim", type=int, default=64, help="model width")
add("--dropout", type=float, default=0.1, help="share to drop in training")
add("--learning-rate", type=float, default=2e-3, help="the highest one")
add("--weight-decay", type=float, default=0.004, help="of AdamW")
add("--examples", type=int, default=4_000, help="sentences to generate")
command_line.add_training(add, "sequence_labelling")
settings = parser.parse_args()
if settings.init and settings.variants:
    parser.error(
        "--init brings the synthesizers of the preset. Leave out --variants, "
        f"or --init. Received: --variants {' '.join(settings.variants)}"
    )
if settings.init and not (pathlib.Path(settings.init) / "config.json").exists():
    parser.error(
        f"there is no preset in {settings.init}. `python "
        "examples/pretraining.py` makes one in pretrained/"
    )
settings.variants = settings.variants or [
    # Not the preset's own name, which may be that of a folder in --output.
    f"{pathlib.Path(settings.init).resolve().name}_tuned"
    if settings.init
    else "R+V"
]
command_line.require_at_least(
    parser, settings, epochs=1, batch_size=1, examples=10
)
checkpoints = command_line.unfinished(parser, settings)

# After the command line: --help does not wait for Keras. And before Keras, so
# that TensorFlow starts in silence.
from keras_synth import (
    callbacks,
    datasets,
    files,
    metrics,
    model_card,
    models,
    optimizers,
    reporting,
    schedules,
)

# isort: split
import keras
import keras_hub
import numpy as np

if not settings.init:
    command_line.check_variants(parser, settings, models.SynthesizerBackbone)

"""
## Data

Sentences to train on, to validate on and to test on: lists of words, and a
label for each of them.
"""

DATA = "ud_ewt" if settings.data else "generated_entities"
ABOUT = {
    "ud_ewt": "Universal Dependencies, English Web Treebank (CC BY-SA 4.0), "
    "words with their universal parts of speech.",
    "generated_entities": "Generated sentences with persons, places and "
    "organisations of the same names "
    "(`keras_synth.datasets.generated_entities`).",
}
class_names = datasets.CLASS_NAMES[DATA]


def load_data():
    if settings.data:
        return datasets.load(DATA, settings.data)
    held_out = settings.examples // 10
    sizes = settings.examples - 2 * held_out, held_out, held_out
    return [
        datasets.generated_entities(size, seed=3 * settings.seed + i)
        for i, size in enumerate(sizes)
    ]


def count_words(sentences):
    return sum(map(len, sentences))


with command_line.errors_in_options(parser, settings):
    train_data, validation_data, test_data = load_data()
print(
    ", ".join(
        f"{len(sentences):,} sentences of {count_words(sentences):,} words "
        f"to {purpose}"
        for (sentences, _), purpose in zip(
            (train_data, validation_data, test_data),
            ("train on", "validate on", "test on"),
            strict=True,
        )
    )
)

"""
## Scores

The share of words labelled right, and where labels mark entities, the F1 of
entities. What gives each word its most frequent label, and words that it has
not seen the most frequent one of all, is the least to be beaten.
"""

are_entities = "O" in class_names


def scores_of(labels, found):
    """Accuracy, and F1 where there are entities."""
    right = [
        a == b
        for rows in zip(labels, found, strict=True)
        for a, b in zip(*rows, strict=True)
    ]
    scores = {"accuracy": float(np.mean(right))}
    if are_entities:
        scores["entity F1"] = metrics.entity_f1(labels, found)
    return scores


def baseline_scores():
    counts = collections.defaultdict(collections.Counter)
    for words, labels in zip(*train_data, strict=True):
        for word, label in zip(words, labels, strict=True):
            counts[word][label] += 1
    ((frequent, _),) = sum(counts.values(), collections.Counter()).most_common(
        1
    )
    best = {word: seen.most_common(1)[0][0] for word, seen in counts.items()}
    sentences, labels = test_data
    found = [[best.get(word, frequent) for word in row] for row in sentences]
    return scores_of(labels, found)


with command_line.errors_in_options(parser, settings):
    baseline = baseline_scores()


def shown(scores):
    return ", ".join(f"{name} {score:.4f}" for name, score in scores.items())


print(f"Each word's most frequent label: {shown(baseline)}")

"""
## Tokens

The vocabulary is large, so that most words are one piece: a small model learns
slowly to put a word together. A word's label stands at its first piece; its
other pieces are not scored. Everything is tokenized once, up front, and batches
hold sentences of about equal length.
"""


def build_tokenizer():
    if settings.init:
        return keras_hub.tokenizers.Tokenizer.from_preset(settings.init)
    return models.SynthesizerBytePairTokenizer.from_texts(
        [" ".join(words) for words in train_data[0]], settings.vocabulary_size
    )


def batches(sentences, labels, **options):
    numbers = {name: number for number, name in enumerate(class_names)}
    labels = [[numbers[label] for label in row] for row in labels]
    x, y, weight = preprocessor(sentences, labels)
    return datasets.LengthBuckets(
        x,
        y,
        settings.batch_size,
        settings.lengths,
        sample_weight=weight,
        **options,
    )


started = time.perf_counter()
with command_line.errors_in_options(parser, settings):
    pretrained = (
        models.SynthesizerBackbone.from_preset(settings.init)
        if settings.init
        else None
    )
    if pretrained and settings.sequence_length > pretrained.max_sequence_length:
        raise ValueError(
            "`sequence_length` must be at most that of the preset, "
            f"{pretrained.max_sequence_length}. Received: "
            f"{settings.sequence_length}"
        )
    tokenizer = build_tokenizer()
    preprocessor = models.SynthesizerTokenClassifierPreprocessor(
        tokenizer,
        settings.sequence_length,
        with_segments=bool(pretrained and pretrained.num_segments),
    )
    train_batches = batches(
        *train_data, seed=settings.seed, drop_remainder=True
    )
    validation_batches = batches(*validation_data, shuffle=False)
print(
    f"{tokenizer.vocabulary_size():,} pieces; all sentences tokenized "
    f"({time.perf_counter() - started:.1f} s)"
)

"""
## Model

An encoder and a dense layer at each token. The learning rate warms up over a
tenth of the steps and decays to zero along a cosine.
"""


def build_tagger(name):
    backbone = (
        models.SynthesizerBackbone.from_preset(settings.init)
        if settings.init
        else models.SynthesizerBackbone(
            vocabulary_size=tokenizer.vocabulary_size(),
            num_layers=settings.num_layers,
            num_heads=settings.num_heads,
            hidden_dim=settings.hidden_dim,
            intermediate_dim=4 * settings.hidden_dim,
            synthesizer=name,
            dropout=settings.dropout,
            max_sequence_length=settings.sequence_length,
        )
    )
    tagger = models.SynthesizerTokenClassifier(
        backbone,
        num_classes=len(class_names),
        dropout=settings.dropout,
        class_names=class_names,
    )
    steps = settings.epochs * len(train_batches)
    schedule = schedules.cosine_with_warmup(settings.learning_rate, steps)
    tagger.compile(optimizers.adamw(schedule, settings.weight_decay))
    return tagger


"""
## Training

After each epoch all that training needs to go on is written to a file, so that
the same command with `--resume` goes on from there, along the same curve.
"""


class History(keras.callbacks.Callback):
    """Notes the scores of each epoch, and tells batches which one it is."""

    def __init__(self, history):
        super().__init__()
        self.history = history

    def on_epoch_begin(self, epoch, logs=None):
        train_batches.epoch = epoch
        self.started = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        self.history["seconds"].append(time.perf_counter() - self.started)
        for name in ("loss", "accuracy", "val_loss", "val_accuracy"):
            self.history[name].append(float(logs[name]))


def train_tagger(name):
    """Returns a trained model and its history."""
    keras.utils.set_random_seed(settings.seed)
    keras.config.set_dtype_policy(settings.dtype_policy)
    tagger = build_tagger(name)
    names = "loss accuracy val_loss val_accuracy seconds".split()
    history = {name: [] for name in names}
    checkpoint = callbacks.EpochCheckpoint(
        settings.output / f"{name}.npz", history, settings.seed
    )
    epoch = checkpoint.restore(tagger)
    if epoch:
        print(f"Going on after epoch {epoch}")
    tagger.fit(
        train_batches,
        validation_data=validation_batches,
        initial_epoch=epoch,
        epochs=max(epoch, settings.epochs),
        callbacks=[History(history), checkpoint],
        verbose=2,
    )
    # From here on it takes words.
    tagger.preprocessor = preprocessor
    return tagger, history


"""
## Saving

A preset holds model, vocabulary and names of classes. Its card says what it
is, and how to load it.
"""

USAGE = """\
from keras_synth import models

tagger = models.SynthesizerTokenClassifier.from_preset("{folder}")
print(tagger.tag([{words}]))
"""


def save(tagger, name, scores):
    folder = settings.output / name
    tagger.save_to_preset(folder)
    sentences, _ = train_data
    start = "scratch"
    if settings.init:
        start = f"the preset {pathlib.Path(settings.init).resolve().name}"
    figures = {
        **{f"{key}, test": f"{value:.4f}" for key, value in scores.items()},
        **{
            f"{key}, each word's most frequent label": f"{value:.4f}"
            for key, value in baseline.items()
        },
        "parameters": f"{tagger.count_params():,}",
    }
    model_card.write_model_card(
        folder,
        f"Tagger {name}",
        "Labels the words of English sentences: "
        f"{', '.join(class_names)}. A `SynthesizerTokenClassifier` of "
        f"keras_synth, trained on {keras.backend.backend()} for "
        f"{settings.epochs} epochs from {start}.",
        f"{ABOUT[DATA]} {len(sentences):,} sentences of "
        f"{count_words(sentences):,} words.",
        figures,
        USAGE.format(folder=name, words=test_data[0][0]),
        licence=None
        if settings.data
        else "apache-2.0",  # of other data, unknown
    )


"""
## Run
"""

settings.output.mkdir(parents=True, exist_ok=True)
results = []
for name in settings.variants:
    print(f"\n{name} on {keras.backend.backend()}")
    with command_line.errors_in_options(parser, settings):
        tagger, history = train_tagger(name)
    sentences, labels = test_data
    scores = scores_of(labels, tagger.tag(sentences, settings.batch_size))
    save(tagger, name, scores)
    results.append(
        {
            "variant": name,
            "scores": scores,
            "baseline": baseline,
            "parameters": tagger.count_params(),
            "history": history,
        }
    )
    print(f"{name}: {shown(scores)}")
    words, found = sentences[0], tagger.tag(sentences[:1])[0]
    print(" ".join(f"{w}/{x}" for w, x in zip(words, found, strict=True)))

"""
## Report

A table of all models, and their learning curves.
"""

reporting.print_table(
    f"{DATA}, {keras.backend.backend()} backend, seed {settings.seed}",
    ["variant", *baseline, "training, s", "parameters"],
    [["most frequent label", *(f"{x:.4f}" for x in baseline.values()), "", ""]]
    + [
        [
            run["variant"],
            *(f"{score:.4f}" for score in run["scores"].values()),
            f"{sum(run['history']['seconds']):.0f}",
            f"{run['parameters']:,}",
        ]
        for run in results
    ],
)
with reporting.picture(settings.output / "learning_curves.png") as axes:
    for i, run in enumerate(results):
        epochs = np.arange(1, len(run["history"]["loss"]) + 1)
        label = f"{run['variant']} (test {run['scores']['accuracy']:.3f})"
        axes.plot(
            epochs, run["history"]["val_accuracy"], f"C{i}o-", label=label
        )
        axes.plot(epochs, run["history"]["accuracy"], f"C{i}:", alpha=0.7)
    axes.axhline(
        baseline["accuracy"],
        color="grey",
        linestyle="--",
        label=f"most frequent label (test {baseline['accuracy']:.3f})",
    )
    axes.set_ylabel("accuracy (line: validation, dots: training)")
    axes.legend()
with files.writing(settings.output / "results.json") as file:
    json.dump(results, file, indent=1)
for path in checkpoints:  # what they hold is safe
    path.unlink(missing_ok=True)
print(
    f"Presets, results.json and learning_curves.png are in {settings.output}/"
)

"""
## What to look for

On the generated sentences each name is a person, a place or an organisation
equally often. Often the word before or after it tells which; in "The baker
wrote about Florence , the harbour" it is the third one on. Dot-product
attention finds such words wherever they stand. Attention by position alone
("R") must learn for each position by itself where to look, so after the same
few epochs it is right on fewer entities.
"""

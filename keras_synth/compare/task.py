"""Settings and the base class of tasks."""

import argparse
import os
from typing import NamedTuple

import keras
import numpy as np

import keras_synth  # its models need seconds for their import, at first use
from keras_synth.compare import start
from keras_synth.compare.data import SPLITS
from keras_synth.training import (
    InverseSquareRoot,
    LabelSmoothedCrossentropy,
    LengthBuckets,
    adamw,
)


def _number(kind, least, below=float("inf")):
    """Returns the type of an option."""

    def convert(text):
        value = kind(text)
        if not least <= value < below:
            end = f" and below {below}" if below == 1 else ""
            raise argparse.ArgumentTypeError(
                f"must be at least {least}{end}. Received: {text}"
            )
        return value

    convert.__name__ = kind.__name__  # for argparse's errors
    return convert


POSITIVE, NATURAL = _number(int, 1), _number(int, 0)
RATE, AT_LEAST_0 = _number(float, 0, 1), _number(float, 0)

# Name -> default, type or choices, help. A task has the settings in its
# `defaults`.
SETTINGS = {
    "sequence_length": (64, POSITIVE, "longest input, in tokens"),
    "lengths": ([], POSITIVE, "lengths of shorter batches"),
    "num_layers": (2, POSITIVE, "blocks, in encoder and decoder each"),
    "num_heads": (4, POSITIVE, "heads of each attention layer"),
    "hidden_dim": (128, POSITIVE, "model width"),
    "intermediate_dim": (0, NATURAL, "feed-forward width; 0 is 4 x model's"),
    "dropout": (0.1, RATE, "dropout rate"),
    "vocabulary_size": (10_000, POSITIVE, "word pieces or byte pairs to learn"),
    "keep": ("end", ("start", "end"), "part of a long text to keep"),
    "pooling": ("mean", ("mean", "first"), "from tokens to one vector"),
    "metric": ("accuracy", ("accuracy", "matthews", "f1"), "test score"),
    "tokens": ("words", ("words", "bytes", "subwords"), "kind of tokens"),
    "label_smoothing": (0.0, RATE, "of the loss"),
    "epochs": (3, POSITIVE, "passes over the training examples"),
    "steps_per_epoch": (0, NATURAL, "steps of an epoch; 0 is a whole pass"),
    "batch_size": (64, POSITIVE, "examples per training step"),
    "learning_rate": (1e-3, AT_LEAST_0, "highest, after the warm-up"),
    "warmup_steps": (0, NATURAL, "warm-up; 0 is a tenth of all steps"),
    "schedule": (
        "cosine",
        ("cosine", "inverse_sqrt"),
        "decay of the rate after the warm-up",
    ),
    "weight_decay": (0.004, AT_LEAST_0, "AdamW's"),
    "examples": (0, NATURAL, "for training; 0 is all, or 6,000 generated"),
    "dtype_policy": (
        "float32",
        ("float32", "mixed_bfloat16"),
        "precision of the computation",
    ),
    "init": (
        "",
        os.path.abspath,
        "pretrained preset, or --output with presets",
    ),
    "init_weights": (
        "pretrained",
        ("pretrained", "random"),
        "random: the model of --init from scratch",
    ),
}
# Settings of all tasks.
COMMON = """
    sequence_length num_layers num_heads hidden_dim intermediate_dim dropout
    epochs steps_per_epoch batch_size learning_rate warmup_steps schedule
    examples dtype_policy
""".split()
TOKENIZERS = {
    "word_pieces": "SynthesizerTokenizer",
    "subwords": "SynthesizerBytePairTokenizer",
    "words": "SynthesizerWordTokenizer",
    "bytes": "SynthesizerByteTokenizer",
}


def option(name):
    """Returns the option of a setting."""
    return f"--{name.replace('_', '-')}"


def with_defaults(task, values):
    """Returns all settings of a task, or raises if they do not fit."""
    for name, value in values.items():
        if name not in task.defaults:
            raise ValueError(
                f"{option(name)} has no effect on the task {task.name}. Leave "
                f"it out. Received: {option(name)} {value}"
            )
    settings = {**task.defaults, **values}
    kind = settings.get("tokens", "subwords")
    if "vocabulary_size" in values and kind != "subwords":
        raise ValueError(
            f"--vocabulary-size needs --tokens subwords. Received: {kind}"
        )
    if not settings.get("init"):
        settings.pop("init_weights", None)
        if "init_weights" in values:
            raise ValueError("--init-weights needs --init. Received: no --init")
    longest = settings["sequence_length"]
    if max(values.get("lengths", []), default=0) > longest:
        raise ValueError(
            "--lengths must be at most --sequence-length. Received: "
            f"{values['lengths']} and {longest}"
        )
    if "lengths" in settings and "lengths" not in values:
        settings["lengths"] = [x for x in settings["lengths"] if x < longest]
    heads, width = settings["num_heads"], settings["hidden_dim"]
    if width % heads:
        raise ValueError(
            "--hidden-dim must be divisible by --num-heads. Received: "
            f"{width} and {heads}"
        )
    return settings


class Score(NamedTuple):
    """The score of a model, shown times `scale`."""

    name: str
    scale: float = 1.0
    digits: int = 2
    unit: str = ""
    higher_is_better: bool = True

    def text(self, value):
        """Returns a value of the score with its name and unit."""
        figure = f"{self.scale * value:.{self.digits}f}"
        return f"{self.name} {figure}{self.unit}"


class Task:
    """Base class: makes arrays of examples, batches of arrays, and a model.

    Args:
        name: String.
        generator: Function that generates examples without files.
        options: Dictionary of options of `Source`.
        **defaults: Default settings of this task.

    Attributes:
        own: Names of settings in addition to the common ones, a string.
        model: Name of a class of `keras_synth.models`.
        new: Arguments of its backbone without a preset.
        head: Names of settings of the model.
        compiled: Other arguments of its `compile`.
        validation: Name, without `"val_"`, of Keras' log to show after each
            epoch.
        needs: Attributes of `keras_synth.mixers.Mixer` that variants need.
        sides: Number of sequences that the model reads.
        keeps: Whether to save all models as initial presets.
    """

    own = ""
    model = ""
    new: dict = {}
    head: tuple = ()
    compiled: dict = {}
    validation = "accuracy"
    needs: tuple = ()
    sides = 1
    keeps = False

    def __init__(self, name, generator=None, options=None, **defaults):
        self.name, self.generator = name, generator
        self.options = options or {}
        names = [*COMMON, *self.own.split()]
        self.defaults = {x: SETTINGS[x][0] for x in names} | defaults

    def score(self, settings):
        """Returns the `Score` of the test."""
        raise NotImplementedError

    def prepare(self, settings, source, log):
        """Returns the arrays of three splits (dictionaries) and notes."""
        raise NotImplementedError

    def batches(self, arrays, settings, seed):
        """Returns datasets of the three splits."""
        found = []
        for name, split in zip(SPLITS, arrays[:3], strict=True):
            own = {"seed": seed} if name == "train" else {"shuffle": False}
            try:
                made = self.split(split, arrays.notes, settings, **own)
                if not len(made):
                    raise ValueError("no batch")
            except ValueError as error:
                raise ValueError(
                    f"The {name} examples are too few or too short. Pass more, "
                    "or a smaller batch size or sequence length. Received: "
                    f"{error}, batch size {settings['batch_size']}"
                ) from error
            found.append(made)
        return found

    def split(self, split, notes, settings, shuffle=True, seed=0):
        """Returns batches of a split: shuffled full ones, or all in order."""
        features = dict(split)
        weight = features.pop("sample_weight", None)
        return LengthBuckets(
            features,
            features.pop("labels"),
            settings["batch_size"],
            settings.get("lengths", []),
            shuffle=shuffle,
            drop_remainder=shuffle,
            seed=seed,
            sample_weight=weight,
        )

    def build(self, variant, seed, settings, notes, steps):
        """Returns the compiled model of a run, for a number of steps."""
        cls = getattr(keras_synth.models, self.model)
        backbone = self.backbone(
            cls.backbone_cls, variant, seed, settings, notes
        )
        head = {x: settings[x] for x in self.head}
        if "class_names" in notes:
            names = notes["class_names"]
            head |= {"num_classes": len(names) or 1}
            head |= {"class_names": names or None}
        model = cls(backbone, **head)
        metrics = []
        if self.validation == "accuracy":
            metrics = [keras.metrics.SparseCategoricalAccuracy("accuracy")]
        model.compile(
            optimizer=optimizer(settings, steps),
            loss=self.loss(settings),
            metrics=[],
            weighted_metrics=metrics,
            **self.compiled,
        )
        return model

    def backbone(self, cls, variant, seed, settings, notes):
        """Returns a new backbone, or with `--init` that of a preset."""
        options = {}
        if "pairs" in notes:
            options["num_segments"] = 2 if notes["pairs"] else 0
        if settings.get("init"):
            return start.backbone(cls, variant, seed, settings, **options)
        names = "num_layers", "num_heads", "hidden_dim", "dropout"
        sizes = {name: settings[name] for name in names}
        width = settings["intermediate_dim"] or 4 * settings["hidden_dim"]
        sizes |= {
            "vocabulary_size": notes["vocabulary_size"],
            "intermediate_dim": width,
            "max_sequence_length": settings["sequence_length"],
        }
        return cls(**self.arguments(variant, {**sizes, **options}))

    def arguments(self, variant, sizes):
        """Returns the arguments of a new backbone."""
        return {"synthesizer": variant, **sizes, **self.new}

    def loss(self, settings):
        """Returns the loss of logits."""
        return LabelSmoothedCrossentropy(settings.get("label_smoothing", 0.0))

    def preprocessor(self, settings, notes, **options):
        """Returns the preprocessor of a model."""
        cls = getattr(keras_synth.models, self.model).preprocessor_cls
        lengths = [settings["sequence_length"]] * self.sides
        return cls(tokenizer_of(notes), *lengths, **options)

    def use(self, notes):
        """Returns code that prints outputs of a trained model."""
        return 'print(model.generate(["a text"]))'

    def test(self, model, batches, arrays, settings):
        """Returns figures of a trained model, a dictionary with `"score"`."""
        logs = keras.Model.evaluate(model, batches, verbose=0, return_dict=True)
        # A metric can have several numbers, such as one for each class.
        logs = {name: float(np.mean(x)) for name, x in logs.items()}
        return {**logs, "score": logs[self.validation]}


def optimizer(settings, steps):
    """AdamW or Adam, with a warm-up and a decay of the rate."""
    peak = settings["learning_rate"]
    warmup = settings["warmup_steps"] or steps // 10
    warmup = max(1, min(warmup, steps // 2))
    if settings["schedule"] == "inverse_sqrt":
        rates = InverseSquareRoot(peak, warmup)
    else:
        rates = keras.optimizers.schedules.CosineDecay(
            0.0, max(1, steps - warmup), warmup_target=peak, warmup_steps=warmup
        )
    if "weight_decay" in settings:
        return adamw(rates, settings["weight_decay"])
    # The decay rates of Vaswani et al., 2017, 5.3.
    return keras.optimizers.Adam(rates, beta_2=0.98, epsilon=1e-9)


def learn_tokenizer(kind, texts, settings, log):
    """Learns a tokenizer from texts, or with `--init` uses that of the preset.

    Returns notes for JSON, from which `tokenizer_of` makes the tokenizer.
    """
    cls = getattr(keras_synth.models, TOKENIZERS[kind])
    if settings.get("init"):
        tokenizer = start.tokenizer(cls, settings["init"])
    elif kind == "bytes":
        tokenizer = cls()
    else:
        log(f"Learning a vocabulary from {len(texts):,} texts")
        size = () if kind == "words" else (settings["vocabulary_size"],)
        tokenizer = cls.from_texts(texts, *size)
    arguments = []
    if kind == "subwords":
        arguments = [dict(tokenizer.vocabulary), list(tokenizer.merges)]
    elif kind != "bytes":
        arguments = [list(tokenizer.get_vocabulary())]
    return {
        "tokenizer": [type(tokenizer).__name__, arguments],
        "vocabulary_size": tokenizer.vocabulary_size(),
    }


def tokenizer_of(notes):
    """Returns the tokenizer of the notes."""
    name, arguments = notes["tokenizer"]
    return getattr(keras_synth.models, name)(*arguments)

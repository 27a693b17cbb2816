"""The settings of runs: sizes and training."""

import argparse
import hashlib
import json

BACKENDS = ("jax", "tensorflow", "torch")


def _number(kind, words, holds):

    def convert(text):
        try:
            value = kind(text)
        except ValueError:
            value = float("nan")
        if not holds(value):
            raise argparse.ArgumentTypeError(
                f"must be {words}. Received: {text}"
            )
        return value

    return convert


POSITIVE = _number(int, "an integer of at least 1", lambda x: x >= 1)
NATURAL = _number(int, "an integer of at least 0", lambda x: x >= 0)
RATE = _number(
    float, "a number of at least 0 and below 1", lambda x: 0 <= x < 1
)
INFINITY = float("inf")
ABOVE_0 = _number(float, "a number above 0", lambda x: 0 < x < INFINITY)
AT_LEAST_0 = _number(
    float, "a number of at least 0", lambda x: 0 <= x < INFINITY
)

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
    "metric": (
        "accuracy",
        ("accuracy", "matthews", "f1"),
        "score of the test",
    ),
    "tokens": ("words", ("words", "bytes", "subwords"), "kind of tokens"),
    "label_smoothing": (0.0, RATE, "of the loss"),
    "epochs": (3, POSITIVE, "passes over the training examples"),
    "steps_per_epoch": (0, NATURAL, "steps of an epoch; 0 is a whole pass"),
    "batch_size": (64, POSITIVE, "examples per training step"),
    "learning_rate": (1e-3, ABOVE_0, "highest, after the warm-up"),
    "warmup_steps": (0, NATURAL, "warm-up; 0 is a tenth of all steps"),
    "schedule": (
        "cosine",
        ("cosine", "inverse_sqrt"),
        "decay of the rate after the warm-up",
    ),
    "weight_decay": (0.004, AT_LEAST_0, "AdamW's"),
    "examples": (0, NATURAL, "training examples; 0 is all, or 6,000"),
    "dtype_policy": (
        "float32",
        ("float32", "mixed_bfloat16"),
        "precision of the computation",
    ),
    "init": ("", str, "pretrained preset, or --output with presets"),
    "init_weights": (
        "pretrained",
        ("pretrained", "random"),
        "random: the model of --init from scratch",
    ),
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


def digest(*contents):
    """Returns a short name of JSON contents."""
    text = json.dumps(contents, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]

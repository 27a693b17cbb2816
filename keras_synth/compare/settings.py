"""What runs have in common, besides their data: sizes and training."""

import hashlib
import json
import numbers
from collections.abc import Callable
from typing import Any, NamedTuple

BACKENDS = ("jax", "tensorflow", "torch")


class Kind(NamedTuple):
    """The values that a setting may have.

    Attributes:
        words: String, what they are.
        holds: Function, whether a value is one of them.
        convert: Function from the string of a command line to a value.
    """

    words: str
    holds: Callable[[Any], bool]
    convert: Callable[[str], Any]


def _integers(least):
    return Kind(
        f"an integer of at least {least}",
        lambda x: isinstance(x, numbers.Integral) and x >= least,
        int,
    )


def _floats(words, holds):
    return Kind(
        words, lambda x: isinstance(x, numbers.Real) and holds(x), float
    )


def _among(*names):
    return Kind(f"one of {', '.join(names)}", lambda x: x in names, str)


POSITIVE, NATURAL = _integers(1), _integers(0)
RATE = _floats("a number from 0 up to, not including, 1", lambda x: 0 <= x < 1)
ABOVE_0 = _floats("a number above 0", lambda x: 0 < x < float("inf"))
AT_LEAST_0 = _floats("a number of at least 0", lambda x: 0 <= x < float("inf"))
LENGTHS = Kind(
    "integers of at least 1",
    lambda x: isinstance(x, (list, tuple)) and all(map(POSITIVE.holds, x)),
    int,
)
TEXT = Kind("a path", lambda x: isinstance(x, str), str)

# Name -> default, kind, help. A task has those of its `defaults` only.
SETTINGS = {
    "sequence_length": (64, POSITIVE, "longest input, in tokens"),
    "lengths": ([], LENGTHS, "lengths that shorter batches are padded to"),
    "num_layers": (2, POSITIVE, "blocks, of encoder and decoder each"),
    "num_heads": (4, POSITIVE, "heads of each attention layer"),
    "hidden_dim": (128, POSITIVE, "model width"),
    "intermediate_dim": (0, NATURAL, "feed-forward width; 0 is 4 x model's"),
    "dropout": (0.1, RATE, "dropout rate"),
    "vocabulary_size": (10_000, POSITIVE, "word pieces or byte pairs to learn"),
    "keep": ("end", _among("start", "end"), "which part of texts too long"),
    "pooling": ("mean", _among("mean", "first"), "from tokens to one vector"),
    "metric": (
        "accuracy",
        _among("accuracy", "matthews", "f1"),
        "the score on the test",
    ),
    "tokens": ("words", _among("words", "bytes", "subwords"), "what is read"),
    "label_smoothing": (0.0, RATE, "of the loss"),
    "epochs": (3, POSITIVE, "passes over the training examples"),
    "steps_per_epoch": (0, NATURAL, "steps of an epoch; 0 is a whole pass"),
    "batch_size": (64, POSITIVE, "examples per training step"),
    "learning_rate": (1e-3, ABOVE_0, "the highest one, after the warm-up"),
    "warmup_steps": (0, NATURAL, "steps until then; 0 is a tenth of all"),
    "schedule": (
        "cosine",
        _among("cosine", "inverse_sqrt"),
        "how the rate falls after the warm-up",
    ),
    "weight_decay": (0.004, AT_LEAST_0, "AdamW's"),
    "examples": (0, NATURAL, "examples to train on; 0 is all, or 6,000"),
    "dtype_policy": (
        "float32",
        _among("float32", "mixed_bfloat16"),
        "precision of computing",
    ),
    "init": ("", TEXT, "pretrained preset, or --output that has presets"),
    "init_weights": (
        "pretrained",
        _among("pretrained", "random"),
        "random: the model of --init from scratch",
    ),
}


def option(name):
    """Returns the option of a setting."""
    return f"--{name.replace('_', '-')}"


def with_defaults(task, defaults, values):
    """Returns all settings of a task, checked.

    Args:
        task: String, for errors.
        defaults: Dictionary, the task's.
        values: Dictionary, those that differ.

    Raises:
        ValueError: If the task does not have a setting, or a value is wrong.
    """
    for name, value in values.items():
        if name not in defaults:
            raise ValueError(
                f"{option(name)} has no effect on the task {task}. Leave it "
                f"out. Received: {option(name)} {value}"
            )
        kind = SETTINGS[name][1]
        if not kind.holds(value):
            raise ValueError(
                f"{option(name)} must be {kind.words}. Received: {value!r}"
            )
    settings = {**defaults, **values}
    longest = settings.get("sequence_length")
    if "lengths" in settings:
        if "lengths" not in values:  # the task's, as far as they are of use
            settings["lengths"] = [
                n for n in defaults["lengths"] if n < longest
            ]
        elif max(values["lengths"], default=0) > longest:
            raise ValueError(
                "--lengths must be at most --sequence-length. Received: "
                f"{settings['lengths']} and {longest}"
            )
    heads = settings.get("num_heads", 1)
    if settings.get("hidden_dim", heads) % heads:
        raise ValueError(
            "--hidden-dim must be divisible by --num-heads. Received: "
            f"{settings['hidden_dim']} and {heads}"
        )
    return settings


def digest(*contents):
    """Returns a short name of contents that JSON can hold."""
    text = json.dumps(contents, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]

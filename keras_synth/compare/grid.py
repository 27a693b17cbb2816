"""What to run: settings that all runs share, and the runs themselves."""

import dataclasses
import hashlib
import itertools
import json
import math
import numbers
from collections.abc import Callable
from typing import NamedTuple

import keras_synth  # what needs Keras is imported when first asked for

BACKENDS = ("tensorflow", "jax", "torch")
DTYPE_POLICIES = ("float32", "mixed_bfloat16")
SCHEDULES = ("cosine", "inverse_sqrt")


@dataclasses.dataclass(frozen=True)
class Range:
    """Which numbers a setting may be, in words and as a function."""

    words: str
    holds: Callable

    def check(self, option, value):
        """Raises unless the value is a number in the range."""
        if not isinstance(value, numbers.Real) or not self.holds(value):
            raise ValueError(
                f"{option} must be {self.words}. Received: {option} {value}"
            )


def _at_least(least):
    return Range(
        f"an integer of at least {least}",
        lambda x: isinstance(x, numbers.Integral) and x >= least,
    )


COUNT, COUNT_OR_NONE = _at_least(1), _at_least(0)
RATE = Range("a number from 0 up to, not including, 1", lambda x: 0 <= x < 1)
POSITIVE = Range("a number above 0", lambda x: 0 < x < math.inf)
NOT_NEGATIVE = Range("a number of at least 0", lambda x: 0 <= x < math.inf)
SEED = Range(
    "an integer from 0 to 2**32 - 1",
    lambda x: isinstance(x, numbers.Integral) and 0 <= x < 2**32,
)


class Run(NamedTuple):
    """One training."""

    variant: str  # "R+V"
    num_heads: int
    seed: int
    backend: str

    def __str__(self):
        return (
            f"{self.variant}, {self.num_heads} heads, seed {self.seed}, "
            f"{self.backend}"
        )


def _setting(default, text, allowed, nothing=None):
    """A field of `Settings`.

    Args:
        default: Its default.
        text: String, what it is.
        allowed: `Range`, or a tuple of what there is to choose from.
        nothing: String, what a default of nothing or 0 stands for.
    """
    shown = nothing or default
    return dataclasses.field(
        default=default,
        metadata={"text": text, "allowed": allowed, "default": shown},
    )


@dataclasses.dataclass(frozen=True)
class Settings:
    """What all runs of a grid have in common; each field says what it is."""

    task: str
    sequence_length: int = _setting(64, "longest input, in tokens", COUNT)
    lengths: tuple = _setting(
        (),
        "lengths in tokens that shorter batches are padded to",
        COUNT,
        "none",
    )
    keep: str = _setting(
        "end", "which part of texts that are too long", ("start", "end")
    )
    vocabulary_size: int = _setting(
        10_000, "number of word pieces or byte pairs to train", COUNT
    )
    num_layers: int = _setting(
        2, "number of blocks, of encoder and decoder each", COUNT
    )
    hidden_dim: int = _setting(128, "model width", COUNT)
    intermediate_dim: int = _setting(
        0,
        "width of the feed-forward networks",
        COUNT_OR_NONE,
        "0, for 4 times the model's",
    )
    rank: int = _setting(
        8, "rank of FR where its brackets do not say otherwise", COUNT
    )
    dropout: float = _setting(0.1, "share to drop in training", RATE)
    label_smoothing: float = _setting(
        0.0,
        "share of a label's probability that all tokens get",
        RATE,
        "0.0",
    )
    pooling: str = _setting(
        "mean", "how tokens become one vector", ("mean", "first")
    )
    epochs: int = _setting(3, "passes over the training examples", COUNT)
    batch_size: int = _setting(64, "examples per training step", COUNT)
    learning_rate: float = _setting(
        1e-3, "the highest one, after the warm-up", POSITIVE
    )
    warmup_steps: int = _setting(
        0,
        "steps until then, at most half of all",
        COUNT_OR_NONE,
        "0, for a tenth of all steps",
    )
    schedule: str = _setting(
        "cosine",
        "how the rate falls after that: along a cosine to 0 at the last step, "
        "or as the inverse square root of the steps (Vaswani et al., 2017)",
        SCHEDULES,
    )
    weight_decay: float = _setting(
        0.004, "of AdamW, without biases and normalisations", NOT_NEGATIVE
    )
    examples: int = _setting(
        0,
        "how many to train on: to generate, or the first ones of a task's in "
        "a random order; of a text, its first windows",
        COUNT_OR_NONE,
        "0, for all there are",
    )
    dtype_policy: str = _setting(
        "float32",
        "Keras' name for the precision of computing; weights are float32",
        DTYPE_POLICIES,
    )

    def __post_init__(self):
        for field in fields():
            value, allowed = (
                getattr(self, field.name),
                field.metadata["allowed"],
            )
            option = option_of(field.name)
            if isinstance(allowed, Range):
                for each in value if field.type is tuple else (value,):
                    allowed.check(option, each)
            elif value not in allowed:
                raise ValueError(
                    f"{option} must be one of {', '.join(allowed)}. Received: "
                    f"{option} {value}"
                )
        for length in self.lengths:
            if length > self.sequence_length:
                raise ValueError(
                    "Each of --lengths must be at most --sequence-length. "
                    f"Received: {length} and {self.sequence_length}"
                )

    @classmethod
    def from_json(cls, values):
        """The settings that `to_json` made."""
        return cls(**{**values, "lengths": tuple(values["lengths"])})

    def to_json(self):
        """A dictionary, as JSON knows it."""
        return json.loads(json.dumps(dataclasses.asdict(self)))

    def digest(self, *more):
        """A short name of these settings and more, for files."""
        content = json.dumps([self.to_json(), *more])
        return hashlib.sha256(content.encode()).hexdigest()[:12]


def fields():
    """The fields of `Settings` that have an option: all but the task."""
    return dataclasses.fields(Settings)[1:]


def option_of(name):
    """The option that gives the setting of this name."""
    return f"--{name.replace('_', '-')}"


def runs(variants, num_heads, seeds, backends, settings):
    """All runs of a grid, the backends of a model one after the other.

    Raises:
        ValueError: A variant cannot be made, heads do not divide the width, or
            a seed is out of range.
    """
    hidden_dim = settings.hidden_dim
    for seed in seeds:
        SEED.check("--seeds", seed)
    for count in num_heads:
        COUNT.check("--num-heads", count)
        if hidden_dim % count:
            raise ValueError(
                "--hidden-dim must be divisible by each of --num-heads. "
                f"Received: {hidden_dim} and {count}"
            )
    for variant, count in itertools.product(variants, num_heads):
        synthesizer(
            variant,
            count,
            hidden_dim // count,
            settings.sequence_length,
            settings.rank,
        )
    grid = itertools.product(seeds, variants, num_heads, backends)
    return [
        Run(variant, count, seed, backend)
        for seed, variant, count, backend in dict.fromkeys(grid)
    ]


def synthesizer(variant, num_heads, key_dim, max_length, rank):
    """The synthesizer that a variant's letters or names stand for."""
    return keras_synth.synthesizers.get(
        variant, num_heads, key_dim, max_length, defaults={"rank": rank}
    )

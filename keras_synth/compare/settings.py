"""Settings of training: each says what it is, and what it may be."""

import dataclasses
import functools
import hashlib
import json
import math
import numbers
from collections.abc import Callable

from keras_synth._system.command_line import option_of


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


@dataclasses.dataclass(frozen=True)
class Text:
    """Any text, such as a path."""

    words: str

    def check(self, option, value):
        """Raises unless the value is a string."""
        if not isinstance(value, str):
            raise ValueError(
                f"{option} must be {self.words}. Received: {value!r}"
            )


COUNT, COUNT_OR_NONE = _at_least(1), _at_least(0)
RATE = Range("a number from 0 up to, not including, 1", lambda x: 0 <= x < 1)
POSITIVE = Range("a number above 0", lambda x: 0 < x < math.inf)
NOT_NEGATIVE = Range("a number of at least 0", lambda x: 0 <= x < math.inf)
SEED = Range(
    "an integer from 0 to 2**32 - 1",
    lambda x: isinstance(x, numbers.Integral) and 0 <= x < 2**32,
)


def setting(default, text, allowed, nothing=None):
    """A field of `Settings`.

    Args:
        default: Its default.
        text: String, what it is.
        allowed: `Range`, or a tuple of what there is to choose from.
        nothing: String, what a default of nothing or 0 stands for.
    """
    shown = default if nothing is None else nothing
    return dataclasses.field(
        default=default,
        metadata={"text": text, "allowed": allowed, "default": shown},
    )


def check_values(settings, fields):
    """Raises unless each of these fields has a value that it may have."""
    for field in fields:
        value, option = getattr(settings, field.name), option_of(field.name)
        allowed = field.metadata["allowed"]
        if not isinstance(allowed, tuple):
            for each in value if field.type is tuple else (value,):
                allowed.check(option, each)
        elif value not in allowed:
            raise ValueError(
                f"{option} must be one of {', '.join(allowed)}. Received: "
                f"{option} {value}"
            )


# Those of more than one objective, but not of all.
LENGTHS = functools.partial(
    setting,
    (),
    "lengths in tokens that shorter batches are padded to",
    COUNT,
    "none",
)
VOCABULARY_SIZE = functools.partial(
    setting, 10_000, "number of word pieces or byte pairs to train", COUNT
)
WEIGHT_DECAY = functools.partial(
    setting,
    0.004,
    "of AdamW, without biases and normalisations",
    NOT_NEGATIVE,
)

INIT = functools.partial(
    setting,
    "",
    "folder of a pre-trained preset to start from, or --output of a comparison "
    "that pre-trained one for each variant; it decides size and vocabulary",
    Text("the path of a folder"),
    "none",
)
INIT_WEIGHTS = functools.partial(
    setting,
    "pretrained",
    "which weights to start from with --init: its own, or random ones, for the "
    "same model from scratch",
    ("pretrained", "random"),
)


@dataclasses.dataclass(frozen=True)
class Settings:
    """What all runs of a grid have in common, whatever the objective."""

    task: str
    sequence_length: int = setting(64, "longest input, in tokens", COUNT)
    num_layers: int = setting(
        2, "number of blocks, of encoder and decoder each", COUNT
    )
    hidden_dim: int = setting(128, "model width", COUNT)
    intermediate_dim: int = setting(
        0,
        "width of the feed-forward networks",
        COUNT_OR_NONE,
        "0, for 4 times the model's",
    )
    rank: int = setting(
        8, "rank of FR where its brackets do not say otherwise", COUNT
    )
    dropout: float = setting(0.1, "share to drop in training", RATE)
    epochs: int = setting(3, "passes over the training examples", COUNT)
    steps_per_epoch: int = setting(
        0,
        "training steps of an epoch, which ends in validation and a checkpoint",
        COUNT_OR_NONE,
        "0, for a pass over the training examples",
    )
    batch_size: int = setting(64, "examples per training step", COUNT)
    learning_rate: float = setting(
        1e-3, "the highest one, after the warm-up", POSITIVE
    )
    warmup_steps: int = setting(
        0,
        "steps until then, at most half of all",
        COUNT_OR_NONE,
        "0, for a tenth of all steps",
    )
    schedule: str = setting(
        "cosine",
        "how the rate falls after that: along a cosine to 0 at the last step, "
        "or as the inverse square root of the steps (Vaswani et al., 2017)",
        ("cosine", "inverse_sqrt"),
    )
    examples: int = setting(
        0,
        "how many to train on: to generate, or the first ones of a task's in "
        "a random order; of a text, its first windows",
        COUNT_OR_NONE,
        "0, for all there are",
    )
    dtype_policy: str = setting(
        "float32",
        "Keras' name for the precision of computing; weights are float32",
        ("float32", "mixed_bfloat16"),
    )

    def __post_init__(self):
        check_values(self, options_of(self))
        for length in getattr(self, "lengths", ()):
            if length > self.sequence_length:
                raise ValueError(
                    "Each of --lengths must be at most --sequence-length. "
                    f"Received: {length} and {self.sequence_length}"
                )

    @classmethod
    def from_json(cls, values):
        """The settings that `to_json` made."""
        return cls(
            **{k: tuple(v) if k == "lengths" else v for k, v in values.items()}
        )

    def to_json(self):
        """A dictionary, as JSON knows it."""
        return json.loads(json.dumps(dataclasses.asdict(self)))

    def digest(self, *more):
        """A short name of these settings and more, for files."""
        content = json.dumps([self.to_json(), *more])
        return hashlib.sha256(content.encode()).hexdigest()[:12]


def options_of(settings):
    """The fields of `Settings` that have an option: all but the task."""
    return dataclasses.fields(settings)[1:]

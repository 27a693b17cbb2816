"""What to run: settings that all runs share, and the runs themselves."""

import dataclasses
import hashlib
import itertools
import json
from typing import NamedTuple

from keras_synth import synthesizers
from keras_synth.checks import check_positive, check_rate

BACKENDS = ("tensorflow", "jax", "torch")
DTYPE_POLICIES = ("float32", "mixed_bfloat16")
SCHEDULES = ("cosine", "inverse_sqrt")


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


@dataclasses.dataclass(frozen=True)
class Settings:
    """What all runs of a grid have in common.

    Attributes:
        task: Name of the task.
        sequence_length: Longest input, in tokens.
        lengths: Lengths in tokens that shorter batches are padded to.
        keep: `"start"` or `"end"` of texts that are too long.
        vocabulary_size: Number of word pieces to train.
        num_layers: Number of blocks, of encoder and decoder each.
        hidden_dim: Model width.
        intermediate_dim: Width of the feed-forward networks; 0 for 4 times
            the model's.
        rank: Rank of FR where its brackets do not say otherwise.
        dropout: Share to drop.
        label_smoothing: Share of a label's probability that all tokens get.
        pooling: `"mean"` or `"first"`.
        epochs: Passes over the training examples.
        batch_size: Examples per training step.
        learning_rate: The highest one, after the warm-up.
        warmup_steps: Steps until then, at most half of all; 0 for a tenth.
        schedule: How the rate falls after that: along a cosine to 0 at the
            last step, or as the inverse square root of the steps (Vaswani et
            al., 2017, 5.3).
        weight_decay: Of AdamW, without biases and normalisations.
        examples: Number of examples to train on: to generate, or the first
            ones of a task's, in a random order; 0 for all. Of a text, the
            first `examples * sequence_length` tokens.
        dtype_policy: Keras' name for what is computed with which precision;
            weights are float32.
    """

    task: str
    sequence_length: int = 64
    lengths: tuple = ()
    keep: str = "end"
    vocabulary_size: int = 10_000
    num_layers: int = 2
    hidden_dim: int = 128
    intermediate_dim: int = 0
    rank: int = 8
    dropout: float = 0.1
    label_smoothing: float = 0.0
    pooling: str = "mean"
    epochs: int = 3
    batch_size: int = 64
    learning_rate: float = 1e-3
    warmup_steps: int = 0
    schedule: str = "cosine"
    weight_decay: float = 0.004
    examples: int = 0
    dtype_policy: str = "float32"

    def __post_init__(self):
        for name in (
            "sequence_length vocabulary_size num_layers hidden_dim rank "
            "epochs batch_size"
        ).split():
            check_positive(name, getattr(self, name))
        for name in ("dropout", "label_smoothing"):
            check_rate(name, getattr(self, name))
        for name in ("intermediate_dim", "warmup_steps", "examples"):
            if getattr(self, name) < 0:
                raise ValueError(
                    f"--{name.replace('_', '-')} must not be negative. "
                    f"Received: {getattr(self, name)}"
                )
        for length in self.lengths:
            if check_positive("lengths", length) > self.sequence_length:
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


def runs(variants, num_heads, seeds, backends, settings):
    """All runs of a grid, the backends of a model one after the other.

    Raises:
        ValueError: A variant cannot be made, or heads do not divide the width.
    """
    hidden_dim = settings.hidden_dim
    for count in num_heads:
        if hidden_dim % check_positive("num_heads", count):
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
    return synthesizers.get(
        variant, num_heads, key_dim, max_length, defaults={"rank": rank}
    )

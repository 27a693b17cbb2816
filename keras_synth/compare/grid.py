"""The runs of a grid: variants x heads x seeds x backends."""

import itertools
import os
from importlib.util import find_spec
from typing import NamedTuple

import keras_synth  # what needs Keras is imported when first asked for
from keras_synth.compare.settings import COUNT, SEED, Settings

__all__ = [
    "BACKENDS",
    "Run",
    "Settings",
    "default_backend",
    "runs",
    "synthesizer",
]

BACKENDS = ("tensorflow", "jax", "torch")
DEFAULT_BACKEND = "KERAS_BACKEND, or the first that is installed"


def default_backend():
    """The backend where none is named, as `DEFAULT_BACKEND` says."""
    installed = [x for x in ("jax", "tensorflow", "torch") if find_spec(x)]
    found = os.environ.get("KERAS_BACKEND") or next(iter(installed), "jax")
    if found not in BACKENDS:
        raise ValueError(
            f"KERAS_BACKEND must be one of {', '.join(BACKENDS)}. Received: "
            f"{found}"
        )
    return found


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


def runs(variants, num_heads, seeds, backends, settings, needs=()):
    """All runs of a grid, the backends of a model one after the other.

    Takes sequences of what runs differ in, and their `Settings`; `needs` is as
    for `synthesizer`. A `ValueError` says what variant cannot be made, what
    heads do not divide the width, or what seed is out of range.
    """
    width, length = settings.hidden_dim, settings.sequence_length
    for seed in seeds:
        SEED.check("--seeds", seed)
    for count in num_heads:
        COUNT.check("--num-heads", count)
        if width % count:
            raise ValueError(
                "--hidden-dim must be divisible by each of --num-heads. "
                f"Received: {width} and {count}"
            )
    for variant, count in itertools.product(variants, num_heads):
        key_dim, rank = width // count, settings.rank
        synthesizer(variant, count, key_dim, length, rank, needs)
    grid = itertools.product(seeds, variants, num_heads, backends)
    return [
        Run(variant, count, seed, backend)
        for seed, variant, count, backend in dict.fromkeys(grid)
    ]


def synthesizer(variant, num_heads, key_dim, max_length, rank, needs=()):
    """What a variant's name stands for; the only place that knows the names.

    Args:
        variant: String, a name that `keras_synth.mixers.get` takes.
        num_heads: Integer, heads of each layer.
        key_dim: Integer, features per head.
        max_length: Integer, longest sequence, in tokens.
        rank: Integer, of the synthesizers that have one and do not say it.
        needs: Sequence of attributes of `Mixer` that must be true.

    Returns:
        A `Synthesizer`, or the name of another mixer.

    Raises:
        ValueError: There is none of that name, or it cannot be made.
    """
    templates = keras_synth.layers.templates
    if keras_synth.mixers.registry.is_mixer(variant):
        return templates.template(variant, num_heads, max_length, needs)
    return keras_synth.synthesizers.get(
        variant, num_heads, key_dim, max_length, defaults={"rank": rank}
    )

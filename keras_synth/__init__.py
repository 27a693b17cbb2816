"""Synthesizer attention for Keras 3, on TensorFlow, JAX and PyTorch.

- `keras_synth.layers`: `SyntheticAttention` and the blocks around it.
- `keras_synth.synthesizers`: what makes attention logits.
- `keras_synth.models`: KerasHub models (needs the extra `nlp`).
- `keras_synth.losses`, `schedules`, `callbacks`: what training them wants.
- `keras_synth.datasets`: loaders and generators of text.
"""

import importlib

from keras_synth import callbacks, layers, losses, schedules, synthesizers
from keras_synth.version import __version__

__all__ = [
    "__version__",
    "callbacks",
    "datasets",
    "layers",
    "losses",
    "models",
    "schedules",
    "synthesizers",
]

# Imported when first asked for: `models` needs KerasHub, which takes seconds.
_LAZY = ("datasets", "models")


def __getattr__(name):
    if name in _LAZY:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted(__all__)

"""Synthesizer attention for Keras 3, on TensorFlow, JAX and PyTorch.

- `keras_synth.layers`: `SyntheticAttention` and the blocks around it.
- `keras_synth.synthesizers`: what makes attention logits.
- `keras_synth.routes`: the ways to compute attention, and how to add one.
- `keras_synth.models`: KerasHub models (needs the extra `nlp`).
- `keras_synth.losses`, `metrics`, `schedules`, `callbacks`: what training them
  wants.
- `keras_synth.datasets`: loaders and generators of text.
"""

import importlib
import sys

from keras_synth.quiet import without_startup_lines
from keras_synth.version import __version__

__all__ = [
    "__version__",
    "callbacks",
    "datasets",
    "layers",
    "losses",
    "metrics",
    "models",
    "routes",
    "schedules",
    "synthesizers",
]

# Keras loads files of classes that have been imported. A command asks for what
# it needs: `python -m keras_synth.compare --help` does not wait for Keras.
if sys.argv[:1] != ["-m"] or "keras_synth.compare" not in sys.orig_argv:
    with without_startup_lines():
        from keras_synth import (
            callbacks,
            layers,
            losses,
            metrics,
            routes,
            schedules,
            synthesizers,
        )


def __getattr__(name):
    # `models` needs KerasHub, which takes seconds.
    if name in __all__:
        with without_startup_lines():
            return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted(__all__)

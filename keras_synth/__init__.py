"""Synthesizer attention for Keras 3, on TensorFlow, JAX and PyTorch.

- `keras_synth.layers`: `SyntheticAttention` and the blocks around it.
- `keras_synth.synthesizers`: functions from tokens to attention logits.
- `keras_synth.mixers`: what stands in the place of attention.
- `keras_synth.routes`: the ways to compute attention, and how to add one.
- `keras_synth.fold`: a model for inference, with less to compute.
- `keras_synth.models`: KerasHub models (needs the extra `nlp`).
- `keras_synth.pretraining`: span corruption and masked tokens.
- `keras_synth.losses`, `metrics`, `optimizers`, `schedules`, `callbacks`,
  `batches`: for training.
- `keras_synth.datasets`: loaders and generators of text.
"""

import importlib
import sys

from keras_synth.quiet import without_startup_lines
from keras_synth.version import __version__

__all__ = [
    "__version__",
    "batches",
    "callbacks",
    "datasets",
    "fold",
    "layers",
    "losses",
    "metrics",
    "mixers",
    "models",
    "optimizers",
    "pretraining",
    "routes",
    "schedules",
    "synthesizers",
]

# Keras loads files of classes that have been imported. A command asks for what
# it needs: nobody who wants --help waits for Keras.
_SCRIPT = sys.modules.get("keras_synth_command")
_IS_COMMAND = getattr(_SCRIPT, "is_running", False) or (
    sys.argv[:1] == ["-m"] and "keras_synth.compare" in sys.orig_argv
)
_IS_HELP = sys.argv[1:] in (["-h"], ["--help"])
if not (_IS_COMMAND or _IS_HELP):
    with without_startup_lines():
        from keras_synth import (
            callbacks,
            layers,
            losses,
            metrics,
            mixers,
            routes,
            schedules,
            synthesizers,
        )
        from keras_synth.folding import fold


def __getattr__(name):
    # `models` needs KerasHub, which takes seconds.
    if name in __all__:
        with without_startup_lines():
            return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted(__all__)

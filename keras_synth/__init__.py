"""Synthesizer attention for Keras 3, on TensorFlow, JAX and PyTorch.

- `keras_synth.layers`: `SyntheticAttention` and the blocks around it.
- `keras_synth.synthesizers`: functions from tokens to attention logits.
- `keras_synth.mixers`: attention, and what may replace it.
- `keras_synth.formulas`: each of them in a few lines of `keras.ops`.
- `keras_synth.routes`: the ways to compute attention, and how to add one.
- `keras_synth.register`: names of your own.
- `keras_synth.fold`: a model for inference, with less to compute.
- `keras_synth.models`: KerasHub models (needs the extra `nlp`).
- `keras_synth.analysis`: what attention does inside a model.
- `keras_synth.surgery`: synthesizers in models that are trained already.
- `keras_synth.pretraining`: span corruption and masked tokens.
- `keras_synth.training`: batches of few lengths, a schedule, a loss.
- `keras_synth.datasets`: texts, series and graphs: generated, or from files.
- `keras_synth.compare`: variants side by side (needs the extra `compare`).
"""

import importlib

# Keras finds the classes of a file that have been imported.
from keras_synth import (  # noqa: F401
    attend,
    formulas,
    layers,
    logits,
    masks,
    mixers,
    routes,
    synthesizers,
    training,
)
from keras_synth.folding import fold
from keras_synth.registry import register
from keras_synth.version import __version__

__all__ = [
    "__version__",
    "analysis",
    "compare",
    "datasets",
    "fold",
    "formulas",
    "layers",
    "mixers",
    "models",
    "pretraining",
    "register",
    "routes",
    "surgery",
    "synthesizers",
    "training",
]


def __getattr__(name):
    # The others are imported when they are first used: KerasHub takes seconds.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")


def __dir__():
    return sorted(__all__)

"""Synthesizer attention for Keras 3, on TensorFlow, JAX and PyTorch.

- `keras_synth.layers`: `SyntheticAttention` and the blocks around it.
- `keras_synth.synthesizers`: functions from tokens to attention logits.
- `keras_synth.mixers`: attention and its replacements.
- `keras_synth.formulas`: each formula in a few lines of `keras.ops`.
- `keras_synth.routes`: the ways to compute attention, and how to add one.
- `keras_synth.register`: names for your own classes.
- `keras_synth.fold`: a copy of a model that computes less, for inference.
- `keras_synth.models`: KerasHub models (needs the extra `nlp`).
- `keras_synth.analysis`: attention inside a model.
- `keras_synth.surgery`: synthesizers in trained models (needs `nlp`).
- `keras_synth.pretraining`: span corruption and masked tokens.
- `keras_synth.training`: batches of similar lengths, a schedule, a loss.
- `keras_synth.datasets`: texts, series and graphs, generated or from files.
- `keras_synth.compare`: comparisons of variants (needs the extra `compare`).
"""

import importlib

from keras_synth._backend.versions import check_versions

check_versions()  # before the imports that need them

# When Keras loads a file, it finds only imported classes.
from keras_synth import (  # noqa: E402, F401
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
from keras_synth.folding import fold  # noqa: E402
from keras_synth.registry import register  # noqa: E402
from keras_synth.version import __version__  # noqa: E402

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
    # The others are imported at first use, because KerasHub takes seconds.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")


def __dir__():
    return sorted(__all__)

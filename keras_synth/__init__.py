"""Synthesizer attention for Keras 3, on TensorFlow, JAX and PyTorch.

- `keras_synth.layers`: `SyntheticAttention` and the blocks around it.
- `keras_synth.synthesizers`: functions from tokens to attention logits.
- `keras_synth.mixers`: what stands in the place of attention.
- `keras_synth.formulas`: each of them in a few lines of `keras.ops`.
- `keras_synth.routes`: the ways to compute attention, and how to add one.
- `keras_synth.register`: names of your own.
- `keras_synth.fold`: a model for inference, with less to compute.
- `keras_synth.models`: KerasHub models (needs the extra `nlp`).
- `keras_synth.analysis`: what attention does inside a model.
- `keras_synth.surgery`: synthesizers in models that are trained already.
- `keras_synth.pretraining`: span corruption and masked tokens.
- `keras_synth.losses`, `metrics`, `optimizers`, `schedules`, `callbacks`,
  `batches`: for training.
- `keras_synth.datasets`: loaders and generators of text.
"""

import importlib
import itertools
import sys

from keras_synth._system.startup_lines import without_startup_lines
from keras_synth.version import __version__

__all__ = [
    "__version__",
    "analysis",
    "batches",
    "callbacks",
    "datasets",
    "fold",
    "formulas",
    "layers",
    "losses",
    "metrics",
    "mixers",
    "models",
    "optimizers",
    "pretraining",
    "register",
    "routes",
    "schedules",
    "surgery",
    "synthesizers",
]


def _keras_waits():
    """Whether a command line is to be read before Keras is imported.

    A command says so, whether the console script or `python -m`; what any other
    script is called with says nothing.
    """
    command = sys.modules.get("keras_synth_command")
    if getattr(command, "keras_waits", False):
        return True
    is_script = hasattr(sys.modules["__main__"], "__file__")
    module = ("-m", "keras_synth.compare")
    return not is_script and module in itertools.pairwise(sys.orig_argv)


# Public modules that live in a folder: `keras_synth.losses` is
# `keras_synth.training.losses`, in import statements too.
_FOLDERS = {
    "_system": ["command_line", "files"],
    "attention": ["attend", "logits", "masks", "routes"],
    "training": [
        "batches",
        "callbacks",
        "losses",
        "metrics",
        "model_card",
        "optimizers",
        "reporting",
        "schedules",
        "vocabulary",
    ],
}
_PATHS = {
    name: f"{k}.{name}" for k, names in _FOLDERS.items() for name in names
}


def __getattr__(name):
    # What is not imported below: `models` needs KerasHub, which takes seconds.
    if name not in (*__all__, *_PATHS):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with without_startup_lines():
        if name == "fold":
            return importlib.import_module(f"{__name__}.folding").fold
        if name == "register":
            return importlib.import_module(f"{__name__}.registry").register
        path = _PATHS.get(name, name)
        module = importlib.import_module(f"{__name__}.{path}")
    sys.modules[f"{__name__}.{name}"] = module
    return module


def __dir__():
    return sorted(__all__)


# Keras loads files of classes that have been imported. A command asks for what
# it needs: nobody who wants --help waits for Keras.
if not _keras_waits():
    with without_startup_lines():
        from keras_synth import formulas, layers, mixers, synthesizers
        from keras_synth.folding import fold
        from keras_synth.registry import register

    for _name in _PATHS:
        globals()[_name] = __getattr__(_name)

"""The public names of keras_synth, module by module."""

import importlib
import inspect

import keras

import keras_synth

# Public modules and names in addition to `keras_synth.__all__`.
MODULES = ["folding", "mixers.normalizers", "mixers.patterns"]
NAMES = [
    "attend.attend",
    "logits.Logits",
    "logits.Weights",
    "masks.AttentionMask",
    "registry.register",
]

FOLDERS = "folding layers mixers synthesizers".split()


def own_names(module):
    """`__all__`, or the definitions of a module without it."""
    own = [
        name
        for name, value in vars(module).items()
        if getattr(value, "__module__", None) == module.__name__
        and not name.startswith("_")
    ]
    return getattr(module, "__all__", own)


def names():
    """Path below `keras_synth` -> object, modules aside."""
    modules = {name: getattr(keras_synth, name) for name in keras_synth.__all__}
    modules |= {
        name: importlib.import_module(f"keras_synth.{name}") for name in MODULES
    }
    found = {
        f"{path}.{name}": getattr(module, name)
        for path, module in modules.items()
        if inspect.ismodule(module)
        for name in own_names(module)
    }
    for path in NAMES:
        module, name = path.split(".")
        module = importlib.import_module(f"keras_synth.{module}")
        found[path] = getattr(module, name)
    return {k: v for k, v in found.items() if not inspect.ismodule(v)}


def layer_classes():
    """Name -> class, of all public layers that can be made."""
    bases = {"Mixer", "MultiHeadMixer", "SelfMixer", "Synthesizer"}
    return {
        cls.__name__: cls
        for cls in names().values()
        if inspect.isclass(cls)
        and issubclass(cls, keras.layers.Layer)
        and cls.__module__.split(".")[1] in FOLDERS
        and cls.__name__ not in bases
    }

"""Synthesizers, mixers and callbacks in users' modules."""

import importlib
import pathlib
import re
import sys
from typing import NamedTuple

import keras_synth

_OWN = re.compile(r"\b([A-Za-z_][\w.]*):([A-Za-z_]\w*)")


class RunInfo(NamedTuple):
    """The run for which a function of `--callbacks` makes callbacks.

    Attributes:
        name: String, unique in the folder.
        settings: Dictionary of the settings of all runs.
        folder: Path for the files of callbacks, which may not exist yet.
    """

    name: str
    variant: str
    seed: int
    backend: str
    settings: dict
    folder: pathlib.Path


def registered(variant, folder="."):
    """Registers the classes in a variant's name, and returns a name for `get`.

    `"mine:CosineSynthesizer(width=2) + V"` uses the class `CosineSynthesizer`
    of the module `mine`, which is installed or in the working directory.
    """

    def name_of(match):
        cls = _imported(match[0], folder, "--variants")
        name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", match[2]).lower()
        keras_synth.register(name, cls)
        return name

    return _OWN.sub(name_of, variant)


def callbacks(name, spec):
    """Returns the callbacks of a user's function, `"module:function"`."""
    import keras

    fields = (spec[x] for x in RunInfo._fields[:-1])
    info = RunInfo(*fields, pathlib.Path(spec["callback_folder"]))
    function = _imported(name, spec["folder"], "--callbacks")
    try:
        made = function(info)
    except Exception as error:
        raise ValueError(
            f"--callbacks {name} must be a function from a run to Keras "
            f"callbacks. Received: {_words(error)}"
        ) from error
    made = [*made] if isinstance(made, (list, tuple)) else [made]
    if not all(isinstance(x, keras.callbacks.Callback) for x in made):
        raise ValueError(
            f"--callbacks {name} must return a keras.callbacks.Callback or a "
            f"list of them. Received: {made!r}"
        )
    return made


def _imported(name, folder, option):
    """Returns the function or class of a name, `"module:attribute"`."""
    module, colon, attribute = name.partition(":")
    if not colon or not module or not attribute:
        raise ValueError(
            f"{option} must be MODULE:NAME. Received: {option} {name}"
        )
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        loaded = importlib.import_module(module)
    except Exception as error:
        raise ValueError(
            f"{option} {name}: the module cannot be imported from {folder}. "
            f"Received: {_words(error)}"
        ) from error
    if not callable(getattr(loaded, attribute, None)):
        raise ValueError(
            f"{option} {name}: the module has no function or class "
            f"{attribute!r}. Received: {loaded.__file__}"
        )
    return getattr(loaded, attribute)


def _words(error):
    return f"{type(error).__name__}: {' '.join(str(error).split())}"

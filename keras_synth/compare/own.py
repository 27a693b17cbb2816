"""Synthesizers, mixers and callbacks in users' modules."""

import importlib
import pathlib
import pkgutil
import re
import sys
import types

import keras_synth

_OWN = re.compile(r"\b([A-Za-z_][\w.]*):([A-Za-z_]\w*)")


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

    fields = "name", "variant", "seed", "backend", "settings"
    run = types.SimpleNamespace(**{x: spec[x] for x in fields})
    run.folder = pathlib.Path(spec["callback_folder"])  # may not exist yet
    made = _imported(name, spec["folder"], "--callbacks")(run)
    made = [*made] if isinstance(made, (list, tuple)) else [made]
    if not all(isinstance(x, keras.callbacks.Callback) for x in made):
        raise ValueError(
            f"--callbacks {name} must return a keras.callbacks.Callback or a "
            f"list of them. Received: {made!r}"
        )
    return made


def _imported(name, folder, option):
    """Returns the function or class of a name, `"module:attribute"`."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        found = pkgutil.resolve_name(name)
        if callable(found):
            return found
        error = f"{type(found).__name__}"
    except Exception as raised:
        error = f"{type(raised).__name__}: {' '.join(str(raised).split())}"
    raise ValueError(
        f"{option} must be MODULE:NAME of a function or class, installed or in "
        f"{folder}. Received: {option} {name} ({error})"
    )

"""Users' code: synthesizers, callbacks, and the model function of a script."""

import ast
import importlib
import inspect
import os
import pathlib
import pkgutil
import re
import runpy
import sys
import types

import keras
import numpy as np

import keras_synth
from keras_synth.compare.data import SPLITS, write_arrays
from keras_synth.compare.files import digest, digest_of_files
from keras_synth.compare.task import Score, Task
from keras_synth.training import EpochBatches

IN_WORKER = "KERAS_SYNTH_WORKER"  # environment variable of a run's process
# Parts of names of metrics of which less is better.
LOWER = """
    loss error perplexity crossentropy bce nll mae mse rmse mape msle hinge
    poisson divergence kld cosh false_
""".split()
_MAIN = "__name__ == '__main__'"
_sources: dict[str, str] = {}  # of registered names
_OWN = re.compile(r"\b([A-Za-z_][\w.]*):([A-Za-z_]\w*)")


def registered(variant, folder=".", option="--variants"):
    """Registers the classes in a variant's name, and returns a name for `get`.

    `"mine:CosineSynthesizer(width=2) + V"` uses the class `CosineSynthesizer`
    of the module `mine`, which is installed or in the working directory.
    """

    def name_of(match):
        cls, name = _imported(match[0], folder, option), _name(match)
        if _sources.setdefault(name, match[0]) != match[0]:
            raise ValueError(
                f"{option} must have different names for different classes. "
                f"Rename one. Received: {_sources[name]} and {match[0]}"
            )
        keras_synth.register(name, cls)
        return name

    return _OWN.sub(name_of, variant)


def registration(variant):
    """Returns code that registers the classes in a variant's name."""
    found = [*_OWN.finditer(variant)]
    imports = [f"import {x[1]}" for x in found]
    calls = [
        f'keras_synth.register("{_name(x)}", {x[1]}.{x[2]})' for x in found
    ]
    lines = "import keras_synth", *imports, "", *calls
    # A line for each class, also if it is in the variant twice.
    return "\n".join(dict.fromkeys(lines))


def digest_of_code(variant, callbacks=None):
    """Returns a short name of modules in a variant and of callbacks, or ""."""
    names = {found[0]: "--variants" for found in _OWN.finditer(variant)}
    if callbacks:
        names[callbacks] = "--callbacks"
    for name, option in names.items():
        _imported(name, ".", option)
    modules = {sys.modules[name.partition(":")[0]] for name in names}
    files = {getattr(module, "__file__", None) for module in modules} - {None}
    return digest_of_files(sorted(files)) if files else ""


def _name(match):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", match[2]).lower()


def callbacks(name, spec):
    """Returns the callbacks of a user's function, `"module:function"`."""
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
    folder = os.path.abspath(folder)
    if folder not in sys.path:
        sys.path.insert(0, folder)
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
        f"the current folder. Received: {option} {name} ({error})"
    )


class Rows(EpochBatches):
    """Batches of a split: full ones in random order, or all in order."""

    def __init__(self, split, batch_size, shuffle=True, seed=0):
        super().__init__(
            len(split["y"]), batch_size, shuffle, shuffle, seed=seed
        )
        self.split = split

    def __getitem__(self, index):
        rows = self.rows(index)
        return _nested({k: x[rows] for k, x in self.split.items()})


class ScriptTask(Task):
    """A model function of a script, scored by a metric or the loss."""

    def __init__(self, path, function, metric=None, higher_is_better=None):
        self.name = pathlib.Path(path).stem
        self.path, self.function = path, function
        self.validation = metric or "loss"
        if higher_is_better is None:
            name = self.validation.lower()
            higher_is_better = not any(x in name for x in LOWER)
        self.higher_is_better = higher_is_better

    def score(self, settings):
        higher = self.higher_is_better
        return Score(self.validation, digits=4, higher_is_better=higher)

    def split(self, split, notes, settings, **options):
        return Rows(split, settings["batch_size"], **options)

    def build(self, variant, seed, settings, notes, steps):
        sys.path.insert(0, str(pathlib.Path(self.path).parent))
        names = runpy.run_path(self.path, run_name="keras_synth_script")
        model = names[self.function](variant)
        if not getattr(model, "compiled", False):
            raise ValueError(
                f"{self.function} must return a compiled keras.Model. "
                f"Received: {model!r}"
            )
        return model


def place_of(build_model):
    """Returns the file and the name of a function."""
    if os.environ.get(IN_WORKER):
        raise RuntimeError(
            "Each run imports the script. Call keras_synth.compare.run below "
            'if __name__ == "__main__":'
        )
    name, path = repr(build_model), ""
    if inspect.isfunction(build_model):
        name = build_model.__qualname__
        path = inspect.getsourcefile(build_model) or ""
    if not os.path.exists(path) or not name.isidentifier():
        raise ValueError(
            "build_model must be a function in a file, by its name, because "
            "each run imports it. In a notebook, write the cell with "
            "%%writefile models.py and import it. Received: "
            f"{name} of {path or 'no file'}"
        )
    return os.path.abspath(path), name


def digest_of_script(path):
    """Returns a short name of a script's code.

    It does not depend on comments, nor on the code below
    `if __name__ == "__main__":`, which no run executes.
    """
    code = []
    for part in ast.parse(pathlib.Path(path).read_bytes()).body:
        is_main = isinstance(part, ast.If) and ast.unparse(part.test) == _MAIN
        code += part.orelse if is_main else [part]
    return digest([*map(ast.unparse, code)])


def write(folder, name, splits):
    """Writes arrays for all runs; returns the path of the file."""
    splits = [*map(_flat, splits, SPLITS)]
    for split, arrays in zip(SPLITS, splits, strict=True):
        counts = {len(x) for x in arrays.values()}
        if len(counts) != 1 or 0 in counts:
            raise ValueError(
                f"{split} must be (x, y) of the same length, where x is an "
                "array, or a tuple or dictionary of arrays. Received: lengths "
                f"{sorted(counts)}"
            )
    path = pathlib.Path(folder, "data", f"{name}.npz")
    write_arrays(path, splits, {"baseline": None})
    return path


def _flat(examples, split):
    """Returns arrays by names: `"y"`, `"x"`, `"0"`, `"x:token_ids"`."""
    if not isinstance(examples, (tuple, list)) or len(examples) != 2:
        raise ValueError(
            f"{split} must be (x, y). Received: {type(examples).__name__}"
        )
    x, y = examples
    found = {"x": x}
    if isinstance(x, tuple):
        found = {str(i): part for i, part in enumerate(x)}
    elif isinstance(x, dict):
        found = {f"x:{name}": part for name, part in x.items()}
    found["y"] = y
    return {k: _numbers(f"{k} of {split}", v) for k, v in found.items()}


def _numbers(name, values):
    """Returns an array of numbers, or raises."""
    if keras.ops.is_tensor(values):
        values = keras.ops.convert_to_numpy(values)
    try:
        values = np.asarray(values)
        received = f"{values.ndim} axes of dtype {values.dtype}"
        fits = values.ndim > 0 and values.dtype.kind in "biuf"
    except ValueError:
        fits, received = False, "rows of unequal lengths"
    if not fits:
        raise ValueError(
            "Arrays must contain numbers. Tokenize and pad texts first, once "
            f"for all runs. Received: {name} with {received}"
        )
    return values


def _nested(arrays):
    """The inverse of `_flat`."""
    arrays = dict(arrays)
    y = arrays.pop("y")
    if "x" in arrays:
        return arrays["x"], y
    if "0" in arrays:
        return tuple(arrays[str(i)] for i in range(len(arrays))), y
    return {k.removeprefix("x:"): v for k, v in arrays.items()}, y

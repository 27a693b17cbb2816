"""Runs of a script's own model function, for `keras_synth.compare.run`."""

import hashlib
import inspect
import os
import pathlib
import runpy
import sys

import numpy as np

from keras_synth.compare.data import SPLITS, write_arrays
from keras_synth.compare.task import Score, Task
from keras_synth.training import EpochBatches

IN_WORKER = "KERAS_SYNTH_WORKER"  # in the environment of a run's process
LOWER = ("loss", "error", "perplexity", "crossentropy")


class Rows(EpochBatches):
    """Batches of arrays in the order of seed and epoch."""

    def __init__(self, x, y, batch_size, seed=None):
        super().__init__(seed or 0, 0)
        self.x, self.y, self.size = x, y, batch_size
        self.shuffle = seed is not None

    def __len__(self):
        count = len(self.y)
        if self.shuffle:
            return count // self.size
        return -(-count // self.size)

    def make_plan(self, epoch):
        rng = np.random.default_rng((self.seed, epoch))
        count = len(self.y)
        return rng.permutation(count) if self.shuffle else np.arange(count)

    def __getitem__(self, index):
        rows = self.plan(self.epoch)[index * self.size :][: self.size]
        return _map(self.x, lambda x: x[rows]), self.y[rows]


class ScriptTask(Task):
    """A model function of a script, and its arrays.

    Args:
        path: Path of the script.
        function: Name of its function from a variant to a compiled model.
        figure: Name of the metric that is the score, or `None` for the first.
    """

    def __init__(self, path, function, figure=None):
        self.name = pathlib.Path(path).stem
        self.path, self.function, self.figure = path, function, figure
        self.validation = figure or "loss"

    def score(self, settings):
        name = self.figure or "loss"
        higher = not any(x in name for x in LOWER)
        return Score(name, digits=4, higher_is_better=higher)

    def batches(self, arrays, settings, seed):
        size, made = settings["batch_size"], []
        for split in arrays[:3]:
            x, y = _nested(split)
            seeds = {} if made else {"seed": seed}
            made.append(Rows(x, y, size, **seeds))
        return made

    def build(self, variant, seed, settings, notes, steps):
        sys.path.insert(0, str(pathlib.Path(self.path).parent))
        names = runpy.run_path(self.path, run_name="keras_synth_script")
        return names[self.function](variant)

    def test(self, model, batches, arrays, settings):
        import keras

        logs = keras.Model.evaluate(model, batches, verbose=0, return_dict=True)
        return {**logs, "score": logs[self.validation]}


def task_of(spec):
    """The task of a spec with a script, or `None`."""
    return ScriptTask(*spec["script"]) if spec.get("script") else None


def place_of(build_model):
    """The file and the name of a function.

    Raises:
        ValueError: If it is not a function of a file.
        RuntimeError: If a run's process asks: the script is run there, too.
    """
    if os.environ.get(IN_WORKER):
        raise RuntimeError(
            "Each run imports the script: call keras_synth.compare.run below "
            'if __name__ == "__main__":'
        )
    path = inspect.getsourcefile(build_model) or ""
    name = build_model.__qualname__
    if not os.path.exists(path) or "." in name:
        raise ValueError(
            "build_model must be a function of a file, since each run imports "
            "it: in a notebook, write the cell with %%writefile models.py and "
            f"import it. Received: {name} of {path or 'no file'}"
        )
    return os.path.abspath(path), name


def write(folder, train, validation, test):
    """Writes arrays for all runs; returns the path of the file."""
    splits = [_flat(x) for x in (train, validation, test)]
    for name, split in zip(SPLITS, splits, strict=True):
        counts = {len(x) for x in split.values()}
        if len(counts) != 1 or 0 in counts:
            raise ValueError(
                f"{name} must be (x, y) of one length, x an array, or a tuple "
                f"or dictionary of arrays. Received: lengths {sorted(counts)}"
            )
    content = hashlib.sha256()
    for split in splits:
        for name, values in split.items():
            content.update(f"{name} {values.dtype} {values.shape}".encode())
            content.update(values.tobytes())
    path = pathlib.Path(folder, "data", f"own-{content.hexdigest()[:16]}.npz")
    write_arrays(path, splits, {})
    return path


def _flat(examples):
    """Arrays by names: `"y"`, `"x"`, `"x:0"`, `"x:token_ids"`."""
    x, y = examples
    if isinstance(x, tuple):
        x = dict(enumerate(x))
    found = {f"x:{k}": v for k, v in x.items()} if isinstance(x, dict) else {}
    found = {k: np.asarray(v) for k, v in (found or {"x": x}).items()}
    for name, values in found.items():
        if values.dtype.kind not in "biuf":
            raise ValueError(
                "Arrays must hold numbers: tokenize texts first, once for all "
                f"runs. Received: {name} of dtype {values.dtype}"
            )
    return {**found, "y": np.asarray(y)}


def _nested(split):
    """The opposite of `_flat`."""
    if "x" in split:
        return split["x"], split["y"]
    x = {k.removeprefix("x:"): v for k, v in split.items() if k != "y"}
    if all(name.isdigit() for name in x):
        x = tuple(x[str(i)] for i in range(len(x)))
    return x, split["y"]


def _map(x, function):
    if isinstance(x, tuple):
        return tuple(map(function, x))
    if isinstance(x, dict):
        return {k: function(v) for k, v in x.items()}
    return function(x)

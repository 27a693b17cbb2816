"""Texts to token ids, once: what all runs of a grid read."""

import hashlib
import json
import pathlib
import warnings

import numpy as np

from keras_synth._system.files import naming_what_is_damaged, writing
from keras_synth.compare import tasks
from keras_synth.compare.objectives import Prepared
from keras_synth.compare.packages import require
from keras_synth.compare.results import FORMAT
from keras_synth.datasets.readers import SPLITS

BATCH_SIZE = 512  # texts to tokenize at a time


def prepare(settings, source, folder, log=lambda line: None):
    """Tokenizes a task's texts, or finds that it has been done.

    Vocabularies are trained on the training texts alone.

    Args:
        settings: `Settings`.
        source: `Source`.
        folder: Path of a folder to keep the arrays in.
        log: Function of a line that says what is going on.

    Returns:
        Path of the file with the arrays, for `read`.

    Raises:
        ImportError: A package is missing.
        ValueError: The texts cannot be read.
    """
    objective = tasks.TASKS[settings.task].objective
    require(objective.packages, f"The task {settings.task!r}")
    wanted = {name: getattr(settings, name) for name in objective.data_settings}
    inputs = _stamp(source), source._replace(data=None, test_data=None)
    key = json.dumps([FORMAT, wanted, *inputs])
    name = hashlib.sha256(key.encode()).hexdigest()[:12]
    path = pathlib.Path(folder) / f"{settings.task}-{name}.npz"
    if path.exists():
        log(f"Tokenized texts are in {path}")
        return path
    log(f"Reading {settings.task}")
    with warnings.catch_warnings():  # of rows that were left out
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = lambda message, *_: log(str(message))
        examples = tasks.load(settings.task, source, settings)
    _write(path, objective.prepare(examples, settings, _preprocess, log))
    return path


def read(path):
    """Returns the `Prepared` of a file that `prepare` wrote.

    Raises:
        ValueError: The file is damaged.
    """
    way_out = "Remove it, and the texts are tokenized again."
    with naming_what_is_damaged(path, "tokenized texts", way_out):
        with np.load(path) as file:
            arrays = {name: file[name] for name in file.files}
        notes = json.loads(str(arrays.pop("notes")))
    digest = hashlib.sha256()
    splits = {name: {} for name in SPLITS}
    for name, values in sorted(arrays.items()):
        digest.update(name.encode() + values.tobytes())
        split, _, feature = name.partition("/")
        splits[split][feature] = values
    return Prepared(**splits, notes=notes, digest=digest.hexdigest()[:12])


def _write(path, prepared):
    arrays = {
        f"{split}/{name}": values
        for split in SPLITS
        for name, values in getattr(prepared, split).items()
    }
    if "vocabulary" in prepared.notes:  # a token a line, for readers
        with writing(path.with_suffix(".txt")) as file:
            file.writelines(f"{x}\n" for x in prepared.notes["vocabulary"])
    with writing(path, "wb") as file:
        np.savez(file, notes=json.dumps(prepared.notes), **arrays)


def _stamp(source):
    """What tells whether the files have changed."""
    found = []
    for given in filter(None, (source.data, source.test_data)):
        path = pathlib.Path(given)
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            if file.is_file():
                state = file.stat()
                found.append([file.name, state.st_size, state.st_mtime_ns])
    return found


def _preprocess(preprocessor, splits):
    """Yields what a KerasHub preprocessor makes of each split, as arrays."""
    import keras
    import tensorflow as tf  # workers read arrays and do without

    datasets = [
        tf.data.Dataset.from_tensor_slices(inputs).batch(BATCH_SIZE)
        for inputs in splits
    ]
    # Traced once, of any number of texts: byte pairs take seconds.
    traced = tf.function(preprocessor, input_signature=datasets[0].element_spec)
    for batches in datasets:
        made = [
            keras.tree.map_structure(lambda x: x.numpy(), traced(*batch))
            for batch in batches
        ]
        yield keras.tree.map_structure(lambda *x: np.concatenate(x), *made)

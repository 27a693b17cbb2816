"""Texts to token ids, once: what all runs of a grid read."""

import hashlib
import json
import pathlib
from typing import NamedTuple

import numpy as np

from keras_synth.compare import tasks


class Prepared(NamedTuple):
    """Tokenized examples: `(features, labels)` to train on and to test on."""

    train: tuple
    test: tuple
    class_names: list
    vocabulary_size: int
    digest: str  # of the arrays: the same data have the same one


def prepare(settings, source, folder, say=lambda text: None):
    """Tokenizes a task's texts, or finds that it has been done.

    The vocabulary is trained on the training texts alone.

    Args:
        settings: `Settings`.
        source: `Source`.
        folder: Path of a folder to keep the arrays in.
        say: Function that is told what is going on.

    Returns:
        Path of the file with the arrays, for `read`.
    """
    inputs = _stamp(source), source._replace(data=None, test_data=None)
    key = json.dumps([settings_of_data(settings), *inputs])
    name = hashlib.sha256(key.encode()).hexdigest()[:12]
    path = pathlib.Path(folder) / f"{settings.task}-{name}.npz"
    if path.exists():
        say(f"Tokenized texts are in {path}")
        return path
    say(f"Reading {settings.task}")
    train, test, class_names = tasks.load(settings.task, source, settings)
    say(f"Training a vocabulary on {len(train[1]):,} examples")
    preprocessor = _preprocessor(train[0], settings)
    say(f"Tokenizing {len(train[1]) + len(test[1]):,} examples")
    arrays = {
        "notes": json.dumps(
            {
                "class_names": list(class_names),
                "vocabulary_size": preprocessor.tokenizer.vocabulary_size(),
            }
        )
    }
    for split, (texts, labels) in {"train": train, "test": test}.items():
        for feature, values in _tokenized(preprocessor, texts, labels).items():
            arrays[f"{split}/{feature}"] = values
        arrays[f"{split}/labels"] = labels
    path.parent.mkdir(parents=True, exist_ok=True)
    _write_vocabulary(path.with_suffix(".txt"), preprocessor.tokenizer)
    partial = path.with_suffix(".partial")
    with open(partial, "wb") as file:
        np.savez(file, **arrays)
    partial.replace(path)
    return path


def read(path):
    """Returns the `Prepared` of a file that `prepare` wrote."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    notes = json.loads(str(arrays.pop("notes")))
    digest = hashlib.sha256()
    for name, values in sorted(arrays.items()):
        digest.update(name.encode() + values.tobytes())
    splits = []
    for split in ("train", "test"):
        features = {
            name.removeprefix(f"{split}/"): values
            for name, values in arrays.items()
            if name.startswith(f"{split}/")
        }
        splits.append((features, features.pop("labels")))
    return Prepared(
        *splits,
        notes["class_names"],
        notes["vocabulary_size"],
        digest.hexdigest()[:12],
    )


def settings_of_data(settings):
    """The settings that the arrays depend on."""
    names = "task sequence_length keep vocabulary_size examples".split()
    return {name: getattr(settings, name) for name in names}


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


def _preprocessor(texts, settings):
    # Only who tokenizes needs KerasHub and TensorFlow: workers read arrays.
    from keras_synth import models

    pairs = isinstance(texts, tuple)
    every = [text for side in texts for text in side] if pairs else texts
    return models.SynthesizerTextClassifierPreprocessor(
        models.SynthesizerTokenizer.from_texts(every, settings.vocabulary_size),
        sequence_length=settings.sequence_length,
        keep=settings.keep,
        with_segments=pairs,
    )


def _tokenized(preprocessor, texts, labels):
    import tensorflow as tf

    # With labels, since a pair alone is taken for a text and its label.
    batches = tf.data.Dataset.from_tensor_slices((texts, labels)).batch(512)
    batches = [x for x, _ in batches.map(preprocessor).as_numpy_iterator()]
    return {
        name: np.concatenate([batch[name] for batch in batches])
        for name in batches[0]
    }


def _write_vocabulary(path, tokenizer):
    partial = path.with_suffix(".partial")
    words = "".join(f"{word}\n" for word in tokenizer.get_vocabulary())
    partial.write_text(words, encoding="utf-8")
    partial.replace(path)

"""From files, or a generator, to the arrays that all runs of a task read."""

import hashlib
import json
import pathlib
from typing import Any, NamedTuple

import numpy as np

from keras_synth import datasets
from keras_synth._system.files import writing
from keras_synth.compare.settings import digest
from keras_synth.datasets.splitting import take
from keras_synth.version import __version__

SPLITS = ("train", "validation", "test")
GENERATED, HELD_OUT = 6_000, 1_000  # examples to train on, and of other splits
AT_ONCE = 512  # texts to tokenize
# Settings that change arrays.
RELEVANT = "sequence_length vocabulary_size keep examples tokens init".split()


class Source(NamedTuple):
    """Where the examples of a task are: paths, and what tables are like.

    Attributes:
        data: List of paths, to train on; nothing for generated examples.
        validation_data: List of paths; by default a tenth is held out.
        test_data: List of paths; by default a tenth is held out.
        format: As for `datasets.read`, as all others.
    """

    data: tuple = ()
    validation_data: tuple = ()
    test_data: tuple = ()
    format: str | None = None
    text: Any = "text"
    label: Any = "label"
    header: bool = True
    delimiter: str | None = None
    skip_empty: bool = False

    def read(self, paths, **changes):
        """Returns what `datasets.read` makes of paths: of two, parallel lines.

        Options in `changes` replace those of the source.
        """
        options = {name: getattr(self, name) for name in self._fields[3:]}
        options |= changes
        path = paths[0] if len(paths) == 1 else paths
        return datasets.read(path, **options)


class Arrays(NamedTuple):
    """A task's examples.

    Attributes:
        train: Dictionary of arrays, as the others.
        validation: Scored after each epoch.
        test: Scored once.
        notes: Dictionary, for JSON: what else a model needs.
        digest: String. The same content has the same one.
    """

    train: dict
    validation: dict
    test: dict
    notes: dict
    digest: str = ""


def generated(generator, count):
    """Draws splits in which no text of one is in another.

    Args:
        generator: Function of `datasets`, of a count and a seed.
        count: Integer, examples to train on; 0 for the usual number.

    Returns:
        `(train, validation, test)`, each texts and labels. Those to validate
        and to test on do not depend on the count.
    """
    count = count or GENERATED
    test, validation = generator(HELD_OUT, seed=1), generator(HELD_OUT, seed=2)
    seen = {*_texts(test)}
    validation = _without(validation, seen)
    seen |= {*_texts(validation)}
    # Not the first of more: pairs are made by fours, which say nothing singly.
    train, seed = _without(generator(count, seed=0), seen), 2
    while len(train[1]) < count:
        seed += 1
        missing = count - len(train[1])
        more = _without(generator(missing, seed=seed), seen)
        train = tuple(map(_joined, train, more))
    return train, validation, test


def _joined(one, other):
    if isinstance(one, tuple):
        return tuple(map(_joined, one, other))
    if isinstance(one, np.ndarray):
        return np.concatenate([one, other])
    return [*one, *other]


def _texts(examples):
    sides = examples[0] if isinstance(examples[0], tuple) else (examples[0],)
    return [tuple(map(str, row)) for row in zip(*sides, strict=True)]


def _without(examples, seen):
    rows = [i for i, text in enumerate(_texts(examples)) if text not in seen]
    return tuple(take(side, rows) for side in examples)


def distinct(examples, count):
    """Cuts examples that are all distinct, those to train on last.

    Any number of them leaves the other splits as they are.
    """
    cuts = (slice(2 * count, None), slice(count, 2 * count), slice(count))
    return [tuple(side[rows] for side in examples) for rows in cuts]


def labelled_splits(source, count, test=None):
    """Reads examples with labels, and holds out what has no file.

    Args:
        source: `Source`.
        count: Integer, how many to train on, the first ones in a random
            order; 0 for all.
        test: Optional dictionary of options for the file to test on.

    Returns:
        `(train, validation, test)`, each texts and labels.
    """
    train = source.read(source.data)
    if source.test_data:
        held_out = source.read(source.test_data, **(test or {}))
    else:
        train, held_out = datasets.train_validation_split(*train, seed=1)
    if source.validation_data:
        validation = source.read(source.validation_data)
    else:
        train, validation = datasets.train_validation_split(*train)
    if count:
        if count > len(train[1]):
            raise ValueError(
                f"--examples must be at most {len(train[1])}, the examples to "
                f"train on. Received: {count}"
            )
        rows = np.random.default_rng(0).permutation(len(train[1]))[:count]
        train = tuple(take(side, rows) for side in train)
    return train, validation, held_out


def text_splits(source, cuts):
    """Reads plain texts, and holds out the ends of those to train on.

    Args:
        source: `Source`.
        cuts: Tuple of two integers, the per cent of each text where what is
            validated on begins, and what is tested on.

    Returns:
        `(train, validation, test)`, a list of lines each, with their ends.
    """

    def lines(paths):
        found = [datasets.read(path, "text") for path in paths]
        texts = [x for y in found for x in ([y] if isinstance(y, str) else y)]
        return [text.splitlines(keepends=True) for text in texts]

    train = lines(source.data)
    splits = {
        "validation": lines(source.validation_data),
        "test": lines(source.test_data),
    }
    ends = [cuts[0] if not splits["validation"] else cuts[1], cuts[1]]
    if splits["test"]:
        ends = [100 - (cuts[1] - cuts[0]) if not splits["validation"] else 100]
        ends.append(100)
    parts = [[], [], []]
    for text in train:
        first, second = (len(text) * end // 100 for end in ends)
        for part, rows in zip(
            parts,
            (text[:first], text[first:second], text[second:]),
            strict=True,
        ):
            part += rows
    for part, name in zip(parts[1:], splits, strict=True):
        part += [line for text in splits[name] for line in text]
    for part, name in zip(parts, SPLITS, strict=True):
        if not any(map(str.strip, part)):
            raise ValueError(
                f"There are too few lines of text for the {name} split. Pass "
                f"more, or a file of its own. Received: {[*source.data]}"
            )
    return parts


def prepare(task, settings, source, folder, log):
    """Makes a task's arrays, or finds that this has been done.

    Args:
        task: `Task`.
        settings: Dictionary.
        source: `Source`.
        folder: Path of a folder to keep them in.
        log: Function of a line that says what is going on.

    Returns:
        Path of the file, for `read_arrays`.
    """
    wanted = {x: settings[x] for x in RELEVANT if x in settings}
    if wanted.get("init"):
        from keras_synth.compare.start import presets

        wanted["init"] = digest_of_files(
            [presets(wanted["init"])[0] / "assets"]
        )
    paths = [source.data, source.validation_data, source.test_data]
    files = [digest_of_files(x) for x in paths]
    key = digest(__version__, task.name, wanted, files, source[3:])
    path = pathlib.Path(folder) / f"{task.name}-{key}.npz"
    if path.exists():
        log(f"Prepared examples are in {path}")
    else:
        splits, notes = task.prepare(settings, source, log)
        write_arrays(path, splits, notes)
    return path


def digest_of_files(paths):
    """Returns a short name of the content of files and folders."""
    found = hashlib.sha256()
    for path in map(pathlib.Path, paths):
        if not path.exists():
            raise ValueError(f"There is no file or folder {path}")
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in filter(pathlib.Path.is_file, files):
            found.update(f"{file.relative_to(path)} ".encode())
            with open(file, "rb") as opened:
                while block := opened.read(2**20):
                    found.update(block)
    return found.hexdigest()[:16]


def write_arrays(path, splits, notes):
    """Writes the arrays of three splits, dictionaries, and notes."""
    arrays = {
        f"{split}/{name}": values
        for split, found in zip(SPLITS, splits, strict=True)
        for name, values in found.items()
    }
    with writing(path, "wb") as file:
        np.savez(file, notes=json.dumps(notes), **arrays)


def read_arrays(path):
    """Returns the `Arrays` of a file that `write_arrays` wrote."""
    try:
        with np.load(path) as file:
            arrays = {name: file[name] for name in file.files}
        notes = json.loads(str(arrays.pop("notes")))
    except Exception as error:
        raise ValueError(
            f"{path} cannot be read ({error}). Remove it, and it is made again."
        ) from error
    content = hashlib.sha256(json.dumps(notes, sort_keys=True).encode())
    splits: dict[str, dict] = {name: {} for name in SPLITS}
    for name, values in sorted(arrays.items()):
        content.update(name.encode() + values.tobytes())
        split, _, feature = name.partition("/")
        splits[split][feature] = values
    return Arrays(**splits, notes=notes, digest=content.hexdigest()[:16])


def in_batches(function, *columns):
    """Calls a preprocessor on some examples at a time; returns arrays.

    Args:
        function: What returns arrays of some rows.
        *columns: Lists, tuples of lists, or arrays of one length.
    """
    import keras

    count = len(columns[-1])
    outputs = []
    for start in range(0, count, AT_ONCE):
        rows = range(start, min(start + AT_ONCE, count))
        found = function(*(take(column, rows) for column in columns))
        outputs.append(keras.tree.map_structure(as_array, found))
    return keras.tree.map_structure(lambda *x: np.concatenate(x), *outputs)


def as_array(values):
    """Returns a NumPy array of a tensor of any framework."""
    if hasattr(values, "numpy") and not hasattr(values, "detach"):
        return values.numpy()  # TensorFlow's, whatever the backend
    import keras

    return keras.ops.convert_to_numpy(values)

"""From files or a generator to the arrays for all runs of a task."""

import itertools
import json
import pathlib
from collections.abc import Sequence
from typing import NamedTuple

import keras
import numpy as np

from keras_synth import datasets
from keras_synth.compare import start
from keras_synth.compare.files import digest, digest_of_files, writing
from keras_synth.datasets.reading import lines_of
from keras_synth.datasets.splitting import take
from keras_synth.version import __version__

SPLITS = ("train", "validation", "test")
GENERATED, HELD_OUT = 6_000, 1_000  # examples of training and other splits
# Generators with only distinct examples, and how many are held out.
DISTINCT = {
    datasets.generated_translations: 500,
    datasets.generated_listops: 2_000,
}
PLAIN = ("format", "text")
AT_ONCE = 512  # texts to tokenize together
# Settings that change arrays.
RELEVANT = (
    "sequence_length vocabulary_size keep examples tokens init metric".split()
)


class Source(NamedTuple):
    """Paths of examples, and options of `datasets.read`."""

    data: Sequence = ()
    validation_data: Sequence = ()
    test_data: Sequence = ()
    options: dict = {}

    def read(self, paths, sides=1, **changes):
        """Reads texts and labels; two paths are parallel lines.

        With two `sides`, labels are texts, also if all of them are numbers.
        """
        path = paths[0] if len(paths) == 1 else paths
        options = self.options | changes
        found = datasets.read(path, **options)
        if sides == 2 and isinstance(found[1], np.ndarray):
            names = "text", "label"
            columns = [options.get(name, name) for name in names]
            options |= {"text": columns, "label": None}
            return datasets.read(path, **options)
        if not isinstance(found, tuple):
            raise ValueError(
                "This task needs labels: a table, a folder for each class, or "
                "two files of parallel lines. For a table with another "
                f"suffix, pass --format. Received: plain text in {path}"
            )
        return found


class Arrays(NamedTuple):
    """Examples, a dictionary of arrays for each split, and notes for JSON."""

    train: dict
    validation: dict
    test: dict
    notes: dict


def examples(task, settings, source):
    """Reads or draws texts and labels of the three splits.

    A split without files is a tenth of the examples. Of several columns of
    labels, the first is that of training and validation, and the others are
    references of the test.
    """
    count = settings["examples"]
    if not source.data:
        options = {}
        if task.generator is datasets.generated_listops:
            options["max_length"] = settings["sequence_length"] - 2
        return generated(task.generator, count, **options)
    label = source.options.get("label", "label")
    labels = label if isinstance(label, list) else [label]
    if labels[1:] and (task.sides < 2 or not source.test_data):
        raise ValueError(
            "Only --test-data of a task that writes texts can have several "
            f"--label columns. Pass one. Received: {label}"
        )
    first, references = labels[0], labels[1:] if labels[2:] else labels[-1]
    sides = task.sides
    train = source.read(source.data, sides, label=first)
    if source.test_data:
        test = source.read(source.test_data, sides, label=references)
    else:
        train, test = datasets.train_validation_split(*train, seed=1)
    if source.validation_data:
        validation = source.read(source.validation_data, sides, label=first)
    else:
        train, validation = datasets.train_validation_split(*train)
    if count:
        if count > len(train[1]):
            raise ValueError(
                f"--examples must be at most {len(train[1])}, the number of "
                f"training examples. Received: {count}"
            )
        rows = np.random.default_rng(0).permutation(len(train[1]))[:count]
        train = take(train, rows)
    return [train, validation, test]


def generated(generator, count, **options):
    """Draws splits without common texts.

    Only the training split depends on the count, 0 for the default.
    """
    count = count or GENERATED
    if generator in DISTINCT:
        size = DISTINCT[generator]
        drawn = generator(count + 2 * size, **options)
        cuts = slice(2 * size, None), slice(size, 2 * size), slice(size)
        return [tuple(side[rows] for side in drawn) for rows in cuts]
    test, validation = generator(HELD_OUT, seed=1), generator(HELD_OUT, seed=2)
    seen = {*texts_of(test)}
    validation = _without(validation, seen)
    seen |= {*texts_of(validation)}
    # Not the first of more, because pairs are made in fours.
    train, seed = _without(generator(count, seed=0), seen), 2
    while len(train[1]) < count:
        seed += 1
        missing = count - len(train[1])
        more = _without(generator(missing, seed=seed), seen)
        train = _joined(train, more)
    return [train, validation, test]


def texts_of(examples):
    """Returns the texts of examples as tuples of all columns."""
    sides = examples[0] if isinstance(examples[0], tuple) else (examples[0],)
    return [tuple(map(str, row)) for row in zip(*sides, strict=True)]


def _joined(one, other):
    if isinstance(one, tuple):
        return tuple(map(_joined, one, other))
    if isinstance(one, np.ndarray):
        return np.concatenate([one, other])
    return [*one, *other]


def _without(examples, seen):
    rows = [i for i, text in enumerate(texts_of(examples)) if text not in seen]
    return take(examples, rows)


def text_splits(source, held_out):
    """Reads lines of plain texts, and holds out the ends of training texts.

    `held_out` is the per cent for validation, and for the test.
    """

    def lines(paths):
        found = [datasets.read(path, "text") for path in paths]
        texts = [x for y in found for x in ([y] if isinstance(y, str) else y)]
        return [lines_of(text) for text in texts]

    unused = {k: x for k, x in source.options.items() if (k, x) != PLAIN}
    if unused:
        raise ValueError(
            "This task reads plain text. Leave out the options of tables. "
            f"Received: {unused}"
        )
    validation, test = lines(source.validation_data), lines(source.test_data)
    end = 100 if test else 100 - held_out
    middle = end if validation else end - held_out
    chain = itertools.chain.from_iterable
    parts = [[], [*chain(validation)], [*chain(test)]]
    count = 0
    for text in lines(source.data):
        before, count = count, count + len(text)
        # Of all lines, so that short texts add up.
        first, second = (
            count * share // 100 - before * share // 100
            for share in (middle, end)
        )
        cuts = slice(first), slice(first, second), slice(second, None)
        for part, rows in zip(parts, cuts, strict=True):
            part += text[rows]
    for part, name in zip(parts, SPLITS, strict=True):
        if not any(map(str.strip, part)):
            raise ValueError(
                f"There are too few lines of text for the {name} split. Pass "
                f"more lines, or a separate file. Received: {[*source.data]}"
            )
    return parts


def prepare(task, settings, source, folder, log):
    """Makes a file of a task's arrays, unless it exists; returns its path."""
    wanted = {x: settings[x] for x in RELEVANT if x in settings}
    if wanted.get("init"):
        assets = start.presets(wanted["init"])[0] / start.TOKENIZER
        wanted["init"] = digest_of_files([assets])
    files = [digest_of_files(paths) for paths in source[:3]]
    key = digest(__version__, task.name, wanted, files, source.options)
    path = pathlib.Path(folder) / f"{task.name}-{key}.npz"
    if path.exists():
        log(f"Prepared examples are in {path}")
    else:
        splits, notes = task.prepare(settings, source, log)
        write_arrays(path, splits, notes)
    return path


def write_arrays(path, splits, notes):
    """Writes the arrays of three splits (dictionaries) and notes."""
    arrays = {
        f"{split}/{name}": values
        for split, found in zip(SPLITS, splits, strict=True)
        for name, values in found.items()
    }
    with writing(path, "wb") as file:
        np.savez(file, notes=json.dumps(notes), **arrays)


def read_arrays(path):
    """Returns the `Arrays` of a file from `write_arrays`."""
    try:
        with np.load(path) as file:
            arrays = {name: file[name] for name in file.files}
        notes = json.loads(str(arrays.pop("notes")))
    except Exception as error:
        raise ValueError(
            f"{path} cannot be read ({error}). Remove it, and repeat the "
            "command."
        ) from error
    splits: dict[str, dict] = {name: {} for name in SPLITS}
    for name, values in arrays.items():
        split, _, feature = name.partition("/")
        splits[split][feature] = values
    return Arrays(**splits, notes=notes)


def tokenized(preprocessor, splits, log):
    """Returns the arrays of splits of texts and labels."""
    from keras_synth.models.preprocessors.arrays import as_array

    log(f"Tokenizing {sum(len(y) for _, y in splits):,} examples")
    arrays = []
    for split in splits:
        outputs = []
        for first in range(0, len(split[1]), AT_ONCE):
            rows = range(first, min(first + AT_ONCE, len(split[1])))
            made = preprocessor(*take(tuple(split), rows))
            outputs.append(keras.tree.map_structure(as_array, made))
        features, *others = keras.tree.map_structure(
            lambda *x: np.concatenate(x), *outputs
        )
        names = "labels", "sample_weight"
        arrays.append({**features, **dict(zip(names, others, strict=False))})
    return arrays

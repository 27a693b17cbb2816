"""From paths and settings to a task's texts."""

import collections
from typing import NamedTuple

from keras_synth import datasets
from keras_synth.datasets.groups import split_groups

GENERATED = 6_000  # examples to train on, where the settings name no number
GENERATED_TEST = 1_000
GENERATED_TEST_PAIRS = 500  # writing takes longer than classifying


class Source(NamedTuple):
    """Where a task's texts come from: paths, and columns of a CSV file."""

    data: str | None = None
    test_data: str | None = None
    text: object = None
    label: object = None
    header: bool = True


def labelled(name, read, *arguments):
    """A loader of texts with classes, which `read` reads from a path."""

    def load(source, settings):
        splits = read(source.data, *arguments)
        return *splits, datasets.CLASS_NAMES[name]

    return load


def published(read, *arguments):
    """A loader of what `read` reads, without that to validate on."""

    def load(source, settings):
        train, *_, test = read(source.data, *arguments)
        return train, test

    return load


def generated(generator):
    """A loader of labelled examples that a generator makes."""

    def load(source, settings):
        train = generator(settings.examples or GENERATED, seed=0)
        test = generator(GENERATED_TEST, seed=1)
        return train, test, datasets.CLASS_NAMES[generator.__name__]

    return load


def generated_pairs_of_texts(generator):
    """A loader of sources and targets that a generator makes."""

    def load(source, settings):
        count = settings.examples or GENERATED
        pairs = generator(GENERATED_TEST_PAIRS + count)
        # The test comes first: it is the same for any number of others.
        train = tuple(side[GENERATED_TEST_PAIRS:] for side in pairs)
        return train, tuple(side[:GENERATED_TEST_PAIRS] for side in pairs)

    return load


def csv_file(source, settings):
    """Loads any texts with classes; without test data, splits them."""
    columns = {
        "text": source.text,
        "label": source.label,
        "header": source.header,
    }
    x, y, names = datasets.load_csv(source.data, **columns)
    if source.test_data is None:
        return *datasets.train_validation_split(x, y), names
    test = datasets.load_csv(source.test_data, class_names=names, **columns)
    return (x, y), test[:2], names


def text_pairs(source, settings):
    """Loads any sources and targets; without test data, holds out a tenth."""
    pairs = datasets.load_translations(source.data)
    if source.test_data is not None:
        return pairs, datasets.load_translations(source.test_data)
    groups = collections.defaultdict(list)
    for pair in zip(*pairs, strict=True):
        groups[pair[0]].append(pair)  # a source is on one side of the split
    fractions = {"test_fraction": 0.1}
    return split_groups([*groups.values()], fractions, 0, "distinct sources")


def tinyshakespeare(source, settings):
    """Loads Tiny Shakespeare as bytes."""
    train, _, test = datasets.load_tinyshakespeare(source.data)
    return train.encode(), test.encode()


def text_file(source, settings):
    """Loads any text as bytes; without test data, holds out the last tenth."""
    text = datasets.load_text(source.data)
    if source.test_data is not None:
        return text.encode(), datasets.load_text(source.test_data).encode()
    first = len(text) * 90 // 100
    return text[:first].encode(), text[first:].encode()

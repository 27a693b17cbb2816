"""From paths and settings to a task's texts."""

import collections
from typing import NamedTuple

from keras_synth import datasets
from keras_synth.datasets.groups import split_groups

GENERATED = 6_000  # examples to train on, where the settings name no number
GENERATED_TEST = 1_000  # and as many to validate on
GENERATED_TEST_PAIRS = 500  # writing takes longer than classifying
HELD_OUT = 0.1  # of the training examples, where nothing else is published


class Source(NamedTuple):
    """Where a task's texts come from: paths, and what a CSV file is like."""

    data: str | None = None
    test_data: str | None = None
    text: object = None
    label: object = None
    header: bool = True
    delimiter: str | None = None
    quoted: bool | None = None
    skip_empty: bool = False


def labelled(name, read, *arguments):
    """A loader of texts with classes, which `read` reads from a path."""

    def load(source, settings):
        train, test = read(source.data, *arguments)
        return *_hold_out(*train), test, datasets.CLASS_NAMES[name]

    return load


def _hold_out(texts, labels):
    return datasets.train_validation_split(texts, labels, HELD_OUT)


def published(read, *arguments, **options):
    """A loader of the three splits that `read` reads from a path."""

    def load(source, settings):
        return read(source.data, *arguments, **options)

    return load


def generated(generator):
    """A loader of labelled examples that a generator makes."""

    def load(source, settings):
        train = generator(settings.examples or GENERATED, seed=0)
        test, validation = (
            generator(GENERATED_TEST, seed=seed) for seed in (1, 2)
        )
        names = datasets.CLASS_NAMES[generator.__name__]
        return train, validation, test, names

    return load


def generated_pairs_of_texts(generator):
    """A loader of sources and targets that a generator makes."""

    def load(source, settings):
        first, second = GENERATED_TEST_PAIRS, 2 * GENERATED_TEST_PAIRS
        pairs = generator(second + (settings.examples or GENERATED))
        # Those to train on come last: any number leaves the others alone.
        return [
            tuple(side[some] for side in pairs)
            for some in (
                slice(second, None),
                slice(first, second),
                slice(first),
            )
        ]

    return load


def csv_file(source, settings):
    """Loads any texts with classes; without test data, splits them."""
    options = source._asdict()
    paths = options.pop("data"), options.pop("test_data")
    x, y, names = datasets.load_csv(paths[0], **options)
    if paths[1] is None:
        train, test = datasets.train_validation_split(x, y)
    else:
        train = x, y
        test = datasets.load_csv(paths[1], class_names=names, **options)[:2]
    return *_hold_out(*train), test, names


def text_pairs(source, settings):
    """Loads any sources and targets; without test data, holds out a tenth."""
    options = {"skip_empty": source.skip_empty}
    pairs = datasets.load_translations(source.data, **options)
    groups = collections.defaultdict(list)
    for pair in zip(*pairs, strict=True):
        groups[pair[0]].append(pair)  # a source is on one side of the split
    groups = list(groups.values())
    fractions = {"test": HELD_OUT, "validation": HELD_OUT}
    tests = []
    if source.test_data is not None:
        tests = [datasets.load_translations(source.test_data, **options)]
        del fractions["test"]
    if len(groups) <= len(fractions):
        raise ValueError(
            f"{source.data}: expected more distinct sources, since some of "
            f"them are held out for {' and '.join(fractions)}. Add lines"
            f"{'' if tests else ', or pass --test-data'}. Received: "
            f"{len(groups)}"
        )
    train, *others = split_groups(groups, fractions, 0, "distinct sources")
    tests, (validation,) = (tests or others[:1]), others[-1:]
    return train, validation, *tests


def tinyshakespeare(source, settings):
    """Loads Tiny Shakespeare as bytes."""
    return [x.encode() for x in datasets.load_tinyshakespeare(source.data)]


def text_file(source, settings):
    """Loads any text as bytes; without test data, holds out the last tenth."""
    text = datasets.load_text(source.data)
    first, last = len(text) * 80 // 100, len(text) * 90 // 100
    if source.test_data is not None:
        test = datasets.load_text(source.test_data)
        parts = text[:last], text[last:], test
    else:
        parts = text[:first], text[first:last], text[last:]
    return [part.encode() for part in parts]

"""The catalogue of tasks: what each reads, and what suits it."""

from typing import NamedTuple

import numpy as np

from keras_synth import datasets

GENERATED = 6_000  # examples to train on, where the settings name no number
GENERATED_TEST = 1_000


class Task(NamedTuple):
    """A classification task.

    Attributes:
        load: Function of the paths and columns that were given, returning
            `(train, test, class_names)`; train and test are `(texts, labels)`.
        needs: What `--data` must name; empty if nothing.
        defaults: Settings that differ from those of `Settings`.
        paper: Accuracies in the paper (Tay et al., 2021, Table 7), in percent.
    """

    load: object
    needs: str
    defaults: dict
    paper: dict = {}


def _generated(generator):
    def load(source, settings):
        train = generator(settings.examples or GENERATED, seed=0)
        test = generator(GENERATED_TEST, seed=1)
        return train, test, datasets.CLASS_NAMES[generator.__name__]

    return load


def _glue(name):
    def load(source, settings):
        return *datasets.load_glue(source.data, name), datasets.CLASS_NAMES[
            name
        ]

    return load


def _imdb(source, settings):
    return *datasets.load_imdb(source.data), datasets.CLASS_NAMES["imdb"]


def _ag_news(source, settings):
    return *datasets.load_ag_news(source.data), datasets.CLASS_NAMES["ag_news"]


def _rt_polarity(source, settings):
    splits = datasets.load_rt_polarity(source.data)
    return *splits, datasets.CLASS_NAMES["rt_polarity"]


def _csv(source, settings):
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


class Source(NamedTuple):
    """Where a task's texts come from: paths, and columns of a CSV file."""

    data: str | None = None
    test_data: str | None = None
    text: object = None
    label: object = None
    header: bool = True


TASKS = {
    "reviews": Task(
        _generated(datasets.generated_reviews),
        "",
        {"vocabulary_size": 1_000, "lengths": (48,), "hidden_dim": 64},
    ),
    "pairs": Task(
        _generated(datasets.generated_pairs),
        "",
        {
            "sequence_length": 48,
            "vocabulary_size": 1_000,
            "hidden_dim": 64,
            "dropout": 0.0,
            "epochs": 20,
        },
    ),
    "imdb": Task(
        _imdb,
        "the folder aclImdb or its .tar.gz archive",
        {
            "sequence_length": 256,
            "lengths": (128, 192),
            "vocabulary_size": 20_000,
            "epochs": 1,
        },
        {"V": 81.34, "FR": 83.39, "FR+V": 84.61},
    ),
    "ag_news": Task(
        _ag_news,
        "a folder with train.csv and test.csv",
        {"sequence_length": 96, "lengths": (48, 64), "vocabulary_size": 20_000},
        {"V": 88.83, "FR": 86.53, "FR+V": 89.13},
    ),
    "rt_polarity": Task(
        _rt_polarity,
        "the folder with rt-polarity.pos and rt-polarity.neg",
        {"lengths": (24, 40), "dropout": 0.3, "epochs": 5},
    ),
    "sst2": Task(
        _glue("SST-2"),
        "the folder SST-2",
        {"lengths": (16, 32), "epochs": 2},
    ),
    "cola": Task(
        _glue("CoLA"),
        "the folder CoLA",
        {"sequence_length": 32, "lengths": (16,), "epochs": 5},
    ),
    "rte": Task(
        _glue("RTE"),
        "the folder RTE",
        {"sequence_length": 192, "lengths": (64, 96), "epochs": 8},
    ),
    "mrpc": Task(
        _glue("MRPC"),
        "the folder MRPC",
        {"sequence_length": 96, "lengths": (64,), "epochs": 8},
    ),
    "csv": Task(_csv, "a CSV or TSV file with texts and labels", {}),
}


def load(name, source, settings):
    """Reads a task's texts.

    Returns:
        `(train, test, class_names)`; train and test are `(texts, labels)`,
        texts a list of strings, or a tuple of two lists for pairs.

    Raises:
        ValueError: The task needs a path that was not given, or its files
            cannot be read.
    """
    task = TASKS[name]
    if task.needs and source.data is None:
        raise ValueError(
            f"The task {name!r} needs --data: {task.needs}. Without data "
            "there are the generated tasks 'reviews' and 'pairs'."
        )
    if not task.needs and source.data is not None:
        raise ValueError(
            f"The task {name!r} is generated and takes no --data; 'csv' reads "
            f"files. Received: --data {source.data}"
        )
    train, test, names = task.load(source, settings)
    if task.needs and settings.examples:
        train = _some(train, settings.examples)
    return train, test, names


def _some(examples, count):
    """The first `count` examples in a random order, always the same one."""
    x, y = examples
    if count > len(y):
        raise ValueError(
            f"--examples must be at most {len(y)}, the number of examples to "
            f"train on. Received: {count}"
        )
    rows = np.random.default_rng(0).permutation(len(y))[:count]
    if isinstance(x, tuple):
        return tuple([side[i] for i in rows] for side in x), y[rows]
    return [x[i] for i in rows], y[rows]

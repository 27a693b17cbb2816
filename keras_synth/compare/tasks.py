"""The tasks: what each learns from which texts, and what suits it."""

import functools
from typing import NamedTuple

from keras_synth import datasets
from keras_synth.compare.objectives import (
    Classification,
    LanguageModel,
    Objective,
    Translation,
)
from keras_synth.compare.settings import option_of
from keras_synth.datasets.readers import by_source, cut
from keras_synth.datasets.splitting import split_groups

GENERATED = 6_000  # examples to train on, where the settings name no number
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


class Task(NamedTuple):
    """Something to learn.

    Attributes:
        objective: `Objective`.
        load: Function of a `Source` and `Settings`, returning what its
            objective prepares: `(train, validation, test)`, for classes also
            their names.
        needs: What `--data` must name; empty if nothing.
        defaults: Settings that differ from those of `objective.Settings`.
        paper: Scores in the paper (Tay et al., 2021), as they are shown.
        options: The options, beside `--data`, that say where texts are.
    """

    objective: Objective
    load: object
    needs: str
    defaults: dict
    paper: dict = {}
    options: tuple = ()

    def settings(self, name, **values):
        """The task's settings, where `values` say nothing else."""
        return self.objective.Settings(name, **{**self.defaults, **values})


# Where texts come from


def _published(objective, name, defaults, paper=None, **options):
    """A task of an entry of `datasets.DATASETS`."""
    entry = datasets.DATASETS[name]
    if entry.held_out.get("validation") is False:
        options["validation_fraction"] = HELD_OUT

    def load(source, settings):
        splits = datasets.load(name, source.data, **options)
        if entry.class_names:
            train, test = splits
            return *_hold_out(*train), test, datasets.CLASS_NAMES[name]
        if isinstance(splits[0], str):
            return [text.encode() for text in splits]
        return splits

    return Task(objective, load, entry.path, defaults, paper or {})


def _generated_texts(generator, source, settings):
    """Labelled examples: 1,000 each to validate and to test on."""
    train = generator(settings.examples or GENERATED, seed=0)
    test, validation = (generator(1_000, seed=seed) for seed in (1, 2))
    names = datasets.CLASS_NAMES[generator.__name__]
    return train, validation, test, names


def _generated_translations(source, settings):
    """Sources and targets: 500 each to validate and to test on."""
    count = 1_000 + (settings.examples or GENERATED)
    pairs = datasets.generated_translations(count)
    # Those to train on come last: any number leaves the others alone.
    return [
        tuple(side[rows] for side in pairs)
        for rows in (slice(1_000, None), slice(500, 1_000), slice(500))
    ]


def _csv_file(source, settings):
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


def _text_pairs(source, settings):
    """Loads any sources and targets; without test data, holds out a tenth."""
    read = functools.partial(
        datasets.load_translations, skip_empty=source.skip_empty
    )
    groups = by_source(zip(*read(source.data), strict=True))
    fractions = {"test": HELD_OUT, "validation": HELD_OUT}
    tests = []
    if source.test_data is not None:
        tests = [read(source.test_data)]
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


def _text_file(source, settings):
    """Loads any text as bytes; without test data, holds out the last tenth."""
    text = datasets.load_text(source.data)
    if source.test_data is None:
        parts = cut(text, 80, 90)
    else:
        parts = *cut(text, 90), datasets.load_text(source.test_data)
    return [part.encode() for part in parts]


def _hold_out(texts, labels):
    return datasets.train_validation_split(texts, labels, HELD_OUT)


# The catalogue

CLASSES, BLEU, ROUGE_L = Classification(), Translation(), Translation("rouge_l")
WORDS, BYTES = LanguageModel("words"), LanguageModel("bytes")

SENTENCES = dict(
    sequence_length=64,
    lengths=(16, 24, 32),
    vocabulary_size=8_000,
    num_layers=3,
    hidden_dim=256,
    intermediate_dim=512,
    dropout=0.2,
    label_smoothing=0.1,
    batch_size=128,
    epochs=10,
    learning_rate=1.5e-3,
)
SMALL = dict(SENTENCES, num_layers=2, hidden_dim=128, intermediate_dim=256)
WINDOWS = dict(sequence_length=128, batch_size=32)

TASKS = {
    "reviews": Task(
        CLASSES,
        functools.partial(_generated_texts, datasets.generated_reviews),
        "",
        dict(vocabulary_size=1_000, lengths=(48,), hidden_dim=64),
    ),
    "pairs": Task(
        CLASSES,
        functools.partial(_generated_texts, datasets.generated_pairs),
        "",
        dict(
            sequence_length=48,
            vocabulary_size=1_000,
            hidden_dim=64,
            dropout=0.0,
            epochs=20,
        ),
    ),
    "imdb": _published(
        CLASSES,
        "imdb",
        dict(
            sequence_length=256,
            lengths=(128, 192),
            vocabulary_size=20_000,
            epochs=1,
        ),
        {"V": 81.34, "FR": 83.39, "FR+V": 84.61},  # Table 7
    ),
    "ag_news": _published(
        CLASSES,
        "ag_news",
        dict(sequence_length=96, lengths=(48, 64), vocabulary_size=20_000),
        {"V": 88.83, "FR": 86.53, "FR+V": 89.13},  # Table 7
    ),
    "rt_polarity": _published(
        CLASSES, "rt_polarity", dict(lengths=(24, 40), dropout=0.3, epochs=5)
    ),
    "sst2": _published(CLASSES, "SST-2", dict(lengths=(16, 32), epochs=2)),
    "cola": _published(
        CLASSES, "CoLA", dict(sequence_length=32, lengths=(16,), epochs=5)
    ),
    "rte": _published(
        CLASSES, "RTE", dict(sequence_length=192, lengths=(64, 96), epochs=8)
    ),
    "mrpc": _published(
        CLASSES, "MRPC", dict(sequence_length=96, lengths=(64,), epochs=8)
    ),
    "csv": Task(
        CLASSES,
        _csv_file,
        "a CSV or TSV file with texts and labels",
        {},
        options=(
            "--test-data",
            "--text",
            "--label",
            "--no-header",
            "--delimiter",
            "--no-quotes",
            "--skip-empty",
        ),
    ),
    "translations": Task(
        BLEU,
        _generated_translations,
        "",
        dict(
            SMALL,
            sequence_length=24,
            lengths=(12, 16),
            vocabulary_size=1_000,
            dropout=0.1,
            batch_size=64,
        ),
    ),
    "multi30k": _published(BLEU, "multi30k", SENTENCES),
    "multi30k_fr": _published(BLEU, "multi30k", SENTENCES, target="fr"),
    "tatoeba": _published(
        BLEU,
        "tatoeba",
        dict(
            SENTENCES,
            sequence_length=48,
            lengths=(12, 16, 24),
            dropout=0.1,
            epochs=3,
        ),
    ),
    "dialogsum": _published(
        ROUGE_L,
        "dialogsum",
        dict(
            SMALL,
            sequence_length=384,
            lengths=(128, 192, 256),
            vocabulary_size=4_000,
            batch_size=16,
            learning_rate=1e-3,
        ),
    ),
    "personachat": _published(
        BLEU,
        "personachat",
        dict(
            SMALL,
            sequence_length=96,
            lengths=(64, 80),
            vocabulary_size=4_000,
            batch_size=64,
            epochs=5,
        ),
    ),
    "text_pairs": Task(
        BLEU,
        _text_pairs,
        "a file with a text, a tab and what to write for it on each line",
        SENTENCES,
        options=("--test-data", "--skip-empty"),
    ),
    "wikitext2": _published(WORDS, "wikitext2", dict(batch_size=32)),
    "tinyshakespeare": _published(BYTES, "tinyshakespeare", WINDOWS),
    "text": Task(
        BYTES,
        _text_file,
        "a text file, UTF-8",
        WINDOWS,
        options=("--test-data",),
    ),
}


def load(name, source, settings):
    """Reads a task's texts.

    Returns:
        What the task's loader returns: `(train, validation, test)`, and class
        names where there are any. Each of the three is `(texts, labels)`,
        texts a list of strings, or a tuple of two lists for pairs; or
        `(sources, targets)`, a target to test on being a string or a list of
        them; or a list of words, or bytes.

    Raises:
        ValueError: The task needs a path that was not given, or takes none, or
            its files cannot be read.
    """
    task = TASKS[name]
    _check_source(name, task, source)
    train, *others = task.load(source, settings)
    if task.needs and settings.examples:
        train = task.objective.sample(train, settings)
    return train, *others


def _check_source(name, task, source):
    if task.needs and source.data is None:
        generated = [repr(x) for x in TASKS if not TASKS[x].needs]
        raise ValueError(
            f"The task {name!r} needs --data: {task.needs}. Without data "
            f"there are the generated tasks {', '.join(generated)}."
        )
    if not task.needs and source.data is not None:
        raise ValueError(
            f"The task {name!r} is generated and takes no --data; 'csv', "
            "'text_pairs' and 'text' read files. Received: --data "
            f"{source.data}"
        )
    switches = {"header": "--no-header", "quoted": "--no-quotes"}
    for field, value in source._asdict().items():
        option = switches.get(field, option_of(field))
        if value == Source._field_defaults[field] or option in (
            "--data",
            *task.options,
        ):
            continue
        takers = [repr(x) for x in TASKS if option in TASKS[x].options]
        raise ValueError(
            f"The task {name!r} takes no {option}. Leave it out, or choose "
            f"one that does: {', '.join(takers)}. Received: {option}"
            + ("" if isinstance(value, bool) else f" {value}")
        )


def settings_from_json(values):
    """The settings that `to_json` made, of the task's objective."""
    return TASKS[values["task"]].objective.Settings.from_json(values)

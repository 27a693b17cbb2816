"""The tasks: what each learns from which texts, and what suits it."""

import functools
import tomllib
from importlib import resources
from typing import NamedTuple

from keras_synth import datasets
from keras_synth._system.command_line import option_of
from keras_synth.compare.objectives import OBJECTIVES, Objective
from keras_synth.compare.settings import options_of
from keras_synth.datasets.readers import by_source, cut, labelled, tagged
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
            their names, for scores `()`.
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

hold_out = functools.partial(
    datasets.train_validation_split, validation_fraction=HELD_OUT
)


def published(name, options, source, settings):
    """The splits of an entry of `datasets.DATASETS`.

    Of labelled texts a tenth is held out to validate on, unless such a split
    is published, and names of classes come last, none for scores.
    """
    splits = datasets.load(name, source.data, **options)
    if datasets.DATASETS[name].read in (labelled, tagged):
        train, *others = splits
        train = hold_out(*train) if len(others) == 1 else (train,)
        return *train, *others, datasets.CLASS_NAMES.get(name, ())
    if isinstance(splits[0], str):
        return [text.encode() for text in splits]
    return splits


def generated_texts(generator, source, settings):
    """Labelled examples: 1,000 each to validate and to test on."""
    train = generator(settings.examples or GENERATED, seed=0)
    test, validation = (generator(1_000, seed=seed) for seed in (1, 2))
    names = datasets.CLASS_NAMES[generator.__name__]
    return train, validation, test, names


def generated_listops(source, settings):
    """Expressions that fit, all distinct: 2,000 each to validate and test on.

    As many as Long Range Arena has, which trains on 96,000.
    """
    held_out, special = 2_000, 2  # tokens at both ends
    found = datasets.generated_listops(
        2 * held_out + (settings.examples or GENERATED),
        max_length=settings.sequence_length - special,
    )
    # Those to train on come last: any number leaves the others alone.
    test, validation, train = (
        tuple(side[rows] for side in found)
        for rows in (
            slice(held_out),
            slice(held_out, 2 * held_out),
            slice(2 * held_out, None),
        )
    )
    return train, validation, test, datasets.CLASS_NAMES["generated_listops"]


def generated_translations(source, settings):
    """Sources and targets: 500 each to validate and to test on."""
    count = 1_000 + (settings.examples or GENERATED)
    pairs = datasets.generated_translations(count)
    # Those to train on come last: any number leaves the others alone.
    return [
        tuple(side[rows] for side in pairs)
        for rows in (slice(1_000, None), slice(500, 1_000), slice(500))
    ]


def generated_sentences(source, settings):
    """A text: the sources of as many translations, a line each."""
    splits = generated_translations(source, settings)
    return ["\n".join(sources).encode() for sources, _ in splits]


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
    return *hold_out(*train), test, names


def text_pairs(source, settings):
    """Loads any sources and targets; without test data, holds out a tenth."""
    read = functools.partial(
        datasets.load_translations, skip_empty=source.skip_empty
    )
    groups = by_source(zip(*read(source.data), strict=True))
    tests = [] if source.test_data is None else [read(source.test_data)]
    names = ("validation",) if tests else ("test", "validation")
    fractions = dict.fromkeys(names, HELD_OUT)
    if len(groups) <= len(fractions):
        raise ValueError(
            f"{source.data}: expected more distinct sources, since some of "
            f"them are held out for {' and '.join(fractions)}. Add lines"
            f"{'' if tests else ', or pass --test-data'}. Received: "
            f"{len(groups)}"
        )
    train, *others = split_groups(groups, fractions, 0, "distinct sources")
    return train, others[-1], *(tests or others[:1])


def text_file(source, settings):
    """Loads any text as bytes; without test data, holds out the last tenth."""
    text = datasets.load_text(source.data)
    if source.test_data is None:
        parts = cut(text, 80, 90)
    else:
        parts = *cut(text, 90), datasets.load_text(source.test_data)
    return [part.encode() for part in parts]


def texts(source, settings):
    """Loads a text or those in a folder; holds out the end of each.

    Of a text the last two hundredths: one to validate on, one to test on.
    """
    found = [cut(text, 98, 99) for text in datasets.load_texts(source.data)]
    return [*zip(*found, strict=True)]


# The tasks

LOADERS = {
    function.__name__: function
    for function in (
        generated_listops,
        generated_translations,
        generated_sentences,
        csv_file,
        text_pairs,
        text_file,
        texts,
    )
}
for _generator in (
    datasets.generated_reviews,
    datasets.generated_pairs,
    datasets.generated_entities,
):
    LOADERS[_generator.__name__] = functools.partial(
        generated_texts, _generator
    )


def _task(objective, texts, like="", needs=None, paper=None, options=(), **own):
    """The task of a table of tasks.toml."""
    objective = OBJECTIVES[objective]
    names = {field.name for field in options_of(objective.Settings)}
    defaults = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in {**_TABLES.get(like, {}), **own}.items()
        if name in names
    }
    if needs is not None:
        read = LOADERS[texts]
    else:
        entry = datasets.DATASETS[texts]
        needs = entry.path
        more = {name: x for name, x in own.items() if name not in names}
        if entry.held_out.get("validation") is False:
            more["validation_fraction"] = HELD_OUT
        read = functools.partial(published, texts, more)
    return Task(objective, read, needs, defaults, paper or {}, tuple(options))


_TABLES = tomllib.loads(
    (resources.files(__package__) / "tasks.toml").read_text("utf-8")
)
TASKS = {name: _task(**table) for name, table in _TABLES.items()}


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
    check_source(name, source)
    train, *others = task.load(source, settings)
    if task.needs and settings.examples:
        train = task.objective.sample(train, settings)
    return train, *others


def check_source(name, source):
    """Raises if a task needs a path that was not given, or takes none."""
    task = TASKS[name]
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
    for field, value in source._asdict().items():
        option = option_of(field)
        is_default = value == Source._field_defaults[field]
        if is_default or option in ("--data", *task.options):
            continue
        takers = [repr(x) for x in TASKS if option in TASKS[x].options]
        raise ValueError(
            f"The task {name!r} takes no {option}. Leave it out, or choose "
            f"one that does: {', '.join(takers)}. Received: {option}"
            + ("" if isinstance(value, bool) else f" {value}")
        )

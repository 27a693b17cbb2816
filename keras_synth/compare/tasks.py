"""The catalogue of tasks: what each reads, and what suits it."""

from typing import NamedTuple

from keras_synth import datasets
from keras_synth.compare import kinds, loaders
from keras_synth.compare.loaders import Source

__all__ = ["TASKS", "Source", "Task", "load"]


class Task(NamedTuple):
    """Something to learn.

    Attributes:
        kind: `Kind`.
        load: Function of a `Source` and `Settings`, returning what its kind
            prepares: `(train, validation, test)`, for classes also their
            names.
        needs: What `--data` must name; empty if nothing.
        defaults: Settings that differ from those of `Settings`.
        paper: Scores in the paper (Tay et al., 2021), as they are shown.
        options: The options, beside `--data`, that say where texts are.
    """

    kind: kinds.Kind
    load: object
    needs: str
    defaults: dict
    paper: dict = {}
    options: tuple = ()


CLASSIFICATION = {
    "reviews": Task(
        kinds.Classification(),
        loaders.generated(datasets.generated_reviews),
        "",
        {"vocabulary_size": 1_000, "lengths": (48,), "hidden_dim": 64},
    ),
    "pairs": Task(
        kinds.Classification(),
        loaders.generated(datasets.generated_pairs),
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
        kinds.Classification(),
        loaders.labelled("imdb", datasets.load_imdb),
        "the folder aclImdb or its .tar.gz archive",
        {
            "sequence_length": 256,
            "lengths": (128, 192),
            "vocabulary_size": 20_000,
            "epochs": 1,
        },
        {"V": 81.34, "FR": 83.39, "FR+V": 84.61},  # Table 7
    ),
    "ag_news": Task(
        kinds.Classification(),
        loaders.labelled("ag_news", datasets.load_ag_news),
        "a folder with train.csv and test.csv",
        {"sequence_length": 96, "lengths": (48, 64), "vocabulary_size": 20_000},
        {"V": 88.83, "FR": 86.53, "FR+V": 89.13},  # Table 7
    ),
    "rt_polarity": Task(
        kinds.Classification(),
        loaders.labelled("rt_polarity", datasets.load_rt_polarity),
        "the folder with rt-polarity.pos and rt-polarity.neg",
        {"lengths": (24, 40), "dropout": 0.3, "epochs": 5},
    ),
    "sst2": Task(
        kinds.Classification(),
        loaders.labelled("SST-2", datasets.load_glue, "SST-2"),
        "the folder SST-2",
        {"lengths": (16, 32), "epochs": 2},
    ),
    "cola": Task(
        kinds.Classification(),
        loaders.labelled("CoLA", datasets.load_glue, "CoLA"),
        "the folder CoLA",
        {"sequence_length": 32, "lengths": (16,), "epochs": 5},
    ),
    "rte": Task(
        kinds.Classification(),
        loaders.labelled("RTE", datasets.load_glue, "RTE"),
        "the folder RTE",
        {"sequence_length": 192, "lengths": (64, 96), "epochs": 8},
    ),
    "mrpc": Task(
        kinds.Classification(),
        loaders.labelled("MRPC", datasets.load_glue, "MRPC"),
        "the folder MRPC",
        {"sequence_length": 96, "lengths": (64,), "epochs": 8},
    ),
    "csv": Task(
        kinds.Classification(),
        loaders.csv_file,
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
}

SENTENCES = {
    "sequence_length": 64,
    "lengths": (16, 24, 32),
    "vocabulary_size": 8_000,
    "num_layers": 3,
    "hidden_dim": 256,
    "intermediate_dim": 512,
    "dropout": 0.2,
    "label_smoothing": 0.1,
    "batch_size": 128,
    "epochs": 10,
    "learning_rate": 1.5e-3,
}
SMALL = {"num_layers": 2, "hidden_dim": 128, "intermediate_dim": 256}

TRANSLATION = {
    "translations": Task(
        kinds.Translation(),
        loaders.generated_pairs_of_texts(datasets.generated_translations),
        "",
        {
            **SENTENCES,
            **SMALL,
            "sequence_length": 24,
            "lengths": (12, 16),
            "vocabulary_size": 1_000,
            "dropout": 0.1,
            "batch_size": 64,
        },
    ),
    "multi30k": Task(
        kinds.Translation(),
        loaders.published(datasets.load_multi30k, "en", "de"),
        "the folder with train.en, train.de and so on",
        SENTENCES,
    ),
    "multi30k_fr": Task(
        kinds.Translation(),
        loaders.published(datasets.load_multi30k, "en", "fr"),
        "the folder with train.en, train.fr and so on",
        SENTENCES,
    ),
    "tatoeba": Task(
        kinds.Translation(),
        loaders.published(datasets.load_tatoeba),
        "the file deu.txt, that of another language, or the folder",
        {
            **SENTENCES,
            "sequence_length": 48,
            "lengths": (12, 16, 24),
            "dropout": 0.1,
            "epochs": 3,
        },
    ),
    "dialogsum": Task(
        kinds.Translation(kinds.ROUGE_L),
        loaders.published(
            datasets.load_dialogsum, validation_fraction=loaders.HELD_OUT
        ),
        "the folder DialogSum_Data",
        {
            **SENTENCES,
            **SMALL,
            "sequence_length": 384,
            "lengths": (128, 192, 256),
            "vocabulary_size": 4_000,
            "batch_size": 16,
            "learning_rate": 1e-3,
        },
    ),
    "personachat": Task(
        kinds.Translation(),
        loaders.published(
            datasets.load_personachat, validation_fraction=loaders.HELD_OUT
        ),
        "the file valid_self_original_no_cands.txt or its folder",
        {
            **SENTENCES,
            **SMALL,
            "sequence_length": 96,
            "lengths": (64, 80),
            "vocabulary_size": 4_000,
            "batch_size": 64,
            "epochs": 5,
        },
    ),
    "text_pairs": Task(
        kinds.Translation(),
        loaders.text_pairs,
        "a file with a text, a tab and what to write for it on each line",
        SENTENCES,
        options=("--test-data", "--skip-empty"),
    ),
}

BYTES = {"sequence_length": 128, "batch_size": 32}

LANGUAGE_MODEL = {
    "wikitext2": Task(
        kinds.LanguageModel(kinds.WORDS),
        loaders.published(datasets.load_wikitext2),
        "the folder with wiki.train.tokens and so on",
        {"batch_size": 32},
    ),
    "tinyshakespeare": Task(
        kinds.LanguageModel(kinds.BYTES),
        loaders.tinyshakespeare,
        "the file input.txt or its folder",
        BYTES,
    ),
    "text": Task(
        kinds.LanguageModel(kinds.BYTES),
        loaders.text_file,
        "a text file, UTF-8",
        BYTES,
        options=("--test-data",),
    ),
}

TASKS = {**CLASSIFICATION, **TRANSLATION, **LANGUAGE_MODEL}


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
        train = task.kind.some(train, settings)
    return train, *others


def _check_source(name, task, source):
    generated = [repr(x) for x in TASKS if not TASKS[x].needs]
    if task.needs and source.data is None:
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
    given = {
        "--test-data": source.test_data,
        "--text": source.text,
        "--label": source.label,
        "--no-header": not source.header,
        "--delimiter": source.delimiter,
        "--no-quotes": source.quoted is False,
        "--skip-empty": source.skip_empty,
    }
    for option, value in given.items():
        if value not in (None, False) and option not in task.options:
            takers = [repr(x) for x in TASKS if option in TASKS[x].options]
            raise ValueError(
                f"The task {name!r} takes no {option}. Leave it out, or choose "
                f"one that does: {', '.join(takers)}. Received: {option}"
                + (f" {value}" if value is not True else "")
            )

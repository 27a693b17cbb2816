"""The published data sets, one entry each, and `load`, which reads any."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from keras_synth.datasets import ag_news, dialogues, imdb, readers

_NEGATIVE_POSITIVE = ("negative", "positive")
_ENTAILMENT = ("entailment", "not_entailment")
_GLUE = "https://dl.fbaipublicfiles.com/glue/data/"
_AG_NEWS = (
    "https://raw.githubusercontent.com/mhjabreel/CharCnn_Keras/master/data/"
    "ag_news_csv/"
)


class Dataset(NamedTuple):
    """A published data set.

    Attributes:
        name: What it is called.
        read: The reader: `readers.labelled`, `readers.pairs` or
            `readers.plain`.
        format: What its files are like, a function of this entry and a path:
            one of those in `readers`, or the data set's own.
        path: What its path must name, in words.
        files: Dictionary, split -> pattern of its file's name, plain or `.gz`.
        folder: The folder it is published in; the one around will do, too.
        columns: What the format finds its texts and labels by.
        class_names: What label 0 means, label 1, and so on.
        clean: Function of texts that returns them without traces of their
            source, or `None`.
        held_out: Dictionary, split that is not published -> the share of the
            training set it takes unless told otherwise, or `None` for none.
        groups: What stays together on one side of a split, in words.
        loader: The function that reads this one alone, if not `load_<name>`.
        urls: Dictionary, URL of a file -> its published sha256.
        not_offered: Why there are no URLs.
    """

    name: str
    read: Callable
    format: Callable
    path: str
    files: dict
    folder: str = ""
    columns: object = None
    class_names: tuple = ()
    clean: Callable | None = None
    held_out: dict = {}
    groups: str = ""
    loader: str = ""
    urls: dict = {}
    not_offered: str = ""


def _glue(name, class_names, sha256=None, classes=("0", "1"), **columns):
    """A task of GLUE; `classes` are the labels as its files write them."""
    return Dataset(
        name,
        readers.labelled,
        readers.tables,
        f"the folder {name}",
        {"train": "train.tsv", "test": "dev.tsv"},
        name,
        {**columns, "class_names": classes},
        class_names,
        loader="load_glue",
        urls={f"{_GLUE}{name}.zip": sha256} if sha256 else {},
        not_offered="is no archive but put together from several files",
    )


_ENTRIES = (
    Dataset(
        "imdb",
        readers.labelled,
        imdb.reviews,
        "the folder aclImdb or its .tar.gz archive",
        {"train": "train/{label}", "test": "test/{label}"},
        "aclImdb",
        columns=("neg", "pos"),
        class_names=_NEGATIVE_POSITIVE,
        clean=imdb.without_line_break_tags,
        # As in the repository tensorflow/datasets, file
        # tensorflow_datasets/datasets/imdb_reviews/checksums.tsv.
        urls={
            "http://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz": (
                "c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe"
            )
        },
    ),
    # Checksums as in the repository tensorflow/datasets, file
    # tensorflow_datasets/url_checksums/glue.txt, for the same archives at
    # their former address, and in huggingface/datasets, file
    # datasets/glue/dataset_infos.json, for this one.
    _glue(
        "CoLA",
        ("unacceptable", "acceptable"),
        "f212fcd832b8f7b435fb991f101abf89f96b933ab400603bf198960dfc32cbff",
        text=3,
        label=1,
        header=False,
    ),
    _glue(
        "SST-2",
        _NEGATIVE_POSITIVE,
        "d67e16fb55739c1b32cdce9877596db1c127dc322d93c082281f64057c16deaa",
        text="sentence",
    ),
    _glue(
        "RTE",
        _ENTAILMENT,
        "6bf86de103ecd335f3441bd43574d23fef87ecc695977a63b82d5efb206556ee",
        _ENTAILMENT,
        text=("sentence1", "sentence2"),
    ),
    _glue(
        "MRPC",
        ("not_equivalent", "equivalent"),
        text=("#1 String", "#2 String"),
        label="Quality",
    ),
    Dataset(
        "ag_news",
        readers.labelled,
        ag_news.official_or_samples,
        "a folder with train.csv and test.csv",
        {"test": "test.csv", "train": "train.csv"},
        "ag_news_csv",
        columns=ag_news.COLUMNS,
        class_names=ag_news.CLASS_NAMES,
        clean=ag_news.mended,
        # As in huggingface/datasets, file datasets/ag_news/dataset_infos.json.
        urls={
            f"{_AG_NEWS}train.csv": (
                "76a0a2d2f92b286371fe4d4044640910a04a803fdd2538e0f3f29a5c6f6b672e"
            ),
            f"{_AG_NEWS}test.csv": (
                "521465c2428ed7f02f8d6db6ffdd4b5447c1c701962353eb2c40d548c3c85699"
            ),
        },
    ),
    Dataset(
        "rt_polarity",
        readers.labelled,
        readers.file_per_class,
        "the folder with rt-polarity.pos and rt-polarity.neg",
        {"train": "rt-polarity.{label}"},
        columns=("neg", "pos"),
        class_names=_NEGATIVE_POSITIVE,
        held_out={"test": 0.1},
        not_offered="is published by its authors without a checksum",
    ),
    Dataset(
        "multi30k",
        readers.pairs,
        readers.file_per_language,
        "the folder with train.en, train.de and so on",
        {
            "train": "train.{language}",
            "validation": "val.{language}",
            "test": "test_2016_flickr.{language}",
        },
    ),
    Dataset(
        "tatoeba",
        readers.pairs,
        readers.distinct_columns,
        "the file deu.txt, that of another language, or the folder",
        {"train": "deu.txt"},
        held_out={"validation": 0.02, "test": 0.02},
        groups="distinct sentences",
    ),
    Dataset(
        "dialogsum",
        readers.pairs,
        readers.json_lines,
        "the folder DialogSum_Data",
        {
            "train": "dialogsum.train.jsonl",
            "validation": "dialogsum.dev.jsonl",
            "test": "dialogsum.test.jsonl",
        },
        "DialogSum_Data",
        columns={
            "train": ("dialogue", "summary"),
            "test": ("dialogue", "summary1", "summary2", "summary3"),
        },
        held_out={"validation": None},
        groups="dialogues",
    ),
    Dataset(
        "personachat",
        readers.pairs,
        dialogues.contexts_and_replies,
        "the file valid_self_original_no_cands.txt or its folder",
        {"train": "valid_self_original_no_cands.txt"},
        held_out={"test": 0.1, "validation": None},
        groups="dialogues",
    ),
    Dataset(
        "wikitext2",
        readers.plain,
        readers.words,
        "the folder with wiki.train.tokens and so on",
        {
            "train": "wiki.train.tokens",
            "validation": "wiki.valid.tokens",
            "test": "wiki.test.tokens",
        },
        "wikitext-2",
    ),
    Dataset(
        "tinyshakespeare",
        readers.plain,
        readers.one_text,
        "the file input.txt or its folder",
        {"train": "input.txt"},
        columns=(90, 95),
    ),
)
DATASETS = {entry.name: entry for entry in _ENTRIES}

CLASS_NAMES = {
    name: entry.class_names
    for name, entry in DATASETS.items()
    if entry.class_names
} | {
    "generated_reviews": _NEGATIVE_POSITIVE,
    "generated_pairs": ("different", "same"),
}


def load(name, path, **options):
    """Reads a published data set.

    Args:
        name: String, a key of `DATASETS`, in any case, with or without hyphens
            and underscores.
        path: String or path-like: what the entry says, plain or `.gz`.
        **options: Those of the function that reads this one alone.

    Returns:
        Tuple of the splits: training, validation where there is one, test.
        Of labelled texts a split is `(texts, labels)`, a list of strings, or a
        tuple of two for pairs, and an int32 array `(N,)`; of pairs two lists
        of strings, or of lists of references; of plain text a string, or a
        list of words.

    Raises:
        ValueError: The name is unknown, a file is damaged or not as published,
            or an option is out of range.

    Example:

    ```python
    (texts, labels), (test_texts, test_labels) = load("SST-2", "glue_data")
    ```
    """
    entry = find(name)
    if entry is None:
        raise ValueError(
            f"name must be one of {', '.join(DATASETS)}. Received: {name!r}. "
            "Other data can be read with load_csv, load_translations and "
            "load_text."
        )
    return entry.read(entry, Path(path), **options)


def find(wanted, among=None):
    """Returns the entry of a name, however it is spelled, or `None`."""
    for name in DATASETS if among is None else among:
        if _plain(name) == _plain(wanted):
            return DATASETS[name]
    return None


def _plain(name):
    return str(name).lower().replace("-", "").replace("_", "")


def download(name, folder=None):
    """Downloads a published data set, once, and checks that it is complete.

    Only sets with a published checksum, sha256, are offered: those of IMDB,
    CoLA, SST-2 and RTE are the ones of TensorFlow Datasets, that of AG News,
    all 120,000 examples of it, is Hugging Face's.

    Args:
        name: String, "imdb", "CoLA", "SST-2", "RTE" or "ag_news", in any case.
        folder: String or path-like, where to keep the file; `None` is the
            folder `datasets` in Keras' own, usually `~/.keras/datasets`.

    Returns:
        The path to give to `load_imdb`, `load_glue` or `load_ag_news`, a
        string.

    Raises:
        ValueError: The set is not offered, or the file is not as published.
        OSError: The download failed.

    Example:

    ```python
    train, test = load_imdb(download("imdb"))
    train, dev = load_glue(download("RTE"), "RTE")
    ```
    """
    entry = find(name)
    if entry is None or not (entry.urls or entry.not_offered):
        offered = [name for name, entry in DATASETS.items() if entry.urls]
        raise ValueError(
            f"name must be one of {', '.join(offered)}. Received: {name!r}. "
            "Other data can be read with load_csv."
        )
    loader = entry.loader or f"load_{entry.name}"
    if not entry.urls:
        raise ValueError(
            f"{name} cannot be downloaded from here: it {entry.not_offered}. "
            f"Download it yourself and pass its path to {loader}."
        )
    folder = "datasets" if folder is None else str(Path(folder).absolute())
    if len(entry.urls) == 1:
        ((url, sha256),) = entry.urls.items()
        return _get(url, sha256, folder, loader)
    folder = f"{folder}/{entry.name}"
    paths = [_get(*file, folder, loader) for file in entry.urls.items()]
    return str(Path(paths[0]).parent)


def _get(url, sha256, folder, loader):
    """Downloads one file, or finds that it is there; extracts a `.zip`."""
    import keras  # readers of files do without

    here = f"Download it yourself and pass its path to {loader}."
    try:
        return keras.utils.get_file(
            fname=url.rsplit("/", 1)[-1],
            origin=url,
            cache_subdir=folder,
            file_hash=sha256,
            hash_algorithm="sha256",
            extract=url.endswith(".zip"),
        )
    except ValueError as error:
        raise ValueError(
            f"The file from {url} is not the published one: expected sha256 "
            f"{sha256}. Try again, or: {here}"
        ) from error
    except Exception as error:  # get_file raises nothing more precise
        reason = " ".join(str(error).split())
        raise OSError(
            f"{url} cannot be downloaded: {reason}. {here}"
        ) from error

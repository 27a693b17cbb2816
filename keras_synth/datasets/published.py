"""The published data sets of `published.toml`, and `load`, which reads any."""

import importlib
import tomllib
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple, Self

from keras_synth.datasets.generated_entities import LABELS as ENTITY_LABELS
from keras_synth.datasets.listops import DIGITS
from keras_synth.types import FilePath


class Dataset(NamedTuple):
    """A published data set.

    Attributes:
        name: What it is called.
        read: The reader: `readers.labelled`, `readers.tagged`,
            `readers.pairs` or `readers.plain`.
        format: What its files are like, a function of this entry and a path:
            one of those in `readers`, or the data set's own.
        path: What its path must name, in words.
        files: Dictionary, split -> pattern of its file's name, plain or `.gz`.
        folder: The folder it is published in; the one around will do, too.
        columns: What the format finds its texts and labels by.
        class_names: What label 0 means, label 1, and so on; the labels of
            words themselves; none where labels are scores.
        dtype: Of the labels: "int32" of classes, "float32" of scores.
        clean: Function of texts that returns them without traces of their
            source, or `None`.
        held_out: Dictionary, split that is not published -> the share of the
            training set it takes by default, or `False` for none.
        groups: What stays together on one side of a split, in words.
        loader: The function that reads this one alone, if not `load_<name>`.
        urls: Dictionary, URL of a file -> its published sha256.
        not_offered: Why there are no URLs.

    Example:

    >>> imdb = keras_synth.datasets.DATASETS["imdb"]
    >>> imdb.path
    'the folder aclImdb or its .tar.gz archive'
    >>> imdb.class_names
    ['negative', 'positive']
    """

    name: str
    read: Callable
    format: Callable
    path: str
    files: dict
    folder: str = ""
    columns: object = None
    class_names: Sequence[str] = ()
    dtype: str = "int32"
    clean: Callable | None = None
    held_out: dict = {}
    groups: str = ""
    loader: str = ""
    urls: dict = {}
    not_offered: str = ""

    @classmethod
    def from_row(cls, name: str, row: dict[str, Any]) -> Self:
        """The entry of a table of `published.toml`."""
        functions = {
            key: _function(row[key])
            for key in ("read", "format", "clean")
            if key in row
        }
        return cls(name, **(row | functions))


def _function(name):
    """The function that "readers.labelled" names."""
    module, _, function = name.partition(".")
    module = importlib.import_module(f"keras_synth.datasets.{module}")
    return getattr(module, function)


DATASETS = {
    name: Dataset.from_row(name, row)
    for name, row in tomllib.loads(
        (resources.files(__package__) / "published.toml").read_text("utf-8")
    ).items()
}
CLASS_NAMES = {
    name: tuple(entry.class_names)
    for name, entry in DATASETS.items()
    if entry.class_names
} | {
    "generated_reviews": ("negative", "positive"),
    "generated_pairs": ("different", "same"),
    "generated_entities": ENTITY_LABELS,
    "generated_listops": DIGITS,
}


def load(name: str, path: FilePath, **options: Any) -> tuple[Any, ...]:
    """Reads a published data set.

    Args:
        name: String, a key of `DATASETS`, in any case, with or without hyphens
            and underscores.
        path: String or path-like: what the entry says, plain or `.gz`.
        **options: Those of the function that reads this one alone.

    Returns:
        Tuple of the splits: training, validation where there is one, test.
        Of labelled texts a split is `(texts, labels)`, a list of strings, or a
        tuple of two for pairs, and an array `(N,)`, int32 of classes or
        float32 of scores; of labelled words two lists of lists of strings,
        words and labels; of pairs two lists of strings, or of lists of
        references; of plain text a string, or a list of words.

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


def download(name: str, folder: FilePath | None = None) -> str:
    """Downloads a published data set, once, and checks that it is complete.

    Only sets with a published checksum, sha256, are offered: those of IMDB,
    CoLA, SST-2, RTE, STS-B and WNLI are the ones of TensorFlow Datasets, that
    of AG News, all 120,000 examples of it, is Hugging Face's.

    Args:
        name: String, "imdb", "CoLA", "SST-2", "RTE", "STS-B", "WNLI" or
            "ag_news", in any case.
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
    here = f"Download it yourself and pass its path to {loader}."
    if not entry.urls:
        raise ValueError(
            f"{name} cannot be downloaded from here: it {entry.not_offered}. "
            f"{here}"
        )
    folder = "datasets" if folder is None else str(Path(folder).absolute())
    if len(entry.urls) > 1:
        folder = f"{folder}/{entry.name}"
    paths = [
        _get(url, sha256, folder, here) for url, sha256 in entry.urls.items()
    ]
    return paths[0] if len(paths) == 1 else str(Path(paths[0]).parent)


def _get(url, sha256, folder, here):
    """Downloads one file, or finds that it is there; extracts a `.zip`."""
    import keras  # readers of files do without

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

"""Downloads of the data sets whose checksums are published."""

from pathlib import Path
from typing import NamedTuple


class _Archive(NamedTuple):
    url: str
    sha256: str
    loader: str
    extract: bool = False
    more: tuple = ()  # further files that belong in one folder with it


_GLUE = "https://dl.fbaipublicfiles.com/glue/data/"
_AG_NEWS = (
    "https://raw.githubusercontent.com/mhjabreel/CharCnn_Keras/master/data/"
    "ag_news_csv/"
)
_ARCHIVES = {
    # As in the repository tensorflow/datasets, file
    # tensorflow_datasets/datasets/imdb_reviews/checksums.tsv.
    "imdb": _Archive(
        "http://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
        "c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe",
        "load_imdb",
    ),
    # As in the repository tensorflow/datasets, file
    # tensorflow_datasets/url_checksums/glue.txt, for the same archives at
    # their former address, and in huggingface/datasets, file
    # datasets/glue/dataset_infos.json, for this one.
    "CoLA": _Archive(
        _GLUE + "CoLA.zip",
        "f212fcd832b8f7b435fb991f101abf89f96b933ab400603bf198960dfc32cbff",
        "load_glue",
        extract=True,
    ),
    "SST-2": _Archive(
        _GLUE + "SST-2.zip",
        "d67e16fb55739c1b32cdce9877596db1c127dc322d93c082281f64057c16deaa",
        "load_glue",
        extract=True,
    ),
    "RTE": _Archive(
        _GLUE + "RTE.zip",
        "6bf86de103ecd335f3441bd43574d23fef87ecc695977a63b82d5efb206556ee",
        "load_glue",
        extract=True,
    ),
    # As in huggingface/datasets, file datasets/ag_news/dataset_infos.json.
    "ag_news": _Archive(
        _AG_NEWS + "train.csv",
        "76a0a2d2f92b286371fe4d4044640910a04a803fdd2538e0f3f29a5c6f6b672e",
        "load_ag_news",
        more=(
            _Archive(
                _AG_NEWS + "test.csv",
                "521465c2428ed7f02f8d6db6ffdd4b5447c1c701962353eb2c40d548c3c85"
                "699",
                "load_ag_news",
            ),
        ),
    ),
}
# name -> why not, loader
_NOT_HERE = {
    "MRPC": (
        "is no archive but put together from several files",
        "load_glue",
    ),
    "rt_polarity": (
        "is published by its authors without a checksum",
        "load_rt_polarity",
    ),
}


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
    archive = _find_archive(name)
    folder = "datasets" if folder is None else str(Path(folder).absolute())
    if not archive.more:
        return _get(archive, folder)
    folder = f"{folder}/{archive.loader.removeprefix('load_')}"
    paths = [_get(file, folder) for file in (archive, *archive.more)]
    return str(Path(paths[0]).parent)


def _get(archive, folder):
    """Downloads one file, or finds that it is there."""
    import keras  # readers of files do without

    url = archive.url
    here = f"Download it yourself and pass its path to {archive.loader}."
    try:
        return keras.utils.get_file(
            fname=url.rsplit("/", 1)[-1],
            origin=url,
            cache_subdir=folder,
            file_hash=archive.sha256,
            hash_algorithm="sha256",
            extract=archive.extract,
        )
    except ValueError as error:
        raise ValueError(
            f"The file from {url} is not the published one: expected sha256 "
            f"{archive.sha256}. Try again, or: {here}"
        ) from error
    except Exception as error:  # get_file raises nothing more precise
        reason = " ".join(str(error).split())
        raise OSError(
            f"{url} cannot be downloaded: {reason}. {here}"
        ) from error


def _find_archive(wanted):
    for name, archive in _ARCHIVES.items():
        if _plain(name) == _plain(wanted):
            return archive
    for name, (why_not, loader) in _NOT_HERE.items():
        if _plain(name) == _plain(wanted):
            raise ValueError(
                f"{name} cannot be downloaded from here: it {why_not}. "
                f"Download it yourself and pass its path to {loader}."
            )
    raise ValueError(
        f"name must be one of {', '.join(_ARCHIVES)}. Received: {wanted!r}. "
        "Other data can be read with load_csv."
    )


def _plain(name):
    return str(name).lower().replace("-", "").replace("_", "")

"""AG's News Topic Classification Dataset."""

import bisect
import html
import re
from pathlib import Path

import numpy as np

from keras_synth.datasets.class_names import CLASS_NAMES
from keras_synth.datasets.csv_files import load_csv
from keras_synth.datasets.files import find_files

_FROM_0, _FROM_1 = ("0", "1", "2", "3"), ("1", "2", "3", "4")
_OFFICIAL = {
    "text": (1, 2),
    "label": 0,
    "header": False,
    "class_names": _FROM_1,
}
# Published samples of the training file, those with titles first: their copy
# of a text is the one to keep.
_PARTS = {
    # Not the column "label", which holds errors made on purpose.
    "train_part_noisyag_*": {
        "text": "text",
        "label": "gt",
        "class_names": _FROM_0,
    },
    "train_part_[0-9]*": {
        "text": 0,
        "label": 1,
        "header": False,
        "class_names": _FROM_0,
    },
    "train_part_alps_*": {  # a TSV file with quoted fields
        "text": 0,
        "label": 1,
        "header": False,
        "quoted": True,
        "class_names": CLASS_NAMES["ag_news"],
    },
}
# "&#39;" has become " #39;".
_BROKEN_ENTITY = re.compile(r" (#[0-9]+|quot|amp|lt|gt|nbsp|hellip);")
_TAG = re.compile(r"</?[A-Za-z]+(\s[^<>]*)?/?>")  # not a ticker, <AAPL.O>
_LONE_STOPS = re.compile(r"( \.)+(?= )")


def load_ag_news(path):
    r"""Reads AG's News, titles and descriptions with one of four topics.

    A text is the title, a space and the description. In all texts the traces
    of web pages are mended: ` #39;`, ` quot;` and `&lt;` are the characters
    they stand for, tags are gone, `\$` is `$`. Any other backslash (a
    lost line break), full stops between spaces and any run of spaces are one
    space.

    Where `train.csv` is missing, the training set is put together from
    published samples of it, as far as they are there: those of NoisyAG-News
    (`train_part_noisyag_*`, with the true class, `gt`), of ALPS
    (`train_part_alps_*`, descriptions only) and one of "title description"
    and class 0 to 3 (`train_part_<number>*`). They overlap: a text is left out
    if an earlier one, or one of the test set, equals it or ends with it, all
    but letters and digits aside. Results do not compare with published ones,
    which come from all 120,000 examples.

    Args:
        path: String or path-like: the folder with `test.csv` and `train.csv`,
            or with the samples, all of them plain or `.gz`; or a folder that
            contains it as `ag_news_csv`.

    Returns:
        `(train_texts, train_labels), (test_texts, test_labels)`, always in the
        same order. Texts are lists of strings, labels int32 arrays: 0 World,
        1 Sports, 2 Business, 3 Sci/Tech.

    Raises:
        ValueError: A file is damaged, or not as published.

    Example:

    ```python
    (texts, labels), (test_texts, test_labels) = load_ag_news("ag_news_csv")
    len(texts), len(test_texts)  # 120000, 7600
    ```

    References:
        - [Zhang et al., 2015](https://arxiv.org/abs/1509.01626)
        - NoisyAG-News: [Huang et al., 2024](https://arxiv.org/abs/2407.06579)
        - ALPS: [Yuan et al., 2020](https://aclanthology.org/2020.emnlp-main.637/)
    """
    path = Path(path)
    test_file, *_ = find_files((path / "ag_news_csv", path), "test.csv")
    test = _read(test_file, _OFFICIAL)
    for name in ("train.csv", "train.csv.gz"):
        if (train_file := test_file.with_name(name)).is_file():
            train = _read(train_file, _OFFICIAL)
            break
    else:
        train = _without_copies(_read_parts(test_file.parent), test)
    return _texts_and_labels(train), _texts_and_labels(test)


def _read(file, columns):
    """Returns `(text, label)` of each row."""
    texts, labels, _ = load_csv(file, **columns)
    if isinstance(texts, tuple):
        texts = map(" ".join, zip(*texts, strict=True))
    return list(zip(map(_mend, texts), labels, strict=True))


def _read_parts(folder):
    examples = []
    for pattern, columns in _PARTS.items():
        for file in sorted(folder.glob(pattern)):
            examples += _read(file, columns)
    if not examples:
        raise FileNotFoundError(
            f"There is no train.csv or train.csv.gz in {folder}, nor any of "
            f"{', '.join(_PARTS)}. Pass the folder that holds it, as "
            "extracted from ag_news_csv.tar.gz."
        )
    return examples


def _mend(text):
    text = html.unescape(_BROKEN_ENTITY.sub(r"&\1;", text))
    text = _TAG.sub(" ", text).replace("\\$", "$").replace("\\", " ")
    return _LONE_STOPS.sub("", " ".join(text.split()))


def _without_copies(examples, test):
    """Drops each text that ends an earlier text or one of the test set."""
    known = sorted(_backwards(text) for text, _ in test)
    new = []
    for text, label in examples:
        key = _backwards(text)
        # Sorted, the strings that start with `key` begin here.
        place = bisect.bisect_left(known, key)
        if not known[place : place + 1] or not known[place].startswith(key):
            known.insert(place, key)
            new.append((text, label))
    return new


def _backwards(text):
    return "".join(filter(str.isalnum, text.lower()))[::-1]


def _texts_and_labels(examples):
    texts, labels = zip(*examples, strict=True)
    return list(texts), np.array(labels, dtype="int32")

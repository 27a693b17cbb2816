"""AG's News: samples of its training file, and traces of web pages."""

import bisect
import html
import re

from keras_synth.datasets.csv_files import load_csv
from keras_synth.datasets.files import find_files

_FROM_0 = ("0", "1", "2", "3")
# Published samples of the training file, those with titles first: their copy
# of a text is the one to keep.
_SAMPLES = {
    # Not the column "label", which holds errors made on purpose.
    "train_part_noisyag_*": dict(text="text", label="gt", class_names=_FROM_0),
    "train_part_[0-9]*": dict(
        text=0, label=1, header=False, class_names=_FROM_0
    ),
    "train_part_alps_*": dict(  # a TSV file with quoted fields
        text=0,
        label=1,
        header=False,
        quoted=True,
        class_names=("World", "Sports", "Business", "Sci/Tech"),
    ),
}
# "&#39;" has become " #39;".
_BROKEN_ENTITY = re.compile(r" (#[0-9]+|quot|amp|lt|gt|nbsp|hellip);")
_TAG = re.compile(r"</?[A-Za-z]+(\s[^<>]*)?/?>")  # not a ticker, <AAPL.O>
_LONE_STOPS = re.compile(r"( \.)+(?= )")


def official_or_samples(entry, path):
    """The published files, or samples of the training file without copies."""
    test_file, *_ = find_files(path, entry.files["test"], entry.folder)
    test = load_csv(test_file, **entry.columns)[:2]
    name = entry.files["train"]
    for file in (test_file.with_name(name), test_file.with_name(f"{name}.gz")):
        if file.is_file():
            return {"train": load_csv(file, **entry.columns)[:2], "test": test}
    texts, labels = [], []
    for pattern, columns in _SAMPLES.items():
        for file in sorted(test_file.parent.glob(pattern)):
            more, numbers, _ = load_csv(file, **columns)
            texts += more
            labels += numbers.tolist()
    if not texts:
        raise FileNotFoundError(
            f"There is no {name} or {name}.gz in {test_file.parent}, nor any "
            f"of {', '.join(_SAMPLES)}. Pass the folder that holds it, as "
            "extracted from ag_news_csv.tar.gz."
        )
    new = _rows_that_are_new(mended(texts), mended(test[0]))
    train = [texts[i] for i in new], [labels[i] for i in new]
    return {"train": train, "test": test}


def mended(texts):
    """Titles and descriptions joined, without traces of web pages."""
    if isinstance(texts, tuple):
        texts = map(" ".join, zip(*texts, strict=True))
    return list(map(_mend, texts))


def _mend(text):
    text = html.unescape(_BROKEN_ENTITY.sub(r"&\1;", text))
    text = _TAG.sub(" ", text).replace("\\$", "$").replace("\\", " ")
    return _LONE_STOPS.sub("", " ".join(text.split()))


def _rows_that_are_new(texts, known):
    """The rows whose text ends no earlier one and none of those known."""
    known, rows = sorted(map(_backwards, known)), []
    for row, text in enumerate(texts):
        key = _backwards(text)
        # Sorted, the strings that start with `key` begin here.
        place = bisect.bisect_left(known, key)
        if not known[place : place + 1] or not known[place].startswith(key):
            known.insert(place, key)
            rows.append(row)
    return rows


def _backwards(text):
    return "".join(filter(str.isalnum, text.lower()))[::-1]

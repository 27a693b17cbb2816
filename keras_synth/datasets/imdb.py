"""The files of the Large Movie Review Dataset: a folder per class, or a tar."""

import re
import tarfile

from keras_synth.datasets.files import decode, naming_damage

_PARTS = ("train/neg", "train/pos", "test/neg", "test/pos")
_REVIEW_NAME = re.compile(
    r"(?:\./)?(?:[^/]+/)?(train|test)/(neg|pos)/([0-9]+)_[0-9]+\.txt"
)
_LINE_BREAK_TAG = re.compile(r"<br\s*/?>", re.IGNORECASE)


def reviews(entry, path):
    """All labelled reviews, sorted by class and number."""
    read = _read_folder if path.is_dir() else _read_archive
    found = {part: [] for part in _PARTS}
    for match, content in read(entry, path):
        split, label, number = match.groups()
        review = int(number), decode(content, f"{path}, {match[0]}")
        found[f"{split}/{label}"].append(review)
    if missing := [part for part in _PARTS if not found[part]]:
        raise ValueError(
            f"{path} holds no reviews in {', '.join(missing)}. Expected files "
            f"<id>_<rating>.txt in each of {', '.join(_PARTS)}. Pass the "
            "extracted aclImdb folder, or its .tar.gz archive."
        )
    splits = {}
    for split in entry.files:
        by_class = [sorted(found[f"{split}/{x}"]) for x in entry.columns]
        texts = [text for group in by_class for _, text in group]
        labels = [i for i, group in enumerate(by_class) for _ in group]
        splits[split] = texts, labels
    return splits


def without_line_break_tags(texts):
    """Each `<br />` becomes a space."""
    return [_LINE_BREAK_TAG.sub(" ", text) for text in texts]


def _read_folder(entry, path):
    """Yields `(match of the name, bytes)` of each review."""
    inner = path / entry.folder
    root = inner if inner.is_dir() else path
    for part in _PARTS:
        for file in (root / part).glob("*.txt"):
            if match := _REVIEW_NAME.fullmatch(f"{part}/{file.name}"):
                yield match, file.read_bytes()


def _read_archive(entry, path):
    """Yields the same as `_read_folder`, from a tar archive."""
    with naming_damage(path, "a tar archive"), tarfile.open(path) as archive:
        for member in archive:
            match = _REVIEW_NAME.fullmatch(member.name)
            if match and member.isfile():
                yield match, archive.extractfile(member).read()
        # To tarfile, a cut between two members or a damaged header looks like
        # the end. The true end is followed by zeros only.
        rest = archive.fileobj.read()
        if not rest or rest.strip(b"\0"):
            raise tarfile.ReadError("the end of the archive is missing")

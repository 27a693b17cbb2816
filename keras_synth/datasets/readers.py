"""The readers of labelled texts and words, pairs and plain text; formats.

A reader makes the splits of a data set, whatever its files are like. A format
is a function of a `Dataset` and a path, and of options of its own, that
returns what the files hold, a dictionary by split.
"""

import itertools
import json
import sys

import numpy as np

from keras_synth.datasets.csv_files import load_csv
from keras_synth.datasets.files import (
    find_files,
    lists,
    read_bytes,
    read_lines,
    read_text,
)
from keras_synth.datasets.splitting import (
    check_fraction,
    split_groups,
    train_validation_split,
)
from keras_synth.datasets.text_files import load_translations

SPLITS = ("train", "validation", "test")
CONLLU_FIELDS = 10  # ID FORM LEMMA UPOS XPOS FEATS HEAD DEPREL DEPS MISC


def labelled(entry, path, seed=0, **options):
    """Returns `(texts, labels)` of each split, as its format does."""
    fractions = _fractions(entry, options)
    for split, fraction in fractions.items():
        check_fraction(f"{split}_fraction", fraction)
    splits = {}
    for split, (texts, labels) in entry.format(entry, path, **options).items():
        clean = entry.clean(texts) if entry.clean else texts
        splits[split] = clean, np.asarray(labels, entry.dtype)
    for split, fraction in fractions.items():
        splits["train"], splits[split] = train_validation_split(
            *splits["train"], fraction, seed
        )
    return tuple(splits[split] for split in SPLITS if split in splits)


def tagged(entry, path):
    """Returns `(sentences, labels)` of each split, lists of lists."""
    splits = entry.format(entry, path)
    return tuple(splits[split] for split in SPLITS)


def pairs(entry, path, seed=0, **options):
    """Returns two lists for each split: sources and targets.

    Its format returns lists of groups of pairs; splits do not tear a group
    apart. What has a fraction, but is not published, is held out of the
    training set; what has the fraction `None` is left out.
    """
    fractions = _fractions(entry, options)
    groups = entry.format(entry, path, **options)
    held_out = {
        split: fraction
        for split, fraction in fractions.items()
        if not (fraction is None or split in groups)
    }
    splits = {}
    if held_out:
        named = {f"{name}_fraction": x for name, x in held_out.items()}
        sides = split_groups(groups.pop("train"), named, seed, entry.groups)
        splits.update(zip(("train", *held_out), sides, strict=True))
    for split, groups_of_split in groups.items():
        if fractions.get(split, 1) is not None:
            splits[split] = lists(itertools.chain(*groups_of_split))
    return tuple(splits[split] for split in SPLITS if split in splits)


def plain(entry, path, **options):
    """Returns the text of each split, a string or a list of words."""
    splits = entry.format(entry, path, **options)
    return tuple(splits[split] for split in SPLITS)


def _fractions(entry, options):
    """Split -> share of what is held out; takes these out of the options."""
    return {
        # TOML has no None.
        split: options.pop(
            f"{split}_fraction", None if share is False else share
        )
        for split, share in entry.held_out.items()
    }


def cut(text, *percents):
    """Cuts a text, or a list, where so many per cent of it end."""
    ends = [0, *(len(text) * x // 100 for x in percents), len(text)]
    return tuple(text[a:b] for a, b in itertools.pairwise(ends))


# Formats of labelled texts


def tables(entry, path):
    """A CSV or TSV file per split; `columns` are arguments of `load_csv`."""
    return {
        split: load_csv(_file(entry, path, name), **entry.columns)[:2]
        for split, name in entry.files.items()
    }


def scored_tables(entry, path):
    """Tables whose labels are numbers: `load_csv` numbers them as classes."""
    splits = {}
    for split, name in entry.files.items():
        file = _file(entry, path, name)
        texts, labels, names = load_csv(file, **entry.columns)
        scores = np.array([_score(file, name) for name in names])
        splits[split] = texts, scores[labels]
    return splits


def _score(path, text):
    """The finite number that a field holds."""
    try:
        score = float(text)
    except ValueError:
        score = np.nan
    if not np.isfinite(score):
        raise ValueError(
            f"{path}: expected a number for each pair. Correct the field, or "
            f"download the file again. Received: {text!r}"
        )
    return score


def tables_with_synonyms(entry, path):
    """Tables in which classes have several names, listed in turns."""
    return {
        split: (texts, labels % len(entry.class_names))
        for split, (texts, labels) in tables(entry, path).items()
    }


def file_per_class(entry, path):
    """A text per line; `columns` are the classes, as names have them."""
    (pattern,) = entry.files.values()
    by_class = [
        _lines_of_either_encoding(
            _file(entry, path, pattern.format(label=label))
        )
        for label in entry.columns
    ]
    labels = np.repeat(np.arange(len(by_class)), list(map(len, by_class)))
    return {"train": ([*itertools.chain(*by_class)], labels)}


def _lines_of_either_encoding(path):
    content = read_bytes(path)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = content.decode("windows-1252", errors="replace")
    # Not splitlines, which also splits at characters such as U+0085.
    lines = [line.strip() for line in text.split("\n")]
    lines = [line for line in lines if line]
    if not lines:
        raise ValueError(
            f"{path}: expected a sentence per line. Received: none"
        )
    return lines


# Formats of labelled words


def conllu(entry, path):
    """CoNLL-U: a word per line, with its universal part of speech."""
    return {
        split: _tagged_sentences(_file(entry, path, name), entry.class_names)
        for split, name in entry.files.items()
    }


def _tagged_sentences(path, class_names):
    sentences, labels = [[]], [[]]
    for line, text in enumerate(read_lines(path), start=1):
        if not text.strip():  # ends a sentence
            sentences.append([])
            labels.append([])
        elif not text.startswith("#"):
            fields = text.split("\t")
            # Neither a multiword token, "1-2", nor an empty node, "8.1".
            if len(fields) == CONLLU_FIELDS and not fields[0].isdigit():
                continue
            if len(fields) != CONLLU_FIELDS or fields[3] not in class_names:
                raise ValueError(
                    f"{path}, line {line}: expected {CONLLU_FIELDS} fields "
                    "between tabs, the fourth a universal part of speech. "
                    "Correct the line, or download the file again. Received: "
                    f"{text[:60]!r}"
                )
            sentences[-1].append(fields[1])
            labels[-1].append(fields[3])
    return [*filter(None, sentences)], [*filter(None, labels)]


# Formats of pairs


def file_per_language(entry, path, source="en", target="de"):
    """Files whose lines belong together."""
    pattern = entry.files["train"].format(language="*")
    files = find_files(path, pattern, entry.folder)
    found = sorted({f.name.removesuffix(".gz").split(".", 1)[1] for f in files})
    for name, language in (("source", source), ("target", target)):
        if language not in found:
            raise ValueError(
                f"{name} must be one of the languages in {path}, which are "
                f"{', '.join(found)}. Received: {language!r}"
            )
    if source == target:
        raise ValueError(
            "source and target must be different languages, of "
            f"{', '.join(found)}. Received: {source!r} twice"
        )
    splits = {}
    for split, name in entry.files.items():
        names = (name.format(language=x) for x in (source, target))
        files = [_file(entry, path, x) for x in names]
        splits[split] = [zip(*load_translations(*files), strict=True)]
    return splits


def distinct_columns(entry, path):
    """A text, a tab and its translation; those of a text are a group."""
    pairs = zip(*load_translations(one_file(entry, path)), strict=True)
    return {"train": by_source(dict.fromkeys(pairs))}


def by_source(pairs):
    """Groups of the pairs with the same source."""
    groups = {}
    for pair in pairs:
        groups.setdefault(pair[0], []).append(pair)
    return list(groups.values())


def json_lines(entry, path):
    """JSON objects; `columns` are the keys of a source and its targets.

    Where there is no training file, that to validate on takes its place.
    """
    test_file = _file(entry, path, entry.files["test"])
    folder, files = test_file.parent, {"test": test_file}
    for split in ("train", "validation"):
        for file in sorted(folder.glob(f"{entry.files[split]}*"))[:1]:
            files[split] = file
    if "train" not in files:
        files["train"], *_ = find_files(folder, entry.files["validation"])
        files.pop("validation", None)
    columns = {"validation": entry.columns["train"], **entry.columns}
    return {
        split: [[pair] for pair in _objects(file, *columns[split])]
        for split, file in files.items()
    }


def _objects(path, source, *targets):
    """Yields a source and its target, or a list if it has several."""
    keys = source, *targets
    for line, text in enumerate(read_lines(path), start=1):
        if not text.strip():
            continue
        example = _parse(path, line, text)
        fields = [example.get(key) for key in keys]
        missing = [
            key
            for key, field in zip(keys, fields, strict=True)
            if not (isinstance(field, str) and field.strip())
        ]
        if missing:
            raise ValueError(
                f"{path}, line {line}: expected texts called "
                f"{', '.join(keys)}. Add what is missing, or remove the line. "
                f"Received: no text called {', '.join(missing)}"
            )
        first, *others = map(str.strip, fields)
        yield first, others if targets[1:] else others[0]


def _parse(path, line, text):
    """Returns the JSON object on a line, a dictionary."""
    try:
        example = json.loads(text)
    except (ValueError, RecursionError):
        example = None
    if not isinstance(example, dict):
        raise ValueError(
            f"{path}, line {line}: expected a JSON object, as in "
            '{"dialogue": "...", "summary": "..."}. Correct or remove the '
            f"line, or download the file again. Received: {text[:60]!r}"
        )
    return example


def one_file(entry, path):
    """The path, if it is a file, or the data set's file in that folder."""
    if path.is_file():
        return path
    return _file(entry, path, entry.files["train"])


def _file(entry, path, name):
    return find_files(path, name, entry.folder)[0]


# Formats of plain text


def words(entry, path):
    """What stands between spaces, and `"<eos>"` for each end of a line."""
    splits = {split: [] for split in entry.files}
    for split, name in entry.files.items():
        for line in read_lines(_file(entry, path, name)):
            # Interned, a word takes memory once, not once per token.
            splits[split] += map(sys.intern, filter(None, line.split(" ")))
            splits[split].append("<eos>")
    return splits


def one_text(entry, path):
    """One text; `columns` are the per cent where its splits end."""
    file = one_file(entry, path)
    text = read_text(file)
    parts = cut(text, *entry.columns)
    if not all(parts):
        shares = np.diff([0, *entry.columns, 100]).tolist()
        raise ValueError(
            f"{file}: expected a text long enough to split in {shares[0]}, "
            f"{shares[1]} and {shares[2]} %. Pass another file. Received: "
            f"{len(text)} characters"
        )
    return dict(zip(SPLITS, parts, strict=True))

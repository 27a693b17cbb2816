"""`read`: texts and labels from files of several formats."""

import contextlib
import csv
import gzip
import io
import json
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_synth.types import FilePath

TABLES = ("csv", "tsv", "jsonl")
FORMATS = (*TABLES, "folders", "lines", "conllu", "text")
# Options of formats that do not use all.
_USED: dict[str, tuple[str, ...]] = {
    "jsonl": ("text", "label", "skip_empty"),
    "folders": ("skip_empty",),
    "lines": ("skip_empty",),
    "conllu": (),
    "text": (),
}
_CONLLU_FIELDS, _CONLLU_TAG = 10, 3  # ID, FORM, LEMMA, UPOS, ...
_SEPARATOR_HINT = (
    ' If its columns have another separator, pass it, such as delimiter=";".'
)

Column = str | int


def read(
    path: FilePath | Sequence[FilePath],
    format: str | None = None,
    text: Column | Sequence[Column] = "text",
    label: Column | Sequence[Column] | None = "label",
    *,
    header: bool = True,
    delimiter: str | None = None,
    skip_empty: bool = False,
) -> Any:
    r"""Reads texts and their labels from a file or folder.

    | format | files | returns |
    |---|---|---|
    | `"csv"`, `"tsv"`, `"jsonl"` | tables, JSON objects | `(texts, labels)` |
    | `"folders"` | a folder for each class | `(texts, labels)` |
    | `"lines"` | two files of parallel lines | `(firsts, seconds)` |
    | `"conllu"` | words and parts of speech | `(sentences, tags)` |
    | `"text"` | one, or all `.txt` of a folder | string, or list of strings |

    Files are UTF-8, and can be gzipped. In TSV files, as in GLUE, quotation
    marks are ordinary characters.

    Args:
        path: String or path-like; for `"lines"` a sequence of two.
        format: One of the formats above. By default it depends on the suffix;
            two paths are `"lines"`, a folder that contains folders is
            `"folders"`, and other paths are `"text"`.
        text: Name of the column of texts, or its number without a header. Two
            columns make pairs.
        label: Name or number of the column of labels. With several columns, the
            label of a row is a list. `None` reads only texts.
        header: Whether the first row of a CSV or TSV file has the names of
            columns.
        delimiter: Separator of columns, a character; by default a comma, or in
            TSV a tab.
        skip_empty: Whether to omit rows, pairs of lines or files of a class
            with an empty text or label.

    Returns:
        As above. `texts` is a list of strings, or a tuple of two lists for
        pairs. `labels` is an array if all labels are numbers, or a list of
        strings.

    Raises:
        ValueError: If a file cannot be read as this format, a field is empty,
            or this format does not use an option.

    Example:

    >>> import pathlib, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name) / "reviews.csv"
    >>> size = path.write_text("text,stars\na good film,5\ndull,1\n")
    >>> keras_synth.datasets.read(path, label="stars")
    (['a good film', 'dull'], array([5, 1]))
    """
    paths = [*map(Path, path if isinstance(path, (list, tuple)) else [path])]
    if paths:
        format, first = format or format_of(*paths), paths[0]
    if format not in FORMATS or len(paths) != 1 + (format == "lines"):
        raise ValueError(
            f"format must be one of {', '.join(FORMATS)}, with two paths for "
            f"`lines`, and one for others. Received: format={format!r} for "
            f"{[*map(str, paths)]}"
        )
    options: dict[str, tuple[Any, Any]] = {
        "text": (text, "text"),
        "label": (label, "label"),
        "header": (header, True),
        "delimiter": (delimiter, None),
        "skip_empty": (skip_empty, False),
    }
    unused = {
        name: value
        for name, (value, default) in options.items()
        if value != default and name not in _USED.get(format, options)
    }
    if unused:
        raise ValueError(
            f"The format {format!r} does not use {', '.join(unused)}. Leave "
            "out these options, or pass another format. Received: "
            f"{unused} for {first}"
        )
    if format in TABLES:
        sep = delimiter or ("\t" if format == "tsv" else ",")
        table = _table(first, format, sep, header)
        return _columns(first, table, text, label, skip_empty)
    if format == "lines":
        return _parallel_lines(paths, skip_empty)
    if format == "folders":
        return _folders(first, skip_empty)
    return _conllu(first) if format == "conllu" else _plain(first)


def format_of(path: Path, *others: Path) -> str:
    """Returns the default format of a path, or of two."""
    if others:
        return "lines"
    if path.is_dir():
        return "folders" if _folders_in(path) else "text"
    suffix = Path(path.name.lower().removesuffix(".gz")).suffix[1:]
    return suffix if suffix in FORMATS else "text"


def _open(path):
    """The text of a UTF-8 file, with or without a byte-order mark."""
    opener = gzip.open if path.suffix.lower() == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8-sig") as file:
            return file.read()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} must be UTF-8. Convert it first. Received: {error}"
        ) from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(
            f"{path} is not a complete gzip file. Received: {error}"
        ) from error


def _table(path, format, sep, header):
    """The rows of a file, as a pandas table of strings."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError(
            "Reading tables needs pandas: pip install pandas"
        ) from error
    if format == "jsonl":
        return pd.DataFrame(_objects(path), dtype=object)
    content = _open(path)

    def rows(**options):
        return pd.read_csv(
            io.StringIO(content),
            sep=sep,
            header=None,
            dtype=str,
            keep_default_na=False,
            # C's parser needs ASCII. Python's takes longer ones for patterns.
            engine="python" if len(sep) == 1 < len(sep.encode()) else "c",
            quoting=csv.QUOTE_NONE if format == "tsv" else csv.QUOTE_MINIMAL,
            **options,
        )

    try:
        # In a single column an empty line is an empty text.
        is_single = rows(nrows=1).shape[1] == 1
        table = rows(skip_blank_lines=not is_single)
    except ValueError as error:
        raise ValueError(
            f"{path} cannot be read as {format}.{_SEPARATOR_HINT} Received: "
            f"{' '.join(str(error).split())}"
        ) from error
    while is_single and len(table) and _is_blank(table.iloc[-1, 0]):
        table = table[:-1]
    return table[1:].set_axis(table.iloc[0], axis=1) if header else table


def _objects(path):
    """The objects of a file with one on each line."""
    found = []
    for number, line in enumerate(lines_of(_open(path)), 1):
        if line.strip():
            try:
                found.append(dict(json.loads(line)))
            except (TypeError, ValueError) as error:
                raise ValueError(
                    f"{path}, line {number}: each line must be a JSON object. "
                    f"Received: {line.strip():.60}"
                ) from error
    if not found:
        raise ValueError(f"{path} must have at least one row. Received: 0 rows")
    return found


def _columns(path, table, text, label, skip_empty):
    """The texts and labels of a table."""
    sides, answers = (
        list(x) if isinstance(x, (list, tuple)) else [x] for x in (text, label)
    )
    answers = [] if label is None else answers
    for name in (*sides, *answers):
        if name not in table.columns:
            raise ValueError(
                f"{path} has no column {name!r}. Pass names as `text` and "
                "`label` (in a command --text and --label), or numbers and "
                f"header=False (--no-header).{_SEPARATOR_HINT} Received: "
                f"columns {[*table.columns]}"
            )
        if [*table.columns].count(name) > 1:
            raise ValueError(
                f"{path} must have one column {name!r}. Rename the others. "
                f"Received: columns {[*table.columns]}"
            )
    names = [*sides, *answers]
    if not sides or len({*names}) < len(names):
        raise ValueError(
            f"{path}: `text` and `label` must be different columns. Received: "
            f"text={text!r}, label={label!r}"
        )
    columns = _complete(
        path,
        [table[name].tolist() for name in names],
        skip_empty,
        lambda row, column: f"{path}: row {row + 1} has no {names[column]!r}",
    )
    texts, columns = columns[: len(sides)], columns[len(sides) :]
    nested = [x for side in texts for x in side if isinstance(x, (dict, list))]
    if nested:  # of JSON
        raise ValueError(
            f"{path}: texts must be strings. Received: {nested[0]!r:.60}"
        )
    texts = tuple([*map(str, side)] for side in texts)
    texts = texts if len(texts) > 1 else texts[0]
    if not answers:
        return texts
    if len(answers) > 1:
        return texts, [[*map(str, row)] for row in zip(*columns, strict=True)]
    labels = [str(x).strip() for x in columns[0]]
    # `int` would accept these names: 1_2, 007.
    named = any("_" in x or re.match(r"0\d", x) for x in labels)
    numbers = None if named else _numbers(labels)
    return texts, labels if numbers is None else numbers


def _numbers(labels):
    """An array, or `None` if not all are finite numbers."""
    for kind in (int, float):
        with contextlib.suppress(ValueError, OverflowError):
            found = np.array([kind(x) for x in labels], kind)
            return found if np.isfinite(found).all() else None
    return None


def _complete(path, columns, skip_empty, words):
    """The columns without rows that lack a text, with at least one other.

    `words(row, column)` say what is missing.
    """
    rows = [*zip(*columns, strict=True)]
    blank = [[*map(_is_blank, row)] for row in rows]
    out = [any(row) for row in blank]
    if any(out) and not skip_empty:
        row = out.index(True)
        raise ValueError(
            f"{words(row, blank[row].index(True))}. Fill it in, or omit such "
            "rows with skip_empty=True (in a command --skip-empty). Received: "
            f"{sum(out)} such rows"
        )
    kept = [row for row, is_out in zip(rows, out, strict=True) if not is_out]
    if not kept:
        raise ValueError(f"{path} must have at least one row. Received: 0 rows")
    return [[*column] for column in zip(*kept, strict=True)]


def _is_blank(field):
    """Whether a field is missing (`None` or NaN) or empty."""
    return field is None or field != field or not str(field).strip()


def _folders_in(path):
    """The folders in a folder, without hidden ones, sorted by name."""
    return sorted(
        x for x in path.iterdir() if x.is_dir() and not x.name.startswith(".")
    )


def _folders(path, skip_empty):
    """The files in the folder of each class, sorted by name."""
    files = [
        file
        for folder in _folders_in(path)
        for file in sorted(x for x in folder.iterdir() if x.is_file())
        if not file.name.startswith(".")
    ]
    texts, labels = _complete(
        path,
        [[_open(file) for file in files], [x.parent.name for x in files]],
        skip_empty,
        lambda row, _: f"{files[row]} has no text",
    )
    if len({*labels}) < 2:
        raise ValueError(
            f"{path} must have a folder for each class, with files in at least "
            f"two of them. Received: {len(labels)} files"
        )
    return texts, labels


def lines_of(text: str) -> list[str]:
    """Returns lines with their ends.

    `str.splitlines` would also cut at form feeds and other separators inside a
    text.
    """
    return [*io.StringIO(text)]


def _parallel_lines(paths, skip_empty):
    sides = [
        [line.removesuffix("\n") for line in lines_of(_open(path))]
        for path in paths
    ]
    if len(sides[0]) != len(sides[1]):
        raise ValueError(
            f"{paths[0]} and {paths[1]} must have the same number of lines. "
            f"Received: {len(sides[0])} and {len(sides[1])} lines"
        )
    return tuple(
        _complete(
            paths[0],
            sides,
            skip_empty,
            lambda row, side: f"{paths[side]}: line {row + 1} has no text",
        )
    )


def _conllu(path):
    """Words and their universal parts of speech, by sentence."""
    sentences: list[list[str]] = [[]]
    tags: list[list[str]] = [[]]
    for number, line in enumerate(lines_of(_open(path)), 1):
        line = line.removesuffix("\n")
        if not line.strip():
            sentences.append([])
            tags.append([])
        elif not line.startswith("#"):
            fields = line.split("\t")
            if len(fields) != _CONLLU_FIELDS:
                raise ValueError(
                    f"{path}, line {number}: a word must have {_CONLLU_FIELDS} "
                    f"fields, separated by tabs. Received: {line[:60]!r}"
                )
            if fields[0].isdigit():  # neither several words, "1-2", nor "8.1"
                sentences[-1].append(fields[1])
                tags[-1].append(fields[_CONLLU_TAG])
    if not any(sentences):
        raise ValueError(f"{path} must have at least one word. Received: none")
    return [*filter(None, sentences)], [*filter(None, tags)]


def _plain(path):
    if not path.is_dir():
        return _open(path)
    files = sorted({*path.rglob("*.txt"), *path.rglob("*.txt.gz")})
    if not files:
        raise ValueError(f"{path} must contain .txt files. Received: none")
    return [_open(file) for file in files]

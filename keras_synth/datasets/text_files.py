"""Texts of one's own: sentences and their translations, plain text."""

from pathlib import Path
from typing import Any

from keras_synth.datasets.files import (
    lists,
    read_lines,
    read_text,
    without_empty,
)
from keras_synth.types import FilePath


def load_text(path: FilePath) -> str:
    """Reads a text as it is, with its line ends.

    Args:
        path: String or path-like, a UTF-8 file, plain or gzipped.

    Returns:
        A string.

    Raises:
        ValueError: The file is empty, damaged or not UTF-8.

    Example:

    ```python
    text = load_text("book.txt")
    ```
    """
    return read_text(path)


def load_texts(path: FilePath) -> list[str]:
    """Reads a text, or all those in a folder.

    Args:
        path: String or path-like, a UTF-8 file, plain or gzipped, or a folder:
            all of its files are texts, those of folders in it, too; names that
            begin with a dot do not count.

    Returns:
        List of strings, in the order of the files' paths.

    Raises:
        ValueError: A file is empty, damaged or not UTF-8, or a folder holds
            none.

    Example:

    ```python
    texts = load_texts("novels")
    ```
    """
    path = Path(path)
    if not path.is_dir():
        return [read_text(path)]
    files = [
        file
        for file in sorted(path.rglob("*"))
        if file.is_file()
        and not any(x.startswith(".") for x in file.relative_to(path).parts)
    ]
    if not files:
        raise ValueError(
            f"{path}: expected a folder with text files. Pass another one. "
            "Received: no file"
        )
    return [read_text(file) for file in files]


def load_translations(
    source: FilePath, target: FilePath | None = None, skip_empty: bool = False
) -> tuple[Any, ...]:
    r"""Reads sentences and their translations, from two files or one.

    Line `n` of one file belongs to line `n` of the other. One file alone has
    a sentence, a tab and its translation on each line; further columns, such
    as the attribution in those of Tatoeba, are ignored.

    Files are UTF-8, plain or gzipped. Lines end with `\n` or `\r\n`, and with
    no other character.

    Args:
        source: String or path-like, the file of the sentences.
        target: String or path-like, the file of their translations. `None`
            takes the second column of `source`.
        skip_empty: Boolean, whether to leave out pairs with an empty side. A
            warning says how many.

    Returns:
        `(sources, targets)`, two equally long lists of strings without
        surrounding white space.

    Raises:
        ValueError: The files have different numbers of lines, a line is empty
            or has no tab, or a file is empty, damaged or not UTF-8.

    Example:

    ```python
    sources, targets = load_translations("train.en.gz", "train.de.gz")
    sources, targets = load_translations("deu.txt")
    ```
    """
    if target is None:
        paths = 2 * (Path(source),)
        pairs = list(_columns(paths[0]))
    else:
        paths = Path(source), Path(target)
        pairs = _lines(*paths)
    missing = [(path, "expected a sentence") for path in paths]
    rows = list(enumerate(pairs, start=1))
    whole = "sentence with a translation"
    rows = without_empty(rows, missing, skip_empty, "pairs", whole)
    return lists(pair for _, pair in rows)


def _lines(*paths):
    """Returns the pairs of lines of two files."""
    sides = [list(map(str.strip, read_lines(path))) for path in paths]
    if len(sides[0]) != len(sides[1]):
        raise ValueError(
            f"{paths[0]} and {paths[1]} must have the same number of lines, "
            "one sentence and its translation each. Pass two files that "
            f"belong together. Received: {len(sides[0])} and {len(sides[1])} "
            "lines"
        )
    return list(zip(*sides, strict=True))


def _columns(path):
    """Yields the first and the second column of lines with tabs."""
    for line, text in enumerate(read_lines(path), start=1):
        row = [field.strip() for field in text.split("\t")]
        if len(row) == 1 and row[0]:
            raise ValueError(
                f"{path}, line {line}: expected a sentence, a tab and its "
                "translation. Add what is missing, or pass target= with the "
                f"file of the translations. Received: {row[0][:60]!r}"
            )
        yield row[0], row[1] if row[1:] else ""

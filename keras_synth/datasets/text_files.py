"""Texts of one's own: sentences and their translations, plain text."""

from pathlib import Path

from keras_synth.datasets.files import read_lines, read_text, warn_of_left_out


def load_text(path):
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


def load_translations(source, target=None, skip_empty=False):
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
    source = Path(source)
    if target is None:
        return _without_empty((source, source), _columns(source), skip_empty)
    paths = source, Path(target)
    sides = [list(map(str.strip, read_lines(path))) for path in paths]
    if len(sides[0]) != len(sides[1]):
        raise ValueError(
            f"{paths[0]} and {paths[1]} must have the same number of lines, "
            "one sentence and its translation each. Pass two files that "
            f"belong together. Received: {len(sides[0])} and {len(sides[1])} "
            "lines"
        )
    return _without_empty(paths, sides, skip_empty)


def _columns(path):
    """Returns the first and the second column of lines with tabs."""
    rows = []
    for line, text in enumerate(read_lines(path), start=1):
        row = [field.strip() for field in text.split("\t")]
        if len(row) == 1 and row[0]:
            raise ValueError(
                f"{path}, line {line}: expected a sentence, a tab and its "
                "translation. Add what is missing, or pass target= with the "
                f"file of the translations. Received: {row[0][:60]!r}"
            )
        rows.append((row[0], row[1] if row[1:] else ""))
    return list(zip(*rows, strict=True))


def _without_empty(paths, sides, skip_empty):
    """Returns both sides as lists, and leaves no empty sentence in them."""
    pairs = list(zip(*sides, strict=True))
    kept = [pair for pair in pairs if all(pair)]
    if len(kept) < len(pairs) and not skip_empty:
        index = [*map(all, pairs)].index(False)
        raise ValueError(
            f"{paths[pairs[index].index('')]}, line {index + 1}: expected a "
            "sentence. Fill it in, or pass skip_empty=True to leave out pairs "
            f"with an empty side. Received: {len(pairs) - len(kept)} such "
            f"pairs of {len(pairs)}"
        )
    if not kept:
        raise ValueError(
            f"{paths[0]}: expected at least one sentence with a translation. "
            f"Pass another file. Received: {len(pairs)} pairs with an empty "
            "side"
        )
    warn_of_left_out(paths[0], len(pairs) - len(kept), len(pairs))
    sources, targets = zip(*kept, strict=True)
    return list(sources), list(targets)

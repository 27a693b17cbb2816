"""Sentences and their translations: any two files, Multi30K, Tatoeba."""

from pathlib import Path

from keras_synth.datasets.files import find_files, say_left_out
from keras_synth.datasets.groups import split_groups
from keras_synth.datasets.lines import one_file, read_lines


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
    say_left_out(paths[0], len(pairs) - len(kept), len(pairs))
    sources, targets = zip(*kept, strict=True)
    return list(sources), list(targets)


def load_multi30k(path, source="en", target="de"):
    """Reads Multi30K, captions of pictures with professional translations.

    Args:
        path: String or path-like, the folder with `train.*`, `val.*` and
            `test_2016_flickr.*`, plain or `.gz`, where `*` is a language, as
            in `data/task1/raw` of the published set.
        source: String, the language to translate from.
        target: String, the language to translate to.

    Returns:
        `train, validation, test`, each `(sources, targets)`, two lists of
        strings, in the published order.

    Raises:
        ValueError: The languages are the same, or there is no file of one, or
            a file is not as published.

    Example:

    ```python
    train, validation, test = load_multi30k("multi30k", "en", "fr")
    sources, targets = train
    len(sources)  # 29000
    ```

    References:
        - [Elliott et al., 2016](https://aclanthology.org/W16-3210/)
    """
    path = Path(path)
    _check_languages(path, source, target)
    splits = []
    for split in ("train", "val", "test_2016_flickr"):
        files = [
            find_files((path,), f"{split}.{language}")[0]
            for language in (source, target)
        ]
        splits.append(load_translations(*files))
    return tuple(splits)


def _check_languages(path, source, target):
    files = find_files((path,), "train.*")
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


def load_tatoeba(path, validation_fraction=0.02, test_fraction=0.02, seed=0):
    """Reads sentence pairs of Tatoeba, as selected by manythings.org.

    All translations of an English sentence are on one side of the split. The
    other way round this does not hold: one in nine German sentences to test
    on translates another English one in training, too. To translate into
    English, swap the two lists, and leave those out of the test.

    Pairs that occur twice are kept once. There is no official split, so
    figures compare only where the fractions and the seed agree.

    Args:
        path: String or path-like, the file, plain or `.gz`, of any language;
            or the folder with `deu.txt` or `deu.txt.gz`.
        validation_fraction: Float in (0, 1), the share of the distinct English
            sentences to validate on.
        test_fraction: Float in (0, 1), the share of those to test on.
        seed: Integer, not negative. The same seed gives the same split.

    Returns:
        `train, validation, test`, each `(sources, targets)`, two lists of
        strings, shuffled.

    Raises:
        ValueError: A fraction is out of range, or the file is not as
            published.

    Example:

    ```python
    train, validation, test = load_tatoeba("deu.txt")
    sources, targets = train
    targets, sources = train  # from German to English
    ```

    References:
        - [Tatoeba](https://tatoeba.org) and
          [manythings.org/anki](https://www.manythings.org/anki), CC BY 2.0:
          whoever passes the sentences on has to name both.
    """
    sources, targets = load_translations(one_file(path, "deu.txt"))
    groups = {}
    for pair in dict.fromkeys(zip(sources, targets, strict=True)):
        groups.setdefault(pair[0], []).append(pair)
    fractions = {
        "validation_fraction": validation_fraction,
        "test_fraction": test_fraction,
    }
    groups = list(groups.values())
    return tuple(split_groups(groups, fractions, seed, "distinct sentences"))

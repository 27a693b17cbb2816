"""Texts to learn to write: any file, WikiText-2, Tiny Shakespeare."""

import sys
from pathlib import Path

from keras_synth.datasets.files import find_files
from keras_synth.datasets.lines import one_file, read_lines, read_text


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


def load_wikitext2(path):
    """Reads WikiText-2, articles of Wikipedia with rare words as `<unk>`.

    Tokens are what stands between spaces, and `"<eos>"` for each end of a
    line, of an empty one, too. So published perplexities count: 2,088,628,
    217,646 and 245,569 tokens, of 33,278 different ones.

    Args:
        path: String or path-like: the folder with `wiki.train.tokens`,
            `wiki.valid.tokens` and `wiki.test.tokens`, all of them plain or
            `.gz`; or a folder that contains it as `wikitext-2`.

    Returns:
        `train, validation, test`, three lists of strings, one per token.

    Raises:
        ValueError: A file is empty, damaged or not UTF-8.

    Example:

    ```python
    train, validation, test = load_wikitext2("wikitext-2")
    train[:5]  # ["<eos>", "=", "Valkyria", "Chronicles", "III"]
    ```

    References:
        - [Merity et al., 2016](https://arxiv.org/abs/1609.07843)
    """
    path = Path(path)
    return tuple(
        _tokens(
            find_files((path / "wikitext-2", path), f"wiki.{split}.tokens")[0]
        )
        for split in ("train", "valid", "test")
    )


def _tokens(path):
    tokens = []
    for line in read_lines(path):
        # Interned, a word takes memory once, not once per token.
        tokens += map(sys.intern, filter(None, line.split(" ")))
        tokens.append("<eos>")
    return tokens


def load_tinyshakespeare(path):
    """Reads Tiny Shakespeare, plays of Shakespeare as one text of 1.1 MB.

    The split is the usual one by position: the first 90 % of the characters,
    the next 5 %, the last 5 %.

    Args:
        path: String or path-like, the file, or the folder with `input.txt` or
            `input.txt.gz`.

    Returns:
        `train, validation, test`, three strings; joined, they are the file.

    Raises:
        ValueError: The file is too short to split, damaged or not UTF-8.

    Example:

    ```python
    train, validation, test = load_tinyshakespeare("tinyshakespeare")
    len(train), len(validation), len(test)  # 1003854, 55770, 55770
    ```

    References:
        - [Karpathy, 2015](https://karpathy.github.io/2015/05/21/rnn-effectiveness/)
    """
    path = one_file(path, "input.txt")
    text = read_text(path)
    first, second = len(text) * 90 // 100, len(text) * 95 // 100
    parts = text[:first], text[first:second], text[second:]
    if not all(parts):
        raise ValueError(
            f"{path}: expected a text long enough to split in 90, 5 and 5 %. "
            f"Pass another file. Received: {len(text)} characters"
        )
    return parts

"""The movie-review sentences of Pang and Lee."""

from pathlib import Path

import numpy as np

from keras_synth.datasets.files import find_files, read_bytes
from keras_synth.datasets.splitting import (
    check_fraction,
    train_validation_split,
)


def load_rt_polarity(path, test_fraction=0.1, seed=0):
    """Reads the sentence polarity data set, "MR", and splits it.

    One lower-cased, tokenized sentence of a review each. There is no official
    split, so figures compare only where the fraction and the seed agree.

    Many of these sentences are in SST-2, too: do not train on the one and
    test on the other.

    Args:
        path: String or path-like, the folder with `rt-polarity.neg` and
            `rt-polarity.pos`, plain or `.gz`, in UTF-8 or, as originally
            published, in windows-1252.
        test_fraction: Float in (0, 1), the share of the test sentences.
        seed: Integer, not negative. The same seed gives the same split.

    Returns:
        `(train_texts, train_labels), (test_texts, test_labels)`, both
        shuffled, copies of a sentence on one side. Texts are lists of strings,
        labels int32 arrays: 0 negative, 1 positive.

    Raises:
        ValueError: A file is empty or damaged, or the fraction out of range.

    Example:

    ```python
    (texts, labels), (test_texts, test_labels) = load_rt_polarity("rt_polarity")
    len(texts), len(test_texts)  # 9596, 1066
    ```

    References:
        - [Pang and Lee, 2005](https://aclanthology.org/P05-1015/)
    """
    check_fraction("test_fraction", test_fraction)
    negative, positive = (
        _read_lines(find_files((Path(path),), f"rt-polarity.{sentiment}")[0])
        for sentiment in ("neg", "pos")
    )
    labels = np.repeat(
        np.array([0, 1], dtype="int32"), [len(negative), len(positive)]
    )
    return train_validation_split(
        negative + positive, labels, test_fraction, seed
    )


def _read_lines(path):
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

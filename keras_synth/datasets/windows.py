"""Windows of a long text, for language models."""

import numpy as np

from keras_synth.checks import check_positive
from keras_synth.datasets.epochs import EpochBatches


class TokenWindows(EpochBatches):
    """Batches of windows of a token stream, for `fit` on any backend.

    A window's labels are its tokens, one on. To train on, windows come in a
    random order and start elsewhere in each epoch; otherwise they lie side by
    side, and every token but the first is predicted once.

    Args:
        tokens: Integer array `(N,)`, all tokens one after the other.
        length: Integer, tokens per window, `T`.
        batch_size: Integer, windows per batch.
        shuffle: Whether to train on them. To evaluate, the end of the text
            that fills no window is padded, and so is the last batch.
        seed: Integer, not negative. The same seed gives the same batches on
            all backends.
        epoch: Integer, the epoch to start with, an attribute as that of
            `LengthBuckets`.

    Raises:
        ValueError: If an argument is out of range, or there are not enough
            tokens for a batch to train on.

    Example:

    ```python
    tokens = np.frombuffer(text.encode(), "uint8")
    lm.fit(keras_synth.datasets.TokenWindows(tokens, 256, 32), epochs=3)
    ```
    """

    def __init__(
        self, tokens, length, batch_size, shuffle=True, seed=0, epoch=0
    ):
        super().__init__(seed, epoch)
        self.tokens = np.asarray(tokens)
        self.length = check_positive("length", length)
        self.batch_size = check_positive("batch_size", batch_size)
        self.shuffle = shuffle
        least = length * batch_size + length if shuffle else 2
        if self.tokens.ndim != 1 or len(self.tokens) < least:
            raise ValueError(
                f"tokens must be an array of at least {least} tokens, for "
                f"windows of {length} in batches of {batch_size}. Pass a "
                f"longer text, or smaller ones. Received: {self.tokens.shape}"
            )

    def __len__(self):
        """The number of batches of each epoch."""
        size = self.length * self.batch_size
        if self.shuffle:  # wherever the first window starts
            return (len(self.tokens) - self.length) // size
        return -(-(len(self.tokens) - 1) // size)

    def batch_lengths(self, epoch):
        """The lengths in tokens of the batches of an epoch: all the same."""
        return [self.length] * len(self)

    def __getitem__(self, index):
        rows = self.plan(self.epoch)[index * self.batch_size :][
            : self.batch_size
        ]
        places = rows[:, None] + np.arange(self.length + 1)
        real = places < len(self.tokens)
        windows = np.where(real, self.tokens[np.where(real, places, 0)], 0)
        windows = windows.astype("int32")
        features = {
            "token_ids": windows[:, :-1],
            "padding_mask": real[:, :-1].astype("int32"),
        }
        return features, windows[:, 1:], real[:, 1:].astype("float32")

    def make_plan(self, epoch):
        """Where the windows of all batches start; beyond the end for none."""
        count = len(self) * self.batch_size
        if not self.shuffle:
            return np.arange(count) * self.length
        rng = np.random.default_rng((self.seed, epoch))
        first = rng.integers(self.length)
        return first + rng.permutation(count) * self.length

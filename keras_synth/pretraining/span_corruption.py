"""T5's objective: predict removed spans of tokens.

Raffel et al., 2020, https://arxiv.org/abs/1910.10683, section 3.1.4.
"""

from numbers import Real
from typing import Any

import numpy as np

from keras_synth._backend.checks import check_positive
from keras_synth.training.batches import EpochBatches
from keras_synth.types import Tensor

NOISE_DENSITY, MEAN_SPAN = 0.15, 3.0


def span_mask(
    length: int,
    rng: np.random.Generator,
    noise_density: float = NOISE_DENSITY,
    mean_noise_span_length: float = MEAN_SPAN,
) -> Tensor:
    """Draws spans of tokens to remove.

    It removes `round(length * noise_density)` tokens, at least one and not all,
    in `round(tokens / mean_noise_span_length)` spans, at least one. All ways to
    cut the removed tokens into this number of spans are equally likely, as are
    all ways to cut the other tokens. The first token is not removed.

    Args:
        length: Integer, number of tokens, at least 2.
        rng: `numpy.random.Generator`.
        noise_density: Float between 0 and 1, fraction of tokens to remove.
        mean_noise_span_length: Float, at least 1, mean length of a span in
            tokens.

    Returns:
        Boolean array `(length,)`, True for tokens to remove.

    Raises:
        ValueError: If there are fewer than two tokens, or an argument is out of
            range.
    """
    if length < 2:
        raise ValueError(
            "Span corruption needs texts of at least 2 tokens, because it "
            f"keeps one and removes one. Received: {length} tokens"
        )
    noise, spans = _counts(length, noise_density, mean_noise_span_length)
    lengths = np.stack(
        [_cut(length - noise, spans, rng), _cut(noise, spans, rng)], axis=1
    )
    return np.repeat(np.arange(2 * spans) % 2 == 1, lengths.reshape(-1))


def corrupt_spans(
    tokens: Tensor, mask: Tensor, vocabulary_size: int
) -> tuple[Tensor, Tensor]:
    """Replaces each span by a sentinel.

    Sentinels descend from `vocabulary_size - 1`.

    Args:
        tokens: Integer array `(n,)`.
        mask: Boolean array `(n,)`, True for tokens to remove.
        vocabulary_size: Integer, including sentinels.

    Returns:
        `(inputs, targets)`: integer arrays, the other tokens with a sentinel
        for each removed span, and the removed tokens with a sentinel for each
        other span.

    Example:

    >>> mask = np.array([True, True, False, False, True, False])
    >>> inputs, targets = keras_synth.pretraining.corrupt_spans(
    ...     np.arange(10, 16), mask, vocabulary_size=1000)
    >>> inputs.tolist(), targets.tolist()
    ([999, 12, 13, 998, 15], [10, 11, 999, 14, 998])
    """
    tokens, mask = np.asarray(tokens), np.asarray(mask, bool)
    return tuple(
        _with_sentinels(tokens, out, vocabulary_size) for out in (mask, ~mask)
    )


class SpanCorruption(EpochBatches):
    """Batches of span corruption from a long sequence of tokens.

    Each epoch cuts the tokens into other windows, in another order and with
    other removed spans. All windows have the same length, so batches need no
    padding: inputs of 512 tokens come from 568 raw tokens, and have targets of
    114 tokens. Remaining tokens, and windows that do not fill the last batch,
    are omitted.

    Batches are for `SynthesizerSeq2SeqLM` without preprocessor:
    `(features, labels, sample_weight)`.

    Args:
        tokens: Integer array `(N,)`, the concatenated ids of all texts.
        inputs_length: Integer, tokens of each input, including the end token.
        vocabulary_size: Integer, including sentinels, which have the highest
            ids. Tokens of the texts must not have these ids.
        end_token_id: Integer, the last token of inputs and targets.
        start_token_id: Integer, the first token of the decoder; in T5 the
            padding token.
        batch_size: Integer, windows of a batch.
        noise_density: Float, fraction of tokens to remove.
        mean_noise_span_length: Float, mean length of a span in tokens.
        shuffle: Whether to shuffle, for training. Otherwise, for evaluation,
            windows and removed spans are the same in each pass, and the last
            batch can be smaller.
        seed: As for `keras_synth.training.EpochBatches`, like `epoch`.

    Raises:
        ValueError: If there are too few tokens for a batch, an argument is
            out of range, or a token has a sentinel's id.

    Example:

    ```python
    ids = np.random.default_rng(0).integers(3, 80, 1000)
    batches = keras_synth.pretraining.SpanCorruption(
        ids, inputs_length=32, vocabulary_size=100, end_token_id=1, batch_size=4
    )
    features, labels, weights = batches[0]
    print(features["encoder_token_ids"].shape, labels.shape)  # (4, 32) (4, 8)
    ```
    """

    def __init__(
        self,
        tokens: Any,
        inputs_length: int,
        vocabulary_size: int,
        end_token_id: int,
        start_token_id: int = 0,
        batch_size: int = 32,
        noise_density: float = NOISE_DENSITY,
        mean_noise_span_length: float = MEAN_SPAN,
        shuffle: bool = True,
        seed: int = 0,
        epoch: int = 0,
    ) -> None:
        self.vocabulary_size = check_positive(
            "vocabulary_size", vocabulary_size
        )
        self.options = noise_density, mean_noise_span_length
        self.length = _window_length(inputs_length, *self.options)
        self.end_token_id = end_token_id
        self.start_token_id = start_token_id
        self.tokens = np.asarray(tokens)
        if self.tokens.ndim != 1 or self.tokens.dtype.kind not in "iu":
            raise ValueError(
                "`tokens` must be a sequence of integers, the ids of all "
                f"texts. Received: {self.tokens.dtype} of shape "
                f"{self.tokens.shape}"
            )
        super().__init__(
            len(self.tokens) // self.length,
            batch_size,
            shuffle,
            drop_remainder=shuffle,
            seed=seed,
            epoch=epoch,
        )
        needed = self.length * (batch_size if shuffle else 1)
        if len(self.tokens) < needed:
            raise ValueError(
                f"One batch needs {needed} tokens. Pass more texts, a smaller "
                "batch_size or a smaller inputs_length. Received: "
                f"{len(self.tokens)} tokens"
            )
        _, spans = _counts(self.length, *self.options)
        if self.tokens.max() >= vocabulary_size - spans:
            raise ValueError(
                f"The {spans} highest ids of the vocabulary are sentinels, "
                "which must not occur in the texts. Pass a larger "
                "vocabulary_size, also to the model. Received: "
                f"vocabulary_size={vocabulary_size} and a token "
                f"{self.tokens.max()}"
            )

    def make_plan(self, epoch: int) -> Any:
        """The first token of each window of an epoch, in order."""
        if not self.shuffle:
            return self.length * np.arange(self.count)
        rng = np.random.default_rng((self.seed, epoch))
        # Windows begin at another token in each epoch.
        first = rng.integers(len(self.tokens) - self.count * self.length + 1)
        return first + self.length * rng.permutation(self.count)

    def __getitem__(self, index):
        pairs = [self._corrupted(start) for start in self.rows(index)]
        inputs, targets = (np.stack(side) for side in zip(*pairs, strict=True))
        first = np.full((len(targets), 1), self.start_token_id, targets.dtype)
        features = {
            "encoder_token_ids": inputs,
            "encoder_padding_mask": np.ones_like(inputs),
            "decoder_token_ids": np.hstack([first, targets[:, :-1]]),
            "decoder_padding_mask": np.ones_like(targets),
        }
        return features, targets, np.ones(targets.shape, "float32")

    def _corrupted(self, start):
        epoch = self.epoch if self.shuffle else 0
        rng = np.random.default_rng((self.seed, epoch, start))
        window = self.tokens[start : start + self.length]
        mask = span_mask(self.length, rng, *self.options)
        return [
            np.append(side, self.end_token_id).astype("int32")
            for side in corrupt_spans(window, mask, self.vocabulary_size)
        ]


def _counts(length, noise_density, mean_noise_span_length):
    """The numbers of removed tokens and of spans."""
    rates = noise_density, mean_noise_span_length
    if not (
        all(isinstance(rate, Real) for rate in rates)
        and 0 < noise_density < 1 <= mean_noise_span_length
    ):
        raise ValueError(
            "`noise_density` must be between 0 and 1, and "
            "`mean_noise_span_length` must be at least 1. Received: "
            f"noise_density={noise_density}, "
            f"mean_noise_span_length={mean_noise_span_length}"
        )
    noise = int(np.clip(np.round(length * noise_density), 1, length - 1))
    spans = max(1, int(np.round(noise / mean_noise_span_length)))
    return noise, min(spans, length - noise)


def _window_length(inputs_length, *options):
    """The number of raw tokens of inputs, which include the end token."""
    if check_positive("inputs_length", inputs_length) < 3:
        raise ValueError(
            "Inputs of span corruption need at least 3 tokens: a token, a "
            f"sentinel and the end. Received: inputs_length={inputs_length}"
        )
    length = 2
    while True:
        noise, spans = _counts(length + 1, *options)
        if length + 1 - noise + spans + 1 > inputs_length:
            return length
        length += 1


def _cut(count, parts, rng):
    """Random lengths, at least 1, of the parts of a number of tokens."""
    starts = np.arange(1, count) <= parts - 1  # the number of new parts
    rng.shuffle(starts)
    ends = np.flatnonzero(np.append(starts, True)) + 1
    return np.diff(ends, prepend=0)


def _with_sentinels(tokens, out, vocabulary_size):
    """Tokens with a sentinel for each removed span."""
    begins = out & ~np.append(False, out[:-1])
    sentinels = vocabulary_size - np.cumsum(begins)
    return np.where(begins, sentinels, tokens)[begins | ~out]

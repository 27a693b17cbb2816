"""BERT's objective: predict hidden tokens.

Devlin et al., 2019, https://arxiv.org/abs/1810.04805, section 3.1.
"""

import zlib
from collections.abc import Sequence
from numbers import Real

import numpy as np

from keras_synth._backend.checks import check_number, check_positive
from keras_synth.training.batches import EpochBatches
from keras_synth.types import Tensor


def mask_tokens(
    token_ids: Tensor,
    mask_token_id: int,
    vocabulary_size: int,
    special_token_ids: Sequence[int] = (),
    seed: int = 0,
    epoch: int | Sequence[int] = 0,
    selection_rate: float = 0.15,
    selection_length: int | None = None,
    mask_rate: float = 0.8,
    random_rate: float = 0.1,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Hides tokens of texts, drawn by NumPy.

    In each text `round(selection_rate * tokens)` tokens are chosen, at least
    one. A fraction `mask_rate` of these becomes the mask token, a fraction
    `random_rate` becomes a random token, and the rest do not change.

    The draw depends on `seed`, `epoch` and the text, but not on its place in a
    batch or on the backend.

    Args:
        token_ids: Integer array `(B, T)`.
        mask_token_id: Integer, hides tokens.
        vocabulary_size: Integer; random tokens are below it.
        special_token_ids: Integers that are neither hidden nor drawn: start,
            end and padding tokens.
        seed: Non-negative integer.
        epoch: Non-negative integer, or one for each text. Each number hides
            other tokens.
        selection_rate: Float, fraction of the tokens to choose.
        selection_length: Integer, maximum number of tokens to choose from a
            text, `M`; by default `round(selection_rate * T)`, at least 1.
        mask_rate: Float, fraction of the chosen tokens to mask.
        random_rate: Float, fraction of the chosen tokens to replace by random
            ones, which can be the same.

    Returns:
        `(hidden, positions, labels, weights)`: `token_ids` with hidden tokens,
        `(B, T)`; the chosen positions in ascending order, `(B, M)`; the
        original tokens at these positions; and floats, 0 for missing positions
        of a text with fewer than M.

    Raises:
        ValueError: If a rate, or the sum of `mask_rate` and `random_rate`, is
            not between 0 and 1; if the tokens are not integers `(B, T)`, or all
            tokens of the vocabulary are special.

    Example:

    >>> ids = np.array([[1, 7, 8, 9, 2, 0]])
    >>> hidden, positions, labels, weights = (
    ...     keras_synth.pretraining.mask_tokens(
    ...         ids, mask_token_id=4, vocabulary_size=10,
    ...         special_token_ids=[0, 1, 2, 3]))
    >>> positions.shape, weights.tolist()
    ((1, 1), [[1.0]])
    """
    check_rates(selection_rate, mask_rate, random_rate)
    check_number("seed", seed)
    token_ids = np.asarray(token_ids)
    if token_ids.ndim != 2 or token_ids.dtype.kind not in "iu":
        raise ValueError(
            "`token_ids` must be integers (B, T). Received: token_ids.shape="
            f"{token_ids.shape}, token_ids.dtype={token_ids.dtype}"
        )
    token_ids = token_ids.astype("int32")
    if selection_length is None:
        selection_length = max(1, round(selection_rate * token_ids.shape[1]))
    check_positive("selection_length", selection_length)
    shape = len(token_ids), selection_length
    special = [*special_token_ids, mask_token_id]
    others = np.setdiff1d(
        np.arange(check_positive("vocabulary_size", vocabulary_size)), special
    )
    if not len(others):
        raise ValueError(
            "The vocabulary must have tokens that are not special. Received: "
            f"vocabulary_size={vocabulary_size}, special tokens {special}"
        )
    hidden = token_ids.copy()
    positions: np.ndarray = np.zeros(shape, "int32")
    weights: np.ndarray = np.zeros(shape, "float32")
    epochs = np.broadcast_to(np.reshape(epoch, -1), len(token_ids))
    check_number("epoch", min(epochs, default=0))
    for i, (row, number) in enumerate(zip(token_ids, epochs, strict=True)):
        places = np.flatnonzero(~np.isin(row, special))
        if not len(places) or not selection_rate:
            continue
        rng = np.random.default_rng(
            (seed, number, zlib.crc32(row.astype("<i4").tobytes()))
        )
        count = min(max(1, round(selection_rate * len(places))), shape[1])
        chosen = np.sort(rng.choice(places, count, replace=False))
        fate, drawn = rng.random(count), rng.choice(others, count)
        hidden[i, chosen] = np.select(
            [fate < mask_rate, fate < mask_rate + random_rate],
            [mask_token_id, drawn],
            row[chosen],
        )
        positions[i, :count], weights[i, :count] = chosen, 1
    labels = np.take_along_axis(token_ids, positions, axis=1)
    return hidden, positions, labels, weights


class MaskedTokens(EpochBatches):
    """Batches for masked language models, with new hidden tokens each epoch.

    They are for `SynthesizerMaskedLM` without preprocessor:
    `(features, labels, sample_weight)`; see `mask_tokens`.

    Args:
        features: Dictionary of arrays `(N, T)`: `"token_ids"`, and others such
            as `"padding_mask"`.
        mask_token_id: Integer, as for `mask_tokens`.
        vocabulary_size: Integer, as for `mask_tokens`.
        special_token_ids: Integers, as for `mask_tokens`.
        batch_size: Integer, rows of a batch.
        shuffle: Whether to shuffle, for training. Otherwise, for evaluation,
            the order and hidden tokens are the same in each pass.
        drop_remainder: As for `keras_synth.training.EpochBatches`, like `seed`
            and `epoch`.

    Example:

    ```python
    rows = keras_synth.pretraining.pack_tokens(np.arange(10, 90), 10, 1, 2)
    batches = keras_synth.pretraining.MaskedTokens(
        rows, mask_token_id=4, vocabulary_size=100, batch_size=5
    )
    features, labels, weights = batches[0]
    print(features["mask_positions"].shape, labels.shape)  # (5, 2) (5, 2)
    ```
    """

    def __init__(
        self,
        features: dict[str, Tensor],
        mask_token_id: int,
        vocabulary_size: int,
        special_token_ids: Sequence[int] = (),
        batch_size: int = 32,
        shuffle: bool = True,
        drop_remainder: bool = False,
        seed: int = 0,
        epoch: int = 0,
    ) -> None:
        self.features = {k: np.asarray(x) for k, x in features.items()}
        self.options = mask_token_id, vocabulary_size, special_token_ids
        count = len(self.features["token_ids"])
        super().__init__(
            count, batch_size, shuffle, drop_remainder, seed, epoch
        )

    def __getitem__(self, index):
        epoch, rows = self.epoch if self.shuffle else 0, self.rows(index)
        features = {name: x[rows] for name, x in self.features.items()}
        hidden, positions, labels, weights = mask_tokens(
            features["token_ids"], *self.options, self.seed, epoch
        )
        features |= {"token_ids": hidden, "mask_positions": positions}
        return features, labels, weights


def pack_tokens(
    token_ids: Tensor,
    sequence_length: int,
    start_token_id: int,
    end_token_id: int,
) -> dict[str, Tensor]:
    """Cuts tokens into full rows, `[CLS] tokens [SEP]`, for `MaskedTokens`.

    Args:
        token_ids: Integer array `(N,)`, the concatenated ids of all texts. Last
            ids that do not fill a row are omitted.
        sequence_length: Integer, tokens of each row, at least 3.
        start_token_id: Integer, the first token of each row.
        end_token_id: Integer, the last token of each row.

    Returns:
        Dictionary of int32 arrays `(rows, sequence_length)`, `"token_ids"`
        and `"padding_mask"`.

    Raises:
        ValueError: If there are too few tokens for a row.

    Example:

    >>> rows = keras_synth.pretraining.pack_tokens(
    ...     np.arange(10, 17), 5, start_token_id=1, end_token_id=2)
    >>> rows["token_ids"].tolist()
    [[1, 10, 11, 12, 2], [1, 13, 14, 15, 2]]
    """
    inner = check_positive("sequence_length", sequence_length) - 2
    count = len(token_ids) // max(inner, 1)
    if inner < 1 or not count:
        raise ValueError(
            "A row needs a start token, an end token and at least one token "
            "between them. Pass more tokens or another sequence_length. "
            f"Received: {len(token_ids)} tokens and "
            f"sequence_length={sequence_length}"
        )
    rows = np.reshape(token_ids[: count * inner], (count, inner))
    ends = [(0, 0), (start_token_id, end_token_id)]
    rows = np.pad(rows, [(0, 0), (1, 1)], constant_values=ends).astype("int32")
    return {"token_ids": rows, "padding_mask": np.ones_like(rows)}


def check_rates(
    selection_rate: float, mask_rate: float, random_rate: float
) -> None:
    """Raises unless fractions of tokens are between 0 and 1."""
    rates = selection_rate, mask_rate, random_rate
    if (
        not all(isinstance(rate, Real) and 0 <= rate <= 1 for rate in rates)
        or mask_rate + random_rate > 1
    ):
        raise ValueError(
            "Rates, and the sum of mask_rate and random_rate, must be between "
            f"0 and 1. Received: selection_rate={selection_rate!r}, "
            f"mask_rate={mask_rate!r}, random_rate={random_rate!r}"
        )

"""BERT's objective: some tokens are hidden, and to be guessed.

Devlin et al., 2019, https://arxiv.org/abs/1810.04805, section 3.1.
"""

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np

from keras_synth._backend.checks import check_positive
from keras_synth.training.batches import LengthBuckets
from keras_synth.types import Tensor

MASKED, RANDOM = 0.8, 0.1  # shares of the chosen tokens; the rest stay


def mask_tokens(
    token_ids: Tensor,
    maskable: Tensor,
    rng: np.random.Generator,
    mask_token_id: int,
    random_token_ids: Tensor,
    share: float = 0.15,
) -> tuple[Tensor, Tensor]:
    """Hides tokens of one text.

    `round(share * maskable tokens)` of them, at least one, are chosen. Of
    these 80% become the mask token, 10% another token at random, and 10%
    stay as they are.

    Args:
        token_ids: Integer array `(T,)`.
        maskable: Boolean array `(T,)`, True for tokens that may be chosen:
            neither padding nor special tokens.
        rng: `numpy.random.Generator`.
        mask_token_id: Integer.
        random_token_ids: Integer array, tokens to draw from.
        share: Float, share of the tokens to choose.

    Returns:
        `(hidden, positions)`: array `(T,)` like `token_ids`, and the chosen
        positions in ascending order.
    """
    places = np.flatnonzero(maskable)
    count = max(1, round(share * len(places)))
    positions = np.sort(rng.choice(places, count, replace=False))
    fate = rng.random(count)
    drawn = rng.choice(random_token_ids, count)
    hidden = np.array(token_ids)
    new = np.where(fate < MASKED, mask_token_id, drawn)
    stays = fate >= MASKED + RANDOM
    hidden[positions] = np.where(stays, hidden[positions], new)
    return hidden, positions


class MaskedTokens(LengthBuckets):
    """Batches for masked language models, hidden anew in each epoch.

    With `shuffle=False`, to evaluate, the same tokens are hidden each time.

    Batches have the form of `keras_hub.models.MaskedLMPreprocessor`'s:
    features with `"mask_positions"`, the ids at these positions as labels,
    and weights that are 0 where a text has fewer positions than the longest.

    Args:
        features: Dictionary of arrays `(N, T)`: `"token_ids"`,
            `"padding_mask"`, not 0 for real tokens, and others such as
            `"segment_ids"`.
        mask_token_id: Integer, what hides tokens.
        vocabulary_size: Integer; tokens at random are drawn below it.
        special_token_ids: Integers that are never hidden or drawn: start, end
            and padding tokens.
        share: Float between 0 and 1, share of each text's tokens to hide.
        **options: `batch_size` and what else `LengthBuckets` takes, but for
            labels and weights.

    Raises:
        ValueError: If a text has no token that may be hidden, or an argument
            is out of range.

    Example:

    ```python
    ids = np.random.default_rng(0).integers(5, 100, (8, 32))
    batches = keras_synth.pretraining.MaskedTokens(
        {"token_ids": ids, "padding_mask": np.ones_like(ids)},
        mask_token_id=4,
        vocabulary_size=100,
        special_token_ids=[0, 1, 2],
        batch_size=4,
    )
    features, labels, weights = batches[0]
    print(features["mask_positions"].shape, labels.shape)  # (4, 5) (4, 5)
    ```
    """

    def __init__(
        self,
        features: dict[str, Any],
        mask_token_id: int,
        vocabulary_size: int,
        special_token_ids: Sequence[int] = (),
        share: float = 0.15,
        **options: Any,
    ) -> None:
        if not isinstance(share, Real) or not 0 < share < 1:
            raise ValueError(
                f"`share` must be between 0 and 1. Received: share={share}"
            )
        super().__init__(
            features, np.arange(len(features["token_ids"])), **options
        )
        ids = self.features["token_ids"]
        special = [*special_token_ids, mask_token_id]
        self.mask_token_id, self.share = mask_token_id, share
        self.maskable = (self.features["padding_mask"] != 0) & ~np.isin(
            ids, special
        )
        empty = np.flatnonzero(~self.maskable.any(axis=1))
        if len(empty):
            raise ValueError(
                "Each text must have a token that may be hidden. Leave out "
                "those that have none. Received: "
                f"{len(empty)} of {len(ids)} without, the first one number "
                f"{empty[0]}"
            )
        check_positive("vocabulary_size", vocabulary_size)
        self.random_token_ids = np.setdiff1d(
            np.arange(vocabulary_size), special
        )
        self.most = max(1, round(share * self.maskable.sum(axis=1).max()))

    def __getitem__(self, index):
        features, rows = super().__getitem__(index)
        ids = features["token_ids"]
        hidden = np.empty_like(ids)
        positions = np.zeros((len(rows), self.most), "int32")
        weights = np.zeros(positions.shape, "float32")
        epoch = self.epoch if self.shuffle else 0
        for i, row in enumerate(rows):
            rng = np.random.default_rng((self.seed, epoch, row))
            hidden[i], chosen = mask_tokens(
                ids[i],
                self.maskable[row, : ids.shape[1]],
                rng,
                self.mask_token_id,
                self.random_token_ids,
                self.share,
            )
            positions[i, : len(chosen)] = chosen
            weights[i, : len(chosen)] = 1
        labels = np.take_along_axis(ids, positions, axis=1)
        features = {
            **features,
            "token_ids": hidden,
            "mask_positions": positions,
        }
        return features, labels, weights

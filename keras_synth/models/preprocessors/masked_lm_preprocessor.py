"""From raw strings to texts with hidden tokens."""

from typing import Any

import keras
import keras_hub
import numpy as np

from keras_synth._backend.checks import check_number
from keras_synth._backend.configs import Configured
from keras_synth.models.backbones.backbone import SynthesizerBackbone
from keras_synth.models.preprocessors.arrays import (
    as_array,
    as_integers,
    call_numpy,
)
from keras_synth.models.preprocessors.checks import check_arguments
from keras_synth.models.preprocessors.tokenizer import SynthesizerTokenizer
from keras_synth.pretraining import mask_tokens
from keras_synth.pretraining.masked_tokens import check_rates


@keras.saving.register_keras_serializable(package="keras_synth")
class SynthesizerMaskedLMPreprocessor(
    Configured, keras_hub.models.MaskedLMPreprocessor
):
    """Tokenizes, packs and hides tokens for `SynthesizerMaskedLM`.

    `[CLS] text [SEP]`, or `[CLS] first [SEP] second [SEP]` for a pair of texts,
    cut and padded to `sequence_length`. `keras_synth.pretraining.mask_tokens`
    draws the hidden tokens, which are the same on all backends.

    Args:
        tokenizer: A `SynthesizerTokenizer`, or any KerasHub tokenizer with
            the special tokens `start_token`, `end_token`, `pad_token` and
            `mask_token`.
        sequence_length: Integer, length of the output in tokens.
        truncate: How to cut a pair that is too long, `"round_robin"` or
            `"waterfall"`; see `keras_hub.layers.MultiSegmentPacker`.
        mask_selection_rate: Float, fraction of each text's tokens to choose.
        mask_selection_length: Integer, maximum number of tokens to choose from
            a text, `M`; by default `mask_selection_rate` of `sequence_length`.
        mask_token_rate: Float, fraction of the chosen tokens to mask.
        random_token_rate: Float, fraction of the chosen tokens to replace by
            others. The rest do not change.
        with_segments: Whether to also return `"segment_ids"`, for a backbone
            with `num_segments`.
        seed: Non-negative integer, seed of the draws.
        **kwargs: Keyword arguments of `keras_hub.models.Preprocessor`.

    Call arguments:
        x: A string, a list of strings, a string tensor, or a tuple of two of
            them for pairs. KerasHub reads a single tuple as `(x, y)`, so call
            `preprocessor((first, second), None)`.
        y: Optional integer, or one for each text. Each number hides other
            tokens. Without it the same text always hides the same tokens.

    Returns:
        `(features, labels, sample_weight)`. Features are a dictionary of
        `"token_ids"` and `"padding_mask"`, `(B, T)`, and `"mask_positions"`,
        `(B, M)`. Labels are the tokens at these positions. Weights are 0 for
        missing positions of a text with fewer than M.

    Raises:
        ValueError: If the tokenizer lacks a special token, a rate is out of
            range, or y is not integers.

    Example:

    >>> tokenizer = keras_synth.models.SynthesizerTokenizer(
    ...     ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]", "a", "good", "film"])
    >>> preprocessor = keras_synth.models.SynthesizerMaskedLMPreprocessor(
    ...     tokenizer, sequence_length=6)
    >>> features, labels, weights = preprocessor(["a good film"])
    >>> features["token_ids"].shape, labels.shape
    ((1, 6), (1, 1))
    """

    takes_draws = True  # as y in training; see `with_draws`
    backbone_cls = SynthesizerBackbone
    tokenizer_cls = SynthesizerTokenizer

    def __init__(
        self,
        tokenizer: keras.Layer,
        sequence_length: int = 512,
        truncate: str = "round_robin",
        mask_selection_rate: float = 0.15,
        mask_selection_length: int | None = None,
        mask_token_rate: float = 0.8,
        random_token_rate: float = 0.1,
        with_segments: bool = False,
        seed: int = 0,
        **kwargs: Any,
    ) -> None:
        tokens = "start_token", "end_token", "pad_token", "mask_token"
        check_arguments(tokenizer, tokens, sequence_length=sequence_length)
        check_rates(mask_selection_rate, mask_token_rate, random_token_rate)
        if mask_selection_length is None:
            most = round(mask_selection_rate * sequence_length)
            mask_selection_length = max(1, most)
        super().__init__(
            tokenizer,
            sequence_length,
            truncate,
            mask_selection_rate,
            mask_selection_length,
            mask_token_rate,
            random_token_rate,
            **kwargs,
        )
        self.with_segments = bool(with_segments)
        self.seed = check_number("seed", seed)

    def call(self, x, y=None, sample_weight=None):
        parts = x if isinstance(x, tuple) else (x,)
        token_ids, segment_ids = self.packer(
            tuple(self.tokenizer(part) for part in parts)
        )
        is_token = as_integers(token_ids != self.tokenizer.pad_token_id)
        ids = [*token_ids.shape[:-1], self.sequence_length]
        chosen = [*token_ids.shape[:-1], self.mask_selection_length]
        hidden, positions, labels, weights = call_numpy(
            self._masked,
            [token_ids, 0 if y is None else y],
            ["int32", "int32", "int32", "float32"],
            [ids, chosen, chosen, chosen],
        )
        features = {
            "token_ids": hidden,
            "padding_mask": is_token,
            "mask_positions": positions,
        }
        if self.with_segments:
            features["segment_ids"] = as_array(segment_ids)
        return features, labels, weights

    def _masked(self, token_ids, draws):
        """`mask_tokens` for a batch, or for one text."""
        if np.asarray(draws).dtype.kind not in "iu":
            raise ValueError(
                "y must be integers, one for each choice of hidden tokens. For "
                "pairs of texts call `preprocessor((first, second), None)`. "
                f"Received: y={draws!r:.60}"
            )
        masked = mask_tokens(
            np.atleast_2d(token_ids),
            self.tokenizer.mask_token_id,
            self.tokenizer.vocabulary_size(),
            self.special_token_ids,
            self.seed,
            draws,
            self.mask_selection_rate,
            self.mask_selection_length,
            self.mask_token_rate,
            self.random_token_rate,
        )
        return masked if np.ndim(token_ids) > 1 else [x[0] for x in masked]

    @property
    def special_token_ids(self) -> Any:
        """Ids, also the unknown token's, that are not hidden or guessed."""
        unknown = getattr(self.tokenizer, "oov_token", None)
        ids = list(self.tokenizer.special_token_ids)
        if unknown is not None:
            ids.append(self.tokenizer.token_to_id(unknown))
        return ids

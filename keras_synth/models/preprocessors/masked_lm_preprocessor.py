"""From raw strings to texts with hidden tokens."""

from typing import Any

import keras
import keras_hub
import numpy as np
from keras import ops

from keras_synth._backend.checks import check_seed
from keras_synth._backend.configs import config_of
from keras_synth.models.preprocessors.preprocessor import PreprocessorMixin
from keras_synth.pretraining import MaskedTokens
from keras_synth.types import Tensor


@keras.saving.register_keras_serializable(package="keras_synth")
class SynthesizerMaskedLMPreprocessor(
    PreprocessorMixin, keras_hub.models.MaskedLMPreprocessor
):
    """Tokenizes, packs and hides tokens for `SynthesizerMaskedLM`.

    `[CLS] text [SEP]`, or `[CLS] first [SEP] second [SEP]` for a pair of
    texts, cut and padded to `sequence_length`. Which tokens are hidden is
    drawn by NumPy, so that it depends on no backend: see
    `keras_synth.pretraining.MaskedTokens`.

    Args:
        tokenizer: A `SynthesizerTokenizer`, or any KerasHub tokenizer with
            the special tokens `start_token`, `end_token`, `pad_token` and
            `mask_token`.
        sequence_length: Integer, length of the output in tokens.
        truncate: How to cut a pair that is too long, `"round_robin"` or
            `"waterfall"`; see `keras_hub.layers.MultiSegmentPacker`.
        mask_selection_rate: Float between 0 and 1, share of each text's
            tokens to hide.
        with_segments: Whether to return `"segment_ids"` too, for a backbone
            with `num_segments`.
        seed: Integer, not negative, of what is hidden.
        **kwargs: Keyword arguments of
            `keras_hub.models.MaskedLMPreprocessor`.

    Call arguments:
        x: A string, a list of strings, or a tuple of two such for pairs. Not
            the symbolic tensors of `tf.data.Dataset.map`.

    Returns:
        `(features, labels, sample_weight)`, see
        `keras_synth.pretraining.MaskedTokens`; the same tokens are hidden at
        each call.

    Raises:
        ValueError: If a text has no token that may be hidden.

    Example:

    >>> tokenizer = keras_synth.models.SynthesizerTokenizer(
    ...     ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]", "a", "good", "film"])
    >>> preprocessor = keras_synth.models.SynthesizerMaskedLMPreprocessor(
    ...     tokenizer, sequence_length=6)
    >>> features, labels, weights = preprocessor(["a good film"])
    >>> features["token_ids"].shape, labels.shape
    ((1, 6), (1, 1))
    """

    def __init__(
        self,
        tokenizer: keras.Layer,
        sequence_length: int = 512,
        truncate: str = "round_robin",
        mask_selection_rate: float = 0.15,
        with_segments: bool = False,
        seed: int = 0,
        **kwargs: Any,
    ) -> None:
        self._check_arguments(tokenizer, sequence_length=sequence_length)
        _check_mask_token(tokenizer)
        super().__init__(
            tokenizer, sequence_length, truncate, mask_selection_rate, **kwargs
        )
        self.with_segments = bool(with_segments)
        self.seed = check_seed("seed", seed)

    def call(
        self,
        x: Tensor,
        y: Tensor | None = None,
        sample_weight: Tensor | None = None,
    ) -> Tensor:
        if keras.utils.is_keras_tensor(x) or _is_symbolic(x):
            raise ValueError(
                "Tokens to hide are drawn by NumPy, which cannot be a part of "
                "a tf.data pipeline. Pass the texts to `fit`, or tokenize "
                "them with `tokens` and use keras_synth.pretraining."
                f"MaskedTokens. Received: {x}"
            )
        alone = isinstance(x, str)
        features = self.tokens([x] if alone else x)
        batches = self.batches(features, len(features["token_ids"]))
        if not alone:
            return batches[0]
        return keras.tree.map_structure(lambda part: part[0], batches[0])

    def tokens(self, x: Tensor) -> Any:
        """Tokenizes and packs texts, and hides nothing.

        Args:
            x: List of strings, or a tuple of two such.

        Returns:
            Dictionary of arrays `(N, T)`: `"token_ids"`, `"padding_mask"`
            and, with segments, `"segment_ids"`.
        """
        if not self.built:
            self.build(None)
        parts = x if isinstance(x, tuple) else (x,)
        packed = self.packer(tuple(self.tokenizer(part) for part in parts))
        token_ids, segment_ids = (
            np.asarray(ops.convert_to_numpy(part), "int32") for part in packed
        )
        real = token_ids != self.tokenizer.pad_token_id
        features = {
            "token_ids": token_ids,
            "padding_mask": real.astype("int32"),
        }
        if self.with_segments:
            features["segment_ids"] = segment_ids
        return features

    def batches(
        self, features: Any, batch_size: int, shuffle: bool = False
    ) -> Any:
        """Makes `MaskedTokens` of what `tokens` returns.

        Args:
            features: Dictionary of arrays.
            batch_size: Integer, texts per batch.
            shuffle: Whether each epoch has another order.
        """
        return self._masked(
            features, batch_size=batch_size, shuffle=shuffle, seed=self.seed
        )

    def hidden(
        self, features: Any, at: int = 0, epoch: int | None = None
    ) -> tuple[Any, Any, Any]:
        """Hides tokens of one batch of a stream of them.

        Args:
            features: Dictionary of arrays `(B, T)`, what `tokens` returns.
            at: Integer, number of the batch: each has other tokens hidden.
            epoch: Integer, number of the epoch, or `None` to hide the same
                tokens each time.

        Returns:
            `(features, labels, sample_weight)` as `MaskedTokens` has them,
            of one shape for all batches of as many texts.
        """
        drawn = np.random.SeedSequence((self.seed, at)).generate_state(1)
        batch = self._masked(
            features,
            batch_size=len(features["token_ids"]),
            shuffle=epoch is not None,
            seed=int(drawn[0]),
            epoch=epoch or 0,
        )
        most = round(self.mask_selection_rate * self.sequence_length)
        missing = [(0, 0), (0, max(1, most) - batch.most)]
        features, labels, weights = batch[0]
        positions = np.pad(features["mask_positions"], missing)
        return (
            {**features, "mask_positions": positions},
            np.pad(labels, missing),
            np.pad(weights, missing),
        )

    def _masked(self, features, **options):
        tokenizer = self.tokenizer
        return MaskedTokens(
            features,
            mask_token_id=tokenizer.mask_token_id,
            vocabulary_size=tokenizer.vocabulary_size(),
            special_token_ids=self.special_token_ids,
            share=self.mask_selection_rate,
            **options,
        )

    @property
    def special_token_ids(self) -> Any:
        """Ids that are neither hidden nor guessed, the unknown token's too."""
        unknown = getattr(self.tokenizer, "oov_token", None)
        ids = list(self.tokenizer.special_token_ids)
        if unknown is not None:
            ids.append(self.tokenizer.token_to_id(unknown))
        return ids

    def get_config(self) -> dict[str, Any]:
        cls = SynthesizerMaskedLMPreprocessor
        config = config_of(self, cls, super().get_config())
        # KerasHub's generator is not used, nor are its settings.
        unused = (
            "mask_selection_length",
            "mask_token_rate",
            "random_token_rate",
        )
        return {k: x for k, x in config.items() if k not in unused}


def _check_mask_token(tokenizer):
    if tokenizer is not None and not hasattr(tokenizer, "mask_token"):
        raise ValueError(
            "The tokenizer must have the attribute mask_token; "
            "keras_synth.models.SynthesizerTokenizer(vocabulary) has it. "
            f"Received: {type(tokenizer).__name__}"
        )


def _is_symbolic(x):
    parts = x if isinstance(x, tuple) else (x,)
    return any(
        hasattr(part, "graph") and not hasattr(part, "numpy") for part in parts
    )

"""From pairs of raw strings to the inputs of a sequence-to-sequence model."""

from typing import Any

import keras
import keras_hub

from keras_synth._backend.configs import Configured
from keras_synth.models.backbones.seq2seq_backbone import (
    SynthesizerSeq2SeqBackbone,
)
from keras_synth.models.preprocessors.checks import (
    check_arguments,
    check_prompts,
    check_texts,
)
from keras_synth.models.preprocessors.tokenizer import SynthesizerTokenizer


@keras.saving.register_keras_serializable(package="keras_synth")
class SynthesizerSeq2SeqLMPreprocessor(
    Configured, keras_hub.models.Seq2SeqLMPreprocessor
):
    """Tokenizes, packs and pads text pairs for `SynthesizerSeq2SeqLM`.

    Sources and targets are a start token, the text and an end token. Labels are
    the targets, one token later.

    Args:
        tokenizer: A `SynthesizerTokenizer`, or any KerasHub tokenizer with
            the special tokens `start_token`, `end_token` and `pad_token`, for
            source and target.
        encoder_sequence_length: Integer, length of sources in tokens. Longer
            ones are cut.
        decoder_sequence_length: Integer, length of targets in tokens.
        **kwargs: Keyword arguments of
            `keras_hub.models.Seq2SeqLMPreprocessor`.

    Call arguments:
        x: Dictionary of strings, lists of strings or string tensors:
            `"encoder_text"`, the sources, and `"decoder_text"`, the targets.

    Returns:
        `(features, labels, sample_weight)`, where features are a dictionary:
        `"encoder_token_ids"` and `"encoder_padding_mask"`, `(B, S)`,
        `"decoder_token_ids"` and `"decoder_padding_mask"`, `(B, T)`.

    Raises:
        ValueError: If the tokenizer lacks a special token, a text is missing,
            or a decoder prompt for `generate_preprocess` is longer than the
            targets.

    Example:

    >>> tokenizer = keras_synth.models.SynthesizerTokenizer(
    ...     ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]", "a", "good", "film"])
    >>> preprocessor = keras_synth.models.SynthesizerSeq2SeqLMPreprocessor(
    ...     tokenizer, encoder_sequence_length=6, decoder_sequence_length=5)
    >>> features, labels, weights = preprocessor(
    ...     {"encoder_text": ["a good film"], "decoder_text": ["a film"]})
    >>> features["encoder_token_ids"].shape, labels.shape
    ((1, 6), (1, 5))
    """

    backbone_cls = SynthesizerSeq2SeqBackbone
    tokenizer_cls = SynthesizerTokenizer

    def __init__(
        self,
        tokenizer: keras.Layer,
        encoder_sequence_length: int = 512,
        decoder_sequence_length: int = 512,
        **kwargs: Any,
    ) -> None:
        check_arguments(
            tokenizer,
            encoder_sequence_length=encoder_sequence_length,
            decoder_sequence_length=decoder_sequence_length,
        )
        super().__init__(
            tokenizer,
            encoder_sequence_length,
            decoder_sequence_length,
            **kwargs,
        )

    def call(self, x, y=None, sample_weight=None, **kwargs):
        check_texts(x)
        return super().call(x, y, sample_weight, **kwargs)

    def generate_preprocess(
        self,
        x,
        *,
        encoder_sequence_length=None,
        decoder_sequence_length=None,
        sequence_length=None,
    ):
        """Returns sources and decoder prompts as ids and masks.

        Args:
            x: String or list of strings, the sources; or a dictionary as in
                training, with the start of targets as `"decoder_text"`.
            encoder_sequence_length: Integer, length of sources in tokens.
            decoder_sequence_length: Integer, length of targets in tokens.
            sequence_length: Another name of `decoder_sequence_length`.

        Returns:
            Dictionary of features as in training.
        """
        length = (
            decoder_sequence_length
            or sequence_length
            or self.decoder_sequence_length
        )
        if isinstance(x, dict):
            check_texts(x)
            # One token is the start token.
            check_prompts(x["decoder_text"], self.tokenizer, length - 1)
        return super().generate_preprocess(
            x,
            encoder_sequence_length=encoder_sequence_length,
            decoder_sequence_length=length,
        )

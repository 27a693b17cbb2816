"""From raw strings to the inputs of a language model."""

from typing import Any

import keras
import keras_hub

from keras_synth.models.backbones.backbone import SynthesizerBackbone
from keras_synth.models.preprocessors.checks import (
    check_arguments,
    check_prompts,
)
from keras_synth.models.preprocessors.tokenizer import SynthesizerTokenizer


@keras.saving.register_keras_serializable(package="keras_synth")
class SynthesizerCausalLMPreprocessor(keras_hub.models.CausalLMPreprocessor):
    """Tokenizes, packs and pads text for `SynthesizerCausalLM`.

    Features are a start token, the text and an end token. Labels are the same,
    one token later.

    Args:
        tokenizer: A `SynthesizerTokenizer`, or any KerasHub tokenizer with
            the special tokens `start_token`, `end_token` and `pad_token`.
        sequence_length: Integer, length of the output in tokens.
        **kwargs: Keyword arguments of
            `keras_hub.models.CausalLMPreprocessor`, such as
            `add_start_token`.

    Call arguments:
        x: A string, a list of strings or a string tensor.

    Returns:
        `(features, labels, sample_weight)`, where features are a dictionary of
        `(B, T)` tensors, `"token_ids"` and `"padding_mask"`.

    Raises:
        ValueError: If the tokenizer lacks a special token, or a prompt for
            `generate_preprocess` is longer than the sequence.

    Example:

    >>> tokenizer = keras_synth.models.SynthesizerTokenizer(
    ...     ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]", "a", "good", "film"])
    >>> preprocessor = keras_synth.models.SynthesizerCausalLMPreprocessor(
    ...     tokenizer, sequence_length=6)
    >>> features, labels, weights = preprocessor("a good film")
    >>> keras.ops.convert_to_numpy(labels)
    array([5, 6, 7, 2, 0, 0], dtype=int32)
    """

    backbone_cls = SynthesizerBackbone
    tokenizer_cls = SynthesizerTokenizer

    def __init__(
        self, tokenizer: keras.Layer, sequence_length: int = 512, **kwargs: Any
    ) -> None:
        check_arguments(tokenizer, sequence_length=sequence_length)
        super().__init__(tokenizer, sequence_length, **kwargs)

    def generate_preprocess(self, x, sequence_length=None):
        """Returns prompts, which are never cut, as token ids and a mask."""
        length = sequence_length or self.sequence_length
        # One token is the start token.
        check_prompts(x, self.tokenizer, length - 1)
        return super().generate_preprocess(x, sequence_length=length)

"""From raw strings to the inputs of a classifier."""

from typing import Any

import keras
import keras_hub

from keras_synth._backend.configs import config_of
from keras_synth.models.preprocessors.preprocessor import PreprocessorMixin
from keras_synth.types import Shape, Tensor

KEEP = ("start", "end")


@keras.saving.register_keras_serializable(package="keras_synth")
class SynthesizerTextClassifierPreprocessor(
    PreprocessorMixin, keras_hub.models.TextClassifierPreprocessor
):
    """Tokenizes, packs and pads text for `SynthesizerTextClassifier`.

    `[CLS] text [SEP]`, or `[CLS] first [SEP] second [SEP]` for a pair of
    texts, cut and padded to `sequence_length`.

    Args:
        tokenizer: A `SynthesizerTokenizer`, or any KerasHub tokenizer with
            the special tokens `start_token`, `end_token` and `pad_token`.
        sequence_length: Integer, length of the output in tokens.
        truncate: How to cut a pair that is too long, `"round_robin"` or
            `"waterfall"`; see `keras_hub.layers.MultiSegmentPacker`.
        keep: Which part of a text that is too long to keep, `"start"` or
            `"end"`. Reviews tend to conclude at the end. With `"end"` the two
            texts of a pair share the length equally.
        with_segments: Whether to return `"segment_ids"` too, for a backbone
            with `num_segments`.
        **kwargs: Keyword arguments of
            `keras_hub.models.TextClassifierPreprocessor`.

    Call arguments:
        x: A string, a list of strings, a string tensor, or a tuple of two
            such for pairs.
        y: Optional labels, passed through.
        sample_weight: Optional weights, passed through.

    Returns:
        A dictionary of `(B, T)` integer tensors, `"token_ids"` and
        `"padding_mask"`; `(x, y)` or `(x, y, sample_weight)` if those were
        given.

    Example:

    >>> tokenizer = keras_synth.models.SynthesizerTokenizer(
    ...     ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]", "a", "good", "film"])
    >>> preprocessor = keras_synth.models.SynthesizerTextClassifierPreprocessor(
    ...     tokenizer, sequence_length=6)
    >>> features = preprocessor("a good film")
    >>> keras.ops.convert_to_numpy(features["token_ids"])
    array([1, 5, 6, 7, 2, 0], dtype=int32)
    """

    def __init__(
        self,
        tokenizer: keras.Layer,
        sequence_length: int = 512,
        truncate: str = "round_robin",
        keep: str = "start",
        with_segments: bool = False,
        **kwargs: Any,
    ) -> None:
        self._check_arguments(tokenizer, sequence_length=sequence_length)
        super().__init__(tokenizer, sequence_length, truncate, **kwargs)
        if keep not in KEEP:
            raise ValueError(
                f"`keep` must be one of {KEEP}. Received: keep={keep!r}"
            )
        self.keep = keep
        self.with_segments = bool(with_segments)

    def build(self, input_shape: Shape) -> None:
        super().build(input_shape)
        if self.keep == "end":
            self.packer = _LastTokensPacker(
                start_value=self.tokenizer.start_token_id,
                end_value=self.tokenizer.end_token_id,
                pad_value=self.tokenizer.pad_token_id,
                truncate=self.truncate,
                sequence_length=self.sequence_length,
            )

    def call(
        self,
        x: Tensor,
        y: Tensor | None = None,
        sample_weight: Tensor | None = None,
    ) -> Tensor:
        made = super().call(x, y, sample_weight)
        features, y, sample_weight = keras.utils.unpack_x_y_sample_weight(made)
        if not self.with_segments:
            features = {**features}
            del features["segment_ids"]
        return keras.utils.pack_x_y_sample_weight(features, y, sample_weight)

    def get_config(self) -> dict[str, Any]:
        return config_of(
            self, SynthesizerTextClassifierPreprocessor, super().get_config()
        )


class _LastTokensPacker(keras_hub.layers.MultiSegmentPacker):
    """Packs the last tokens of each text instead of the first."""

    def call(self, inputs, *args, **kwargs):
        segments = inputs if isinstance(inputs, tuple) else (inputs,)
        # Room for a start token and an end token after each segment.
        length = (self.sequence_length - 1) // len(segments) - 1
        segments = tuple(_last(segment, length) for segment in segments)
        return super().call(segments, *args, **kwargs)


def _last(tokens, count):
    """The last `count` tokens of each text: lists or TensorFlow tensors."""
    if not isinstance(tokens, list):
        return tokens[..., -count:]
    if tokens and isinstance(tokens[0], list):
        return [row[-count:] for row in tokens]
    return tokens[-count:]

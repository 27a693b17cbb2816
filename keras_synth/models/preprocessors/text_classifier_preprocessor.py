"""From raw strings to the inputs of a classifier."""

from typing import Any

import keras
import keras_hub
import numpy as np

from keras_synth._backend.configs import Configured
from keras_synth.models.backbones.backbone import SynthesizerBackbone
from keras_synth.models.preprocessors.arrays import (
    as_array,
    as_integers,
    in_graph,
    next_in_rows,
)
from keras_synth.models.preprocessors.checks import check_arguments
from keras_synth.models.preprocessors.tokenizer import SynthesizerTokenizer
from keras_synth.types import Shape

KEEP = ("start", "end")


@keras.saving.register_keras_serializable(package="keras_synth")
class SynthesizerTextClassifierPreprocessor(
    Configured, keras_hub.models.TextClassifierPreprocessor
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
        keep: `"start"` or `"end"`, the part of a long text to keep. Reviews
            tend to conclude at the end. `"end"` needs `truncate="round_robin"`.
        with_segments: Whether to also return `"segment_ids"`, for a backbone
            with `num_segments`.
        **kwargs: Keyword arguments of
            `keras_hub.models.TextClassifierPreprocessor`.

    Call arguments:
        x: A string, a list of strings, a string tensor, or a tuple of two of
            them for pairs. KerasHub reads a single tuple as `(x, y)`, so call
            `preprocessor((first, second), None)`.
        y: Optional labels, returned unchanged.
        sample_weight: Optional weights, returned unchanged.

    Returns:
        A dictionary of `(B, T)` integer tensors, `"token_ids"` and
        `"padding_mask"`. With labels `(x, y)` or `(x, y, sample_weight)`.

    Example:

    >>> tokenizer = keras_synth.models.SynthesizerTokenizer(
    ...     ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]", "a", "good", "film"])
    >>> preprocessor = keras_synth.models.SynthesizerTextClassifierPreprocessor(
    ...     tokenizer, sequence_length=6)
    >>> features = preprocessor("a good film")
    >>> keras.ops.convert_to_numpy(features["token_ids"])
    array([1, 5, 6, 7, 2, 0], dtype=int32)
    """

    backbone_cls = SynthesizerBackbone
    tokenizer_cls = SynthesizerTokenizer

    def __init__(
        self,
        tokenizer: keras.Layer,
        sequence_length: int = 512,
        truncate: str = "round_robin",
        keep: str = "start",
        with_segments: bool = False,
        **kwargs: Any,
    ) -> None:
        check_arguments(tokenizer, sequence_length=sequence_length)
        super().__init__(tokenizer, sequence_length, truncate, **kwargs)
        if keep not in KEEP:
            raise ValueError(
                f"`keep` must be one of {KEEP}. Received: keep={keep!r}"
            )
        if keep == "end" and truncate != "round_robin":
            raise ValueError(
                'keep="end" needs truncate="round_robin". Received: '
                f"truncate={truncate!r}"
            )
        self.keep = keep
        self.with_segments = bool(with_segments)

    def build(self, input_shape: Shape) -> None:
        super().build(input_shape)
        if self.keep == "end":
            self.packer = _LastTokensPacker(
                # It packs from the end.
                start_value=self.tokenizer.end_token_id,
                end_value=self.tokenizer.start_token_id,
                sep_value=self.tokenizer.end_token_id,
                pad_value=self.tokenizer.pad_token_id,
                padding_side="left",
                sequence_length=self.sequence_length,
            )

    def call(self, x, y=None, sample_weight=None):
        made = super().call(x, y, sample_weight)
        features, y, sample_weight = keras.utils.unpack_x_y_sample_weight(made)
        if not self.with_segments:
            features = {**features}
            del features["segment_ids"]
        return keras.utils.pack_x_y_sample_weight(features, y, sample_weight)


class _LastTokensPacker(keras_hub.layers.MultiSegmentPacker):
    """Packs the last tokens of each text instead of the first.

    It packs reversed texts in reverse order, and reverses the result.
    """

    def call(self, inputs, *args, **kwargs):
        segments = inputs if isinstance(inputs, tuple) else (inputs,)
        segments = tuple(map(_reversed, segments))[::-1]
        token_ids, segment_ids = super().call(segments, *args, **kwargs)
        if not in_graph([token_ids]):
            token_ids, segment_ids = map(as_array, (token_ids, segment_ids))
        is_token = as_integers(token_ids != self.pad_value)
        segment_ids = (len(segments) - 1 - segment_ids) * is_token
        # A separator belongs to the segment before it.
        is_end = as_integers(token_ids == self.start_value[0])
        segment_ids += is_end * (next_in_rows(segment_ids) - segment_ids)
        turned = token_ids[..., ::-1], segment_ids[..., ::-1]
        if in_graph([token_ids]):
            return turned
        # PyTorch's loaders do not support negative strides.
        return tuple(map(np.ascontiguousarray, turned))


def _reversed(tokens):
    """Reversed texts: lists, an array, or ragged tensors of TensorFlow."""
    if isinstance(tokens, list):
        return [row[::-1] for row in tokens]
    return tokens[..., ::-1]

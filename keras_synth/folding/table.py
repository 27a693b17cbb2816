"""`TableSynthesizer`, a part of folded models."""

from typing import Any

import keras
from keras import ops

from keras_synth._backend.checks import check_boolean, check_positive
from keras_synth._backend.distributions import MODEL
from keras_synth.attention.logits import Logits, Weights
from keras_synth.synthesizers.synthesizer import Synthesizer


@keras.saving.register_keras_serializable(package="keras_synth")
class TableSynthesizer(Synthesizer):
    """A fixed table of logits, or of weights, that `keras_synth.fold` makes.

    Args:
        num_heads: Integer, `H`.
        max_length: Integer, `N`, in tokens.
        softmaxed: Whether the table contains weights, `softmax(S)`; otherwise
            logits, `S`.
        long_inputs: `"error"`, or `"tile"`: `S[i, j] = S[i mod N, j mod N]`.
        needs_float32: See `Synthesizer`.
        **kwargs: Arguments of `Synthesizer`.

    Call arguments: those of `Synthesizer.call`.

    Returns:
        `Logits`: bias `(1, H, T, S)`; or `Weights` `(1, H, T, S)`.

    Example:

    >>> layer = keras_synth.layers.SyntheticAttention(
    ...     4, 16, synthesizer="FR", max_length=128)
    >>> layer.build((None, None, 64))
    >>> folded = keras_synth.fold(layer, max_length=32)
    >>> folded.synthesizer.table.shape
    (4, 32, 32)
    """

    reads_tokens = False
    is_bias = True
    weight_axes = {"table": (MODEL,)}

    def __init__(
        self,
        num_heads: int,
        max_length: int,
        softmaxed: bool = False,
        long_inputs: str = "error",
        needs_float32: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            num_heads,
            check_positive("max_length", max_length),
            long_inputs,
            **kwargs,
        )
        self.softmaxed = check_boolean("softmaxed", softmaxed)
        self.needs_float32 = check_boolean("needs_float32", needs_float32)
        self.table = None

    def build(self, query_shape, source_shape=None):
        self.table = self.add_table(
            "table",
            (self.num_heads, self.max_length, self.max_length),
            "zeros",
            trainable=False,
            dtype="float32",  # half precision does not hold small weights
        )

    def call(self, query, keys=None, *, start=0, length=None):
        target_length, source_length = self.lengths(query, start, length)
        rows = self.window(self.table, 1, start, target_length)
        table = self.window(rows, 2, 0, source_length)[None]
        if not self.softmaxed:
            return Logits(bias=table, needs_float32=self.needs_float32)
        is_whole = isinstance(source_length, int)
        if not is_whole or source_length != self.max_length:
            table = table / ops.sum(table, axis=-1, keepdims=True)
        return Weights(table)

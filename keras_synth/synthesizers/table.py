"""Tables computed once: what is left of synthesizers that read no token."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_synth._backend.checks import check_positive
from keras_synth._backend.distributions import MODEL
from keras_synth.attention.logits import Logits, SteepLogits, Weights
from keras_synth.attention.positions import shortest
from keras_synth.synthesizers.synthesizer import Synthesizer
from keras_synth.types import Shape, Size, Tensor

# Weights that no mask makes vanish in float32: any of them may be the only one
# that is left. Rows whose logits spread by more than 46 stay logits.
LEAST_WEIGHT = 1e-20


@keras.saving.register_keras_serializable(package="keras_synth")
class TableSynthesizer(Synthesizer):
    """A fixed table of logits, or of attention weights, for inference.

    `keras_synth.fold` makes it of synthesizers that read no token (R, FR, Fix,
    relative positions and their mixtures). It is not trained.

    Args:
        num_heads: Integer, `H`.
        max_length: Integer, `N`, in tokens.
        softmaxed: Whether the table holds weights, `softmax(S)`; otherwise
            logits, `S`.
        long_inputs: `"error"`, or `"tile"`: `S[i, j] = S[i mod N, j mod N]`.
        is_steep: Whether a part of it is, see `Synthesizer`.
        **kwargs: Keyword arguments of `keras.layers.Layer`.

    Call arguments: see `RandomSynthesizer`.

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
        is_steep: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            num_heads,
            check_positive("max_length", max_length),
            long_inputs,
            **kwargs,
        )
        self.softmaxed = bool(softmaxed)
        self.is_steep = bool(is_steep)
        self.table = None

    def build(
        self, query_shape: Shape, source_shape: Shape | None = None
    ) -> None:
        self.table = self.add_table(
            "table",
            (self.num_heads, self.max_length, self.max_length),
            "zeros",
            trainable=False,
        )
        self.built = True

    def call(
        self,
        query: Tensor,
        keys: Tensor | None = None,
        *,
        start: Size = 0,
        length: int | None = None,
    ) -> Logits | Weights:
        target_length, source_length = self.lengths(query, start, length)
        rows = self.window(self.table, 1, start, target_length)
        table = self.window(rows, 2, 0, source_length)[None]
        if not self.softmaxed:
            return (SteepLogits if self.is_steep else Logits)(bias=table)
        table = ops.cast(table, "float32")
        whole = isinstance(source_length, int)
        if not whole or source_length != self.max_length:
            table = table / ops.sum(table, axis=-1, keepdims=True)
        return Weights(table)

    def enable_lora(self, rank: int) -> None:
        """Leaves the table as it is: it is not trained."""
        check_positive("rank", rank)


def folded(synthesizer, max_length, softmax=True):
    """Returns a synthesizer of equal logits for inference, without weights.

    Args:
        synthesizer: `Synthesizer` with weights.
        max_length: Optional integer, the longest sequence to come, in tokens;
            by default the synthesizer's own.
        softmax: Whether nothing will be added to its logits.

    Raises:
        ValueError: If a table would have no bound, or its logits depend on
            the length of the sequence.
    """
    max_length = shortest(bound(synthesizer), max_length)
    if max_length is None and synthesizer.max_length is not None:
        max_length = synthesizer.max_length  # it is tiled
    if max_length is None and _has_tables(synthesizer):
        raise ValueError(
            "Sequences of any length would need a table without end. Give the "
            "longest one to come, as in fold(model, max_length=512). Received: "
            f"max_length=None for {synthesizer!r}"
        )
    if len(synthesizer.head_groups()) > 1 and synthesizer.reads_tokens:
        return synthesizer.folded(max_length, softmax)
    if synthesizer.reads_tokens:
        return synthesizer.folded(max_length)
    logits = logits_of(synthesizer, max_length)
    _check_positions(synthesizer, logits)
    return TableSynthesizer(
        synthesizer.num_heads,
        max_length,
        bool(softmax and _weights(logits).min() > LEAST_WEIGHT),
        synthesizer.long_inputs
        if max_length == synthesizer.max_length
        else "error",
        synthesizer.is_steep,
        name=synthesizer.name,
        dtype=synthesizer.dtype_policy,
    )


def fold_into(synthesizer, target):
    """Gives weights to what `folded` has returned.

    Args:
        synthesizer: `Synthesizer` with weights.
        target: `Synthesizer`, built.
    """
    if not isinstance(target, TableSynthesizer):
        synthesizer.fold_into(target)
        return
    logits = logits_of(synthesizer, target.max_length)
    target.table.assign(_weights(logits) if target.softmaxed else logits)


def bound(synthesizer):
    """The longest sequence that a synthesizer and its parts take, or `None`."""
    parts = getattr(synthesizer, "synthesizers", ())
    tiled = synthesizer.long_inputs == "tile"
    own = None if tiled else synthesizer.max_length
    return shortest(own, *map(bound, parts))


def logits_of(synthesizer, length):
    """The logits of one that reads no token, float32 `(H, length, length)`."""
    query = ops.zeros((1, length, 1))
    logits = synthesizer(query, length=length).with_rows(length)
    return ops.convert_to_numpy(logits.materialize())[0]


def _weights(logits):
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def _has_tables(synthesizer):
    parts = getattr(synthesizer, "synthesizers", ())
    return not synthesizer.reads_tokens or any(map(_has_tables, parts))


def _check_positions(synthesizer, logits):
    """Raises unless shorter sequences have the same logits, up to the rows'."""
    half = max(1, logits.shape[1] // 2)
    change = logits[:, :half, :half] - logits_of(synthesizer, half)
    if np.ptp(change, axis=-1).max() > 1e-3:
        raise ValueError(
            "A synthesizer that reads no token must have a table of positions, "
            "the same for sequences of all lengths, to be folded. Set "
            "`reads_tokens = True` in its class to leave it as it is. "
            f"Received: {synthesizer!r}"
        )

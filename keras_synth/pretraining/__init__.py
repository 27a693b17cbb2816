"""Objectives that need no labels: span corruption and masked tokens.

All is drawn by NumPy from a seed, the epoch and the number of an example, so
that every backend and every model trains on the same.
"""

from keras_synth.pretraining.masked_tokens import MaskedTokens, mask_tokens
from keras_synth.pretraining.span_corruption import (
    SpanCorruption,
    corrupt_spans,
    corrupted_lengths,
    span_mask,
    window_length,
)
from keras_synth.pretraining.windows import pack_tokens

__all__ = [
    "MaskedTokens",
    "SpanCorruption",
    "corrupt_spans",
    "corrupted_lengths",
    "mask_tokens",
    "pack_tokens",
    "span_mask",
    "window_length",
]

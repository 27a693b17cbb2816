"""Objectives without labels: span corruption and masked tokens.

NumPy draws everything from a seed, so that all backends and models train on the
same data.
"""

from keras_synth.pretraining.masked_tokens import (
    MaskedTokens,
    mask_tokens,
    pack_tokens,
)
from keras_synth.pretraining.span_corruption import (
    SpanCorruption,
    corrupt_spans,
    span_mask,
)

__all__ = [
    "MaskedTokens",
    "SpanCorruption",
    "corrupt_spans",
    "mask_tokens",
    "pack_tokens",
    "span_mask",
]

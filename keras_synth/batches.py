"""Batches of few shapes."""

from keras_synth.training.batches import (
    EpochBatches,
    LengthBuckets,
    StepsPerEpoch,
    TokenWindows,
)

__all__ = ["EpochBatches", "LengthBuckets", "StepsPerEpoch", "TokenWindows"]

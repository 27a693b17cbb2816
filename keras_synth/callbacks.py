"""Checkpoints, logs and times of training."""

from keras_synth.training.callbacks import (
    EpochCheckpoint,
    EpochLog,
    StepLog,
    TimedBatches,
    fit_from_checkpoint,
    speed,
)

__all__ = [
    "EpochCheckpoint",
    "EpochLog",
    "StepLog",
    "TimedBatches",
    "fit_from_checkpoint",
    "speed",
]

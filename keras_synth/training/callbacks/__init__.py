"""Callbacks: training that resumes, and its speed."""

from keras_synth.training.callbacks.checkpoints import (
    EpochCheckpoint,
    fit_from_checkpoint,
)
from keras_synth.training.callbacks.logs import (
    EpochLog,
    StepLog,
    TimedBatches,
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

"""Callbacks: training that resumes, its speed, and what attention does."""

from keras_synth.training.callbacks.attention_summary import AttentionSummary
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
    "AttentionSummary",
    "EpochCheckpoint",
    "EpochLog",
    "StepLog",
    "TimedBatches",
    "fit_from_checkpoint",
    "speed",
]

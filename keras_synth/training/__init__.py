"""Batches of similar lengths, a schedule and a loss.

For metrics, checkpoints, logs and other schedules, use Keras and KerasHub.
"""

from keras_synth.training.batches import EpochBatches, LengthBuckets
from keras_synth.training.losses import LabelSmoothedCrossentropy
from keras_synth.training.optimizers import adamw
from keras_synth.training.schedules import InverseSquareRoot

__all__ = [
    "EpochBatches",
    "InverseSquareRoot",
    "LabelSmoothedCrossentropy",
    "LengthBuckets",
    "adamw",
]

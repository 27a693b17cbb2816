"""What training needs beyond Keras: batches of few lengths, a schedule.

Metrics, checkpoints, logs and other schedules are those of Keras and KerasHub.
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

"""Learning rates by step."""

from keras_synth.training.schedules import (
    InverseSquareRootDecay,
    cosine_with_warmup,
    warmup_of,
)

__all__ = ["InverseSquareRootDecay", "cosine_with_warmup", "warmup_of"]

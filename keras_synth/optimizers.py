"""Optimizers with the usual options of Transformers."""

from keras_synth.training.optimizers import adamw

__all__ = ["adamw"]

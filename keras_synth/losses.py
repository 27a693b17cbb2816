"""Losses over tokens."""

from keras_synth.training.losses import LabelSmoothedCrossentropy

__all__ = ["LabelSmoothedCrossentropy"]

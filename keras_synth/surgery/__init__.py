"""Synthesizers in models that are trained already."""

from keras_synth.surgery.grafting import graft

__all__ = ["graft"]

"""Synthesizers in models that are trained already."""

from keras_synth.surgery.grafting import graft
from keras_synth.surgery.resizing import lengthen, shorten
from keras_synth.surgery.synthesizing import synthesize

__all__ = ["graft", "lengthen", "shorten", "synthesize"]

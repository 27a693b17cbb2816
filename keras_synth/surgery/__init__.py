"""Synthesizers for trained models. Needs the extra `nlp` (keras-nlp)."""

from keras_synth import models  # noqa: F401  it names the missing extra
from keras_synth.surgery.conversions import register
from keras_synth.surgery.distilling import distill
from keras_synth.surgery.grafting import graft
from keras_synth.surgery.reporting import report
from keras_synth.surgery.resizing import lengthen, shorten
from keras_synth.surgery.synthesizing import synthesize

__all__ = [
    "distill",
    "graft",
    "lengthen",
    "register",
    "report",
    "shorten",
    "synthesize",
]

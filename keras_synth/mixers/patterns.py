"""Patterns: which positions attend to which."""

from keras_synth.attention.patterns import *  # noqa: F403
from keras_synth.attention.patterns import __all__ as __all__

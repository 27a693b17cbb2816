"""Normalizers: functions from logits to attention weights."""

from keras_synth.attention.normalizers import *  # noqa: F403
from keras_synth.attention.normalizers import __all__ as __all__

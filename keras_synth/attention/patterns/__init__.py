"""Patterns: which positions see which, combined by `|`.

A pattern is a small immutable value, defined by `allows`. Its `piece` says how
to compute it without a tensor of all pairs; see `keras_synth.attention.blocks`.
"""

from keras_synth.attention.patterns.of_blocks import BlockWindow, RandomBlocks
from keras_synth.attention.patterns.pairs import Pairs
from keras_synth.attention.patterns.pattern import Pattern, Union
from keras_synth.attention.patterns.registry import get
from keras_synth.attention.patterns.regular import (
    FirstTokens,
    GlobalTokens,
    Stride,
    Window,
)

__all__ = [
    "BlockWindow",
    "FirstTokens",
    "GlobalTokens",
    "Pairs",
    "Pattern",
    "RandomBlocks",
    "Stride",
    "Union",
    "Window",
    "get",
]

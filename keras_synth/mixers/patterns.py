"""Sparse patterns: which positions attend to which."""

from keras_synth.attention.patterns import (
    BlockWindow,
    FirstTokens,
    GlobalTokens,
    Pairs,
    Pattern,
    RandomBlocks,
    Stride,
    Union,
    Window,
    get,
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

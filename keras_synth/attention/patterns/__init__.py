"""Patterns: which positions see which, combined by `|`.

A pattern is a small immutable value, defined by `allows`. Its `piece` says how
to compute it without a tensor of all pairs; see `keras_synth.attention.blocks`.
"""

import ast

from keras import ops

from keras_synth.attention.patterns.of_blocks import BlockWindow, RandomBlocks
from keras_synth.attention.patterns.pairs import Pairs
from keras_synth.attention.patterns.pattern import Pattern, Union
from keras_synth.attention.patterns.regular import (
    FirstTokens,
    GlobalTokens,
    Stride,
    Window,
)
from keras_synth.registry import Entry, Registry
from keras_synth.types import Identifier

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


def _local(window: int, dilation: int = 1) -> Window:
    return Window(window, dilation)


def _first(tokens: int) -> FirstTokens:
    return FirstTokens(tokens)


def _global(tokens: int) -> GlobalTokens:
    return GlobalTokens(tokens)


PATTERNS = Registry("pattern", Pattern)
PATTERNS.add(
    Entry("local", _local),
    Entry("first", _first),
    Entry("global", _global),
    Entry("stride", Stride),
    Entry("blocks", BlockWindow),
    Entry("random", RandomBlocks),
)


def get(pattern: Identifier) -> Pattern:
    """Returns a pattern.

    Args:
        pattern: `Pattern`; names such as
            `"local(window=16) | global(tokens=2)"`; a boolean array `(N, N)`;
            or a config.

    Raises:
        ValueError: If it is unknown.

    Example:

    >>> keras_synth.mixers.patterns.get("local(window=2) | stride(stride=8)")
    Union(patterns=(Window(size=2, dilation=1), Stride(stride=8)))
    """
    if len(getattr(pattern, "shape", ())) == 2:
        return Pairs(ops.convert_to_numpy(pattern))
    parts = PATTERNS.get(pattern, ast.BitOr)
    return parts[0] if len(parts) == 1 else Union(tuple(parts))

"""Patterns by their names: `"local(window=16) | global(tokens=2)"`."""

import ast
import dataclasses
import re

from keras import ops

from keras_synth import identifiers
from keras_synth.attention.patterns.of_blocks import BlockWindow, RandomBlocks
from keras_synth.attention.patterns.pairs import Pairs
from keras_synth.attention.patterns.pattern import Pattern, Union, deserialized
from keras_synth.attention.patterns.regular import (
    FirstTokens,
    GlobalTokens,
    Stride,
    Window,
)
from keras_synth.types import Identifier

# Names, their classes, and what arguments are called in brackets.
NAMES = {
    "local": (Window, {"window": "size"}),
    "first": (FirstTokens, {"tokens": "number"}),
    "global": (GlobalTokens, {"tokens": "number"}),
    "stride": (Stride, {}),
    "blocks": (BlockWindow, {}),
    "random": (RandomBlocks, {}),
}
_EXPECTED = (
    'names joined by "|": "local(window=16)", "local(window=16, dilation=2)", '
    '"first(tokens=1)", "global(tokens=1)", "stride(stride=16)", '
    '"blocks(number=3, block_size=64)", '
    '"random(number=3, block_size=64, seed=0)"'
)


def get(pattern: Identifier) -> Pattern:
    """Returns a pattern.

    Args:
        pattern: `Pattern`; names such as `"local(window=16) |
            global(tokens=2)"`; a boolean array `(N, N)`; or a config.

    Raises:
        ValueError: If it is none of them.

    Example:

    >>> keras_synth.mixers.patterns.get("local(window=2) | stride(stride=8)")
    Union(patterns=(Window(size=2, dilation=1), Stride(stride=8)))
    """
    pattern = deserialized(pattern)
    if isinstance(pattern, str):
        return _named(pattern)
    if len(getattr(pattern, "shape", ())) == 2:
        return Pairs(ops.convert_to_numpy(pattern))
    if not isinstance(pattern, Pattern):
        raise ValueError(
            "A pattern must be one of keras_synth.mixers.patterns, such as "
            "Window(16) | GlobalTokens(1), a boolean array (N, N), or "
            f"{_EXPECTED}. Received: {pattern!r}"
        )
    return pattern


def _named(identifier):
    # A word that Python keeps for itself.
    text = re.sub(r"\bglobal\b(?=\s*\()", "global_", identifier)
    parts = []
    for term in identifiers.read(text, _EXPECTED, ast.BitOr):
        name = term.name.lower().rstrip("_")
        if name not in NAMES or term.parts or term.heads is not None:
            raise ValueError(
                f"A pattern must be of {_EXPECTED}."
                f"{identifiers.did_you_mean(name, NAMES)} "
                f"Received: {identifier!r}"
            )
        parts.append(_made(name, term.options, identifier))
    return parts[0] if len(parts) == 1 else Union(tuple(parts))


def _made(name, options, identifier):
    cls, arguments = NAMES[name]
    fields = {field.name: field for field in dataclasses.fields(cls)}
    known = {k: k for k in fields if k not in {*arguments.values()}}
    known = {**arguments, **known}
    needed = {
        k
        for k, field in known.items()
        if fields[field].default is dataclasses.MISSING
    }
    if not needed <= {*options} <= {*known}:
        raise ValueError(
            f"The pattern {name!r} has the options {[*known]}, of which it "
            f"needs {sorted(needed)}. Received: {[*options]} in {identifier!r}"
        )
    return cls(**{known[k]: value for k, value in options.items()})

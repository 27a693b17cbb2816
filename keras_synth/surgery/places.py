"""The layers of a model that have attention."""

import math
from typing import Any

import keras

from keras_synth._backend.internals import calls_of
from keras_synth.layers import (
    SynthesizerDecoder,
    SynthesizerEncoder,
    SyntheticAttention,
)

HOLDERS = SyntheticAttention, SynthesizerEncoder, SynthesizerDecoder


def inputs_of(model: keras.Model) -> Any:
    """Returns the structure of a model's inputs."""
    return (
        model.inputs[0] if isinstance(model, keras.Sequential) else model.input
    )


def holders(model: Any, cross: bool = False) -> list[Any]:
    """Returns the layers with self-attention of a model, in order of calls.

    Blocks of this package, and attention layers outside of blocks.
    """
    if isinstance(model, HOLDERS):
        return [model] if cross or _is_self(model) else []
    found: dict[int, Any] = {}
    for layer in model.layers if isinstance(model, keras.Model) else ():
        found |= {id(x): x for x in holders(layer, cross)}
    return [*found.values()]


def static_length(holder: Any) -> int | None:
    """Returns the longest sequence of a layer's calls, if it is known."""
    axes, lengths = getattr(holder, "attention_axes", None), []
    for call in calls_of(holder):
        shape = next(iter(call.values())).shape
        sizes = shape[1:-1] if axes is None else [shape[a] for a in axes]
        lengths.append(None if None in sizes else math.prod(sizes))
    return None if None in lengths else max(lengths, default=None)


def max_length_of(model: Any) -> int | None:
    """Returns the maximum sequence length of a model, or `None`."""
    if not isinstance(model, keras.Model):
        return None
    own = getattr(model, "max_sequence_length", None)
    inside = [own, *map(max_length_of, model.layers)]
    return min((x for x in inside if x is not None), default=None)


def _is_self(holder):
    return all(
        call.get(name) is None or call[name] is call["query"]
        for call in calls_of(holder)
        for name in ("value", "key")
    )

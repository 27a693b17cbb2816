"""The layers of a model that have attention."""

import math
from typing import Any

import keras
from keras import tree

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


def outputs_of(model: keras.Model) -> Any:
    """Returns the structure of a model's outputs."""
    if isinstance(model, keras.Sequential):
        return model.outputs[0]
    return model.output


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
    """Returns the length of the sequences of a layer's call, if it is known."""
    sequences = _sequences(holder)
    if not sequences:
        return None
    shape = sequences[0].shape
    axes = getattr(holder, "attention_axes", None) or range(1, len(shape) - 1)
    sizes = [shape[axis] for axis in axes]
    return None if None in sizes else math.prod(sizes)


def max_length_of(model: Any) -> int | None:
    """Returns the maximum sequence length of a model, or `None`."""
    if not isinstance(model, keras.Model):
        return None
    own = getattr(model, "max_sequence_length", None)
    inside = [own, *map(max_length_of, model.layers)]
    return min((x for x in inside if x is not None), default=None)


def _is_self(holder):
    is_block = not isinstance(holder, SyntheticAttention)
    return is_block or len({id(x) for x in _sequences(holder)}) < 2


def _sequences(layer):
    """The first features that a layer is called with, without masks."""
    try:
        inputs = tree.flatten(layer.input)
    except (AttributeError, ValueError):  # it is not called in a graph
        return []
    return [
        x
        for x in inputs
        if keras.backend.is_float_dtype(x.dtype)
        and len(x.shape) == len(inputs[0].shape)
    ]

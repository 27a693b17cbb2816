"""`lengthen` and `shorten`: models for longer or shorter sequences."""

import math
from typing import Any

import keras_hub
import numpy as np
from keras import ops

from keras_synth._backend.checks import check_positive
from keras_synth._backend.internals import compiled_like, sublayers
from keras_synth.folding import TableSynthesizer
from keras_synth.models.backbones.stacked import StackedBackbone
from keras_synth.surgery.copying import Copy, check_model
from keras_synth.surgery.places import (
    HOLDERS,
    holders,
    max_length_of,
    static_length,
)
from keras_synth.synthesizers import Synthesizer

_POSITIONS = (
    keras_hub.layers.PositionEmbedding,
    keras_hub.layers.TokenAndPositionEmbedding,
)
# Arguments of backbones, blocks, attention and embeddings.
_LENGTHS = (
    "max_sequence_length",
    "max_decoder_length",
    "max_length",
    "max_source_length",
    "sequence_length",
)


def lengthen(model: Any, max_length: int, how: str = "tile") -> Any:
    """Returns a model for longer sequences.

    Tables R, R1 and R2, Dense's columns, and learned position embeddings are
    extended: a table `t` of N positions becomes a table of M.

    - `"tile"`: `t[i mod N]`, the paper's suggestion. Sequences of up to N
      tokens have the same outputs as before. In longer sequences, the pattern
      repeats every N positions.
    - `"interpolate"`: `t` at `i (N - 1) / (M - 1)`, linear between two
      positions, like the position embeddings of images. A distance of one
      token becomes `M / N` tokens. Outputs change at all lengths.

    R is extended along its rows and its columns; R1 and R2 then give the same
    table as an extended `R1 R2^T`. Dot products, distances and sinusoids
    support any position. Train the model afterwards.

    Args:
        model: A result of `graft` or `synthesize`, or another backbone, task
            or functional model with layers of this package.
        max_length: Integer, `M`, in tokens, more than the model's own. Shorter
            sources and targets get this length.
        how: `"tile"` or `"interpolate"`.

    Returns:
        A new model of the same class; the original does not change. The
        length of a task's preprocessor stays the same.

    Raises:
        ValueError: If the model is of another kind, folded, quantized or
            adapted; if it has mixers with other weights of positions, or
            inputs of a fixed length; or if it already has this length.

    Example:

    >>> backbone = keras_synth.models.SynthesizerBackbone(
    ...     vocabulary_size=100, num_layers=1, num_heads=2, hidden_dim=16,
    ...     intermediate_dim=32, synthesizer="R+V", max_sequence_length=16)
    >>> longer = keras_synth.surgery.lengthen(backbone, 64)
    >>> longer.max_sequence_length
    64

    References:
        - [Tay et al., 2021](https://arxiv.org/abs/2005.00743), tables for
          longer sequences
        - [Dosovitskiy et al., 2021](https://arxiv.org/abs/2010.11929),
          interpolated position embeddings
        - [Chen et al., 2023](https://arxiv.org/abs/2306.15595), interpolated
          positions in language models
    """
    if how not in _WAYS:
        raise ValueError(
            f"`how` must be one of {(*_WAYS,)}. Received: how={how!r}"
        )
    return _resized(model, max_length, max, "longer", _WAYS[how])


def shorten(model: Any, max_length: int) -> Any:
    """Returns a model for sequences up to a length, with smaller tables.

    Tables and learned position embeddings are cut. Outputs are the same. The
    result can be trained, unlike that of `keras_synth.fold`.

    Args:
        model: See `lengthen`.
        max_length: Integer, in tokens, less than the model's own. Longer
            sources and targets get this length.

    Returns:
        A new model of the same class; the original does not change. A longer
        preprocessor of a task is cut to this length.

    Raises:
        ValueError: See `lengthen`.

    Example:

    >>> backbone = keras_synth.models.SynthesizerBackbone(
    ...     vocabulary_size=100, num_layers=1, num_heads=2, hidden_dim=16,
    ...     intermediate_dim=32, synthesizer="R+V", max_sequence_length=64)
    >>> shorter = keras_synth.surgery.shorten(backbone, 16)
    >>> [w.shape for w in shorter.weights if w.name == "R"]
    [(2, 16, 16)]
    """
    return _resized(model, max_length, min, "shorter", _tiled)


def _tiled(table, axis, length):
    return np.take(table, np.arange(length) % table.shape[axis], axis)


def _interpolated(table, axis, length):
    known = np.arange(table.shape[axis])
    at = np.linspace(0, known[-1], length)
    return np.apply_along_axis(
        lambda values: np.interp(at, known, values), axis, table
    )


_WAYS = {"tile": _tiled, "interpolate": _interpolated}


def _resized(model, max_length, better, word, change):
    """A model of another length.

    `better` chooses between the present length and this one. `change` is a
    function of a table, an axis and a length.
    """
    check_positive("max_length", max_length)
    check_model(model, f"make it {word}")
    _check_resizable(model, word)
    _check_better(model, max_length, better, word)
    pairs = []

    def resized(length):
        return better(length, max_length)

    def changed(layer, copy):
        if not isinstance(layer, (StackedBackbone, *HOLDERS, *_POSITIONS)):
            return None
        config = _with_lengths(layer.get_config(), resized)
        made = type(layer).from_config(config)
        if not made.built:
            made.build_from_config(layer.get_build_config())
        pairs.append((layer, made))
        copy.pair_parts(layer, made)
        return made

    made = Copy(changed, max_length).of(model)
    for old, new in pairs:
        _copy(old, new, change)
    return compiled_like(model, made)


# Learned positions, KerasHub's and ours.
_EMBEDDINGS = (
    "position_embedding/embeddings",
    "position_embedding/position_embeddings",
)


def _check_resizable(model, word):
    found = holders(model)
    if not found:
        raise ValueError(
            "Only models with layers of this package can be made longer or "
            "shorter. Graft the model first. Received: model of "
            f"{type(model).__name__}"
        )
    if any(isinstance(x, TableSynthesizer) for x in sublayers(model)):
        raise ValueError(
            f"A folded model cannot be changed. Make it {word} before `fold`. "
            f"Received: {model.name!r}, folded"
        )
    fixed = next(filter(None, map(static_length, found)), None)
    if fixed is not None:
        raise ValueError(
            "The length of the sequences is fixed by the model's inputs. Make "
            "a model with inputs such as `keras.Input((None,))`. "
            f"Received: {model.name!r} for sequences of {fixed}"
        )


def _check_better(model, max_length, better, word):
    """Raises unless the length changes in the right direction."""
    own = [max_length_of(model), *(x.max_length for x in holders(model))]
    lengths = [length for length in own if length is not None]
    if all(better(length, max_length) == length for length in lengths):
        raise ValueError(
            f"`max_length` must make the model {word}. Its maximum is "
            f"{max(lengths, default=None)} tokens. "
            f"Received: max_length={max_length}"
        )


def _with_lengths(config, resized):
    """A config with a function applied to its lengths, at any depth."""
    if isinstance(config, (list, tuple)):
        return [_with_lengths(one, resized) for one in config]
    if not isinstance(config, dict):
        return config
    config = {
        name: resized(value)
        if name in _LENGTHS and value is not None
        else _with_lengths(value, resized)
        for name, value in config.items()
    }
    factors = config.get("factors")  # of "factorized_dense"
    if factors and math.prod(factors) < config.get("max_length", 0):
        config["factors"] = None
    return config


def _copy(source, target, change):
    """Sets the weights of a model of another length, or raises."""
    axes = {}
    for layer in (source, *sublayers(source)):
        if isinstance(layer, Synthesizer):
            for name, own in layer.position_axes.items():
                axes[id(getattr(layer, name))] = own
    pairs = list(zip(source.weights, target.weights, strict=True))
    wrong = [
        own.path
        for own, new in pairs
        if own.shape != new.shape
        and id(own) not in axes
        and not own.path.endswith(_EMBEDDINGS)
    ]
    if wrong:
        raise ValueError(
            "Only weights in a synthesizer's `position_axes` and learned "
            "position embeddings can be converted to another length. Train a "
            f"new model of this length. Received: {wrong}"
        )
    for own, new in pairs:
        value = ops.convert_to_numpy(own)
        for axis in axes.get(id(own), (0,)):
            if value.shape[axis:][:1] != new.shape[axis:][:1]:
                value = change(value, axis, new.shape[axis])
        new.assign(value)

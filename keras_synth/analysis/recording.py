"""Recorders of calls of attention layers.

Mixers of this package pass each call to the observer, if there is one. For
Keras' layers `capture` replaces `call`.
"""

import inspect
from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from keras_synth._backend.execution import (
    is_compiled_by_torch,
    is_eager,
    is_placeholder,
    is_transformed,
)
from keras_synth.attend import attend
from keras_synth.mixers import SyntheticAttention
from keras_synth.mixers.call import FLAT, OBSERVERS, normalized
from keras_synth.synthesizers import MixtureSynthesizer


class CapturedAttention(NamedTuple):
    """One call of an attention layer.

    Fields:
        weights: Array `(B, H, T, S)`, float32, before dropout.
        visible: Boolean array `(B, H or 1, T, S)`, True for visible pairs.
        query_mask: Boolean array `(B, T)`, False for padding.
        key_mask: Boolean array `(B, S)`, False for padding.
        is_self: Whether queries and keys are the same tokens.

    Example:

    >>> layer = keras_synth.layers.SyntheticAttention(
    ...     2, 8, synthesizer="V", name="attention")
    >>> with keras_synth.analysis.capture() as seen:
    ...     output = layer(np.ones((3, 10, 16)), use_causal_mask=True)
    >>> int(seen["attention"].visible[0, 0].sum())
    55
    """

    weights: np.ndarray
    visible: np.ndarray
    query_mask: np.ndarray
    key_mask: np.ndarray
    is_self: bool


class Recorder:
    """Calls mixers in a `with` block, and a function with each record."""

    def __init__(self, keep, parts=False, layers=None):
        self._keep, self._parts = keep, parts
        self._chosen = None if layers is None else {id(x) for x in layers}
        self._tokens = None
        self.current = None  # a mixer and its `Call`, while it is recorded
        self.names = set()

    def __enter__(self):
        OBSERVERS.set((*OBSERVERS.get(), self))
        return self

    def __exit__(self, *error):
        OBSERVERS.set(tuple(x for x in OBSERVERS.get() if x is not self))

    def __call__(self, layer, call):
        chosen = self._chosen is None or id(layer) in self._chosen
        chosen = chosen and layer.supports_attention_scores
        has_values = _has_values(call.query, call.value)
        if not (chosen and has_values):
            if has_values and _same(call.query, call.value):
                visible = _visible(layer, call)
                shape = (len(call.query), *visible.shape[1:])
                self._tokens = np.broadcast_to(visible, shape).any((1, 2))
            return layer._call_flat(call)
        output, weights = layer._call_flat(call._replace(with_scores=True))
        result = (output, weights) if call.with_scores else output
        if not _has_values(weights):  # a weight of the layer is traced
            return result
        self.current = layer, call
        queries = call.mask.queries
        is_self = _same(call.query, call.value)
        self.add(layer.path, weights, _visible(layer, call), queries, is_self)
        if self._parts and isinstance(layer, SyntheticAttention):
            for path, own, visible in _parts(layer, call):
                self.add(path, own, visible, queries, is_self)
        return result

    def add(self, path, weights, visible, query_mask, is_self):
        """Adds a record from tensors or arrays; `query_mask` can be `None`."""
        weights = _array(weights).astype("float32")
        if weights.ndim != 4:
            raise ValueError(
                f"The weights of {path!r} must have the axes (B, H, T, S). "
                "Keras' attention over several axes is not supported. "
                f"Received: weights.shape={weights.shape}"
            )
        batch, _, rows, columns = weights.shape
        visible = np.broadcast_to(
            visible, (batch, visible.shape[1], rows, columns)
        )
        key_mask = visible.any((1, 2))  # padding is not visible to any token
        if is_self:
            self._tokens = key_mask
        own = self._tokens  # in cross-attention of the previous layer
        if own is None or own.shape != (batch, rows):
            own = np.ones((batch, rows), bool)
        if query_mask is not None:
            own = own & _array(query_mask).astype(bool)
        name, number = path, 0
        while name in self.names:
            number += 1
            name = f"{path}_{number}"
        self.names.add(name)
        self._keep(
            name, CapturedAttention(weights, visible, own, key_mask, is_self)
        )


def _masks(layer, call):
    """The masks of a layer's groups of heads, with patterns and limits."""
    if not isinstance(layer, SyntheticAttention):
        return [call.mask]
    return layer._groups.masks(layer._limited(call.mask))


def _visible(layer, call):
    """The visible pairs, an array `(B or 1, H or 1, T, S)`."""
    masks = _masks(layer, call)
    pairs = [_pairs(mask, call) for mask in masks]
    if all(mask is masks[0] for mask in masks):
        return pairs[0]
    batch, rows = call.query.shape[:2]
    sizes = [x.num_heads for x in layer.synthesizer.head_groups()]
    shapes = [(batch, heads, rows, call.value.shape[1]) for heads in sizes]
    return np.concatenate([*map(np.broadcast_to, pairs, shapes)], axis=1)


def _pairs(mask, call):
    """The pairs that an `AttentionMask` allows, an array of four axes."""
    lengths = call.query.shape[1], call.value.shape[1]
    mask = mask.with_pairs(*lengths).materialize()
    return np.ones((1, 1, 1, 1), bool) if mask is None else _array(mask)


def _parts(layer, call):
    """Yields the path, weights and visible pairs of each part of mixtures."""
    groups = layer.synthesizer.head_groups()
    keys = layer.synthesizer.project_keys(call.key)
    keys = keys if len(groups) > 1 else (keys,)
    masks = _masks(layer, call)
    batch, length = call.value.shape[:2]
    for group, own_keys, mask in zip(groups, keys, masks, strict=True):
        for part, logits in _logits(group, call.query, own_keys, length):
            _, weights = attend(
                logits,
                ops.zeros((batch, length, part.num_heads, 1)),
                mask,
                target_length=call.query.shape[1],
                return_weights=True,
                route="explicit",
                normalizer=layer.normalizer,
            )
            yield part.path, weights, _pairs(mask, call)


def _logits(synthesizer, query, keys, length):
    """Yields the parts of a mixture, also nested ones, and their logits."""
    if isinstance(synthesizer, MixtureSynthesizer):
        for part, own_keys, logits in synthesizer.logits_of_parts(
            query, keys, length=length
        ):
            yield part, logits
            yield from _logits(part, query, own_keys, length)


def asking_for_scores(layer, recorder):
    """The `call` of a layer, which also records its attention scores."""
    signature, call = inspect.signature(type(layer).call), layer.call

    def observing(*args, **kwargs):
        given = signature.bind(layer, *args, **kwargs).arguments
        query = given["query"]
        value = given.get("value")
        value = query if value is None else value
        here = recorder in OBSERVERS.get()
        if not (here and _has_values(query, value)):
            return call(*args, **kwargs)
        scores = given.get("return_attention_scores")
        kwargs["return_attention_scores"] = True
        output, weights, *others = call(*args, **kwargs)
        visible = _visible_by_arguments(layer, query, value, weights, given)
        is_self, queries = _same(query, value), given.get("query_mask")
        recorder.add(layer.path, weights, visible, queries, is_self)
        found = (output, *([weights] if scores else []), *others)
        return found if len(found) > 1 else output

    return observing


def _visible_by_arguments(layer, query, value, weights, given):
    """The visible pairs, by the arguments of MultiHeadAttention."""
    padding = {k: given.get(k) for k in ("value_mask", "key_mask")}
    call = normalized(
        FLAT,
        (query, value, value),
        ({}, padding),
        (given.get("attention_mask"), None),
        num_heads=weights.shape[1],
        causal=given.get("use_causal_mask"),
    )
    window = layer.get_config().get("sliding_window")
    return _pairs(call.mask._replace(window=window), call)


def _has_values(*tensors):
    """Whether tensors have values, and are not symbolic or traced."""
    return not (is_compiled_by_torch() or is_transformed()) and all(
        is_eager(x) and not is_placeholder(x)
        for x in tensors
        if ops.is_tensor(x) or isinstance(x, keras.KerasTensor)
    )


def _same(a, b):
    """Whether two tensors are the same tokens."""
    return a is b or np.array_equal(_array(a), _array(b))


def _array(x):
    return np.asarray(ops.convert_to_numpy(x))

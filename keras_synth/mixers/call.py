"""The checked arguments of a mixer's call as one value."""

import contextvars
import inspect
from typing import NamedTuple

import keras
from keras import ops

from keras_synth._backend.checks import may_be_equal
from keras_synth._backend.tensors import indices
from keras_synth.attention import masks
from keras_synth.attention.axes import AttentionAxes
from keras_synth.attention.masks import AttentionMask
from keras_synth.attention.softmax import LEAST_BIAS
from keras_synth.types import Tensor

# Of tensors `(B, T, d)`.
FLAT = AttentionAxes(None, 3)
# Functions of a mixer and its `Call`; the last one, or `None`, replaces
# `_call_flat`. Each thread and each context of asynchronous code has its own.
OBSERVERS = contextvars.ContextVar("observers", default=(None,))


class Call(NamedTuple):
    """Arguments of a mixer, along one axis of tokens.

    Fields:
        query: Tensor `(B, T, d)`.
        value: Tensor `(B, S, d)`.
        key: Tensor `(B, S, d)`.
        mask: `AttentionMask`.
        bias: Tensor `(B or 1, H or 1, T or 1, S)`, or `None`.
        with_scores: Whether to also return the weights `(B, H, T, S)`.
        training: Whether to apply dropout.
    """

    query: Tensor
    value: Tensor
    key: Tensor
    mask: AttentionMask
    bias: Tensor = None
    with_scores: bool = False
    training: bool | None = None

    @property
    def is_empty(self):
        """Whether there are no samples, no queries or no source."""
        return 0 in (*self.query.shape[:2], self.value.shape[1])


def checked_axes(attended, built, query_shape, value_shape, key_shape):
    """Returns the `AttentionAxes` of shapes `(B, ..., d)`, or raises.

    `attended` are a layer's `attention_axes`. `built` is the number of axes for
    which the layer is built, or `None` for any number.
    """
    if not may_be_equal(value_shape[1:-1], key_shape[1:-1]):
        raise ValueError(
            "All dimensions of `value` and `key`, except the last one, must "
            f"be equal. Received: value.shape={tuple(value_shape)} and "
            f"key.shape={tuple(key_shape)}"
        )
    rank = len(query_shape)
    if not rank == len(value_shape) == len(key_shape):
        raise ValueError(
            "`query`, `value` and `key` must have the same number of axes. "
            f"Received: query.shape={tuple(query_shape)}, "
            f"value.shape={tuple(value_shape)}, key.shape={tuple(key_shape)}"
        )
    if rank < 3:
        raise ValueError(
            "`query` must be a tensor (batch, length, features), or have more "
            "axes. Embed token ids first. Received: "
            f"query.shape={tuple(query_shape)}"
        )
    if built not in (None, rank):
        raise ValueError(
            f"This layer is for tensors of {built} axes, including batch and "
            "features. Reshape the tensors, or make another layer. "
            f"Received: query.shape={tuple(query_shape)}"
        )
    flat = rank == 3 and attended in (None, (1,))
    axes = FLAT if flat else AttentionAxes(attended, rank)
    if value_shape is query_shape:
        return axes
    others = [
        [shape[a] for a in (0, *axes.others)]
        for shape in (query_shape, value_shape)
    ]
    if not may_be_equal(*others):
        raise ValueError(
            "All axes of `query` and `value` except the features and "
            f"attention_axes={axes.attended} must be equal. Repeat a single "
            "sample with `keras.ops.repeat`. Received: "
            f"query.shape={tuple(query_shape)}, "
            f"value.shape={tuple(value_shape)}"
        )
    return axes


def check_room(query, places, start):
    """Raises if a cache is known to have no room for a query's tokens.

    With `start=None` no token is written.
    """
    known = start, query.shape[1], places.shape[1]
    if not all(isinstance(number, int) for number in known):
        return
    if start + known[1] > known[2]:
        raise ValueError(
            f"The cache has room for {known[2]} tokens. Make a longer one with "
            f"`make_cache`, or decode fewer tokens. Received: {known[1]} "
            f"tokens at start={start}"
        )


def check_longest(length, max_length):
    """Raises if a sequence, or a cache, is known to be too long."""
    if isinstance(length, int) and max_length and length > max_length:
        raise ValueError(
            f"Sequence of {length} tokens is longer than "
            f"max_length={max_length}. Make the layer with a larger "
            "max_length, or shorten the input. Received: "
            f"length={length}, max_length={max_length}"
        )


def check_decoding(mixer, start):
    """Raises unless a mixer decodes one sequence, from the position `start`."""
    name = type(mixer).__name__
    if not mixer.supports_causal_mask:
        raise NotImplementedError(
            f"{name} cannot decode, because it has no causal form."
        )
    if start is None:
        raise ValueError(
            f"{name} mixes the tokens of one sequence: its cache needs a "
            "`start`. For cross-attention use a mixer that supports it, such "
            "as SyntheticAttention. Received: start=None"
        )


def check_cache(cache, shapes, batch_size):
    """Raises unless a cache has these shapes, nested and without batch."""
    own = keras.tree.map_shape_structure(
        lambda shape: keras.KerasTensor((batch_size, *shape)), shapes
    )
    try:
        fits = keras.tree.map_structure(
            lambda x, y: may_be_equal(tuple(x.shape), y.shape), cache, own
        )
        is_own = all(keras.tree.flatten(fits))
    except (AttributeError, TypeError, ValueError):  # of another structure
        is_own = False
    if not is_own:
        received = keras.tree.map_structure(
            lambda x: tuple(getattr(x, "shape", ())), cache
        )
        raise ValueError(
            "The cache must come from `make_cache` or `remember` of this "
            "layer, for as many samples as the query has. Its shape is the "
            f"batch size, {batch_size}, and then, with `None` for the length, "
            f"{shapes}. Received: a cache of shape {received}"
        )


def check_dtype(name, x):
    """Raises unless a tensor is dense and its dtype floating-point."""
    if hasattr(x, "nested_row_splits"):  # TensorFlow's RaggedTensor
        raise ValueError(
            f"`{name}` must not be ragged. Pass `{name}.to_tensor()`, and the "
            "mask of its tokens as `value_mask`, or as `padding_mask` of a "
            f"block. Received: {name} of type {type(x).__name__}"
        )
    dtype = keras.backend.standardize_dtype(x.dtype)
    if not keras.backend.is_float_dtype(dtype):
        raise ValueError(
            f"`{name}` must be a floating-point tensor. Embed token ids first. "
            f"Received: {name}.dtype={dtype}"
        )


def normalized(axes, tensors, padding, pairs, *, num_heads, causal, **fields):
    """Returns the `Call` for the arguments of a layer.

    `padding` are two dictionaries from the names of arguments to padding masks,
    of the query and of the source. `pairs` are `attention_mask` and
    `attention_bias`. `fields` are other fields of the `Call`.
    """
    query, value, _ = tensors
    of_query, of_source = padding
    mask, bias = pairs
    if is_padding(mask, query):
        of_source, mask = {**of_source, "attention_mask": mask}, None
    mask, bias = _flat_pairs(axes, mask, bias, query, value, num_heads)
    return Call(
        *axes.flatten_all(*tensors),
        AttentionMask(
            queries=_all_of(axes, query, of_query),
            keys=_all_of(axes, value, of_source),
            pairs=mask,
            causal=bool(causal),
        ),
        bias,
        **fields,
    )


def _flat_pairs(axes, mask, bias, *sizes):
    """The attention mask and the bias of flat tokens, or `None`."""
    if mask is None and bias is None:
        return None, None
    mask = axes.flatten_pairs("attention_mask", mask, *sizes)
    bias = axes.flatten_pairs("attention_bias", bias, *sizes)
    if bias is not None:
        if keras.backend.standardize_dtype(bias.dtype) == "bool":
            raise ValueError(
                "`attention_bias` must be numbers, which are added to the "
                "logits. Pass a mask as `attention_mask`. Received: "
                "attention_bias.dtype=bool"
            )
        # Forbidden pairs are then below all values of a bias.
        bias = ops.maximum(ops.cast(bias, "float32"), LEAST_BIAS)
    return masks.as_boolean(mask), bias


def _all_of(axes, x, padding):
    """The conjunction `(B', T)` of padding masks, or `None`."""
    found = None
    for name, mask in padding.items():
        if mask is None:
            continue
        mask = masks.as_boolean(mask)
        if name == "attention_mask":
            mask = mask[:, 0] if len(mask.shape) == 3 else mask[:, 0, 0]
            if mask.shape[1] == 1:
                mask = ops.repeat(mask, ops.shape(x)[1], axis=1)
        found = masks.both(found, axes.flatten_padding(name, mask, x))
    return found


def is_padding(attention_mask, query):
    """Whether a mask hides the same keys from all queries of a sample.

    `(B, 1, S)` or `(B, 1, 1, S)`: KerasHub's encoders and users of
    MultiHeadAttention pass key padding in this form.
    """
    shape = getattr(attention_mask, "shape", None)
    if shape is None or len(query.shape) != 3:
        return False
    if len(shape) not in (3, 4):
        return False
    batch, *others, _ = shape
    of_all_queries = all(size == 1 for size in others)
    return of_all_queries and (batch != 1 or query.shape[0] == 1)


def of_cache(
    query, places, start, *, value_mask, pairs, num_heads, causal, position
):
    """Returns the `Call` of a step with a cache, whose source is the cache.

    `places` is a tensor `(B, S, ...)` with a place for each token of the cache,
    or `None` for a state. `pairs` are `attention_mask` and `attention_bias`.
    """
    mask, bias = pairs
    keys = masks.as_boolean(value_mask)
    # With a start the length is checked where it matters.
    shape = query.shape[0], places.shape[1] if start is None else None
    if keys is not None and not may_be_equal(tuple(keys.shape), shape):
        raise ValueError(
            "`value_mask` must have the shape (batch, length) of the tokens, "
            f"or of the cache. Expected: {shape}, with `None` for any length. "
            f"Received: value_mask.shape={tuple(keys.shape)}"
        )
    if places is None:
        for name, x in (("attention_mask", mask), ("attention_bias", bias)):
            if x is not None:
                raise ValueError(
                    f"A cache of only the last tokens does not support `{name}`"
                    " of all tokens. Leave it out, or call the layer with "
                    f"whole sequences. Received: {name}.shape={tuple(x.shape)}"
                )
    else:
        mask, bias = _flat_pairs(FLAT, mask, bias, query, places, num_heads)
    if start is None:
        start, causal = position, False
    elif places is None:
        keys = masks.present_padding(keys, query, start)
    else:
        size = ops.shape(places)[1]
        keys = masks.cached_padding(keys, query, size, start)
        if not causal:
            length = ops.shape(query)[1]
            seen = indices(size) < start + length
            seen = ops.broadcast_to(seen, (1, 1, length, size))
            mask = masks.both(mask, seen)
    mask = AttentionMask(keys=keys, pairs=mask, causal=causal, start=start)
    return Call(query, None, None, mask, bias)


def written(cache, new, start):
    """A cache `(B, S, ...)` with the tokens `new` from position `start` on."""
    return keras.tree.map_structure(
        lambda x, y: ops.slice_update(
            x, [0, start] + [0] * (len(x.shape) - 2), ops.cast(y, x.dtype)
        ),
        cache,
        new,
    )


def by_name(call, args, named):
    """Arguments of `call` after query, value and key, by name."""
    signature = inspect.signature(call)
    # Raises for too many arguments or one that is passed twice.
    signature.bind_partial(*[None] * 4, *args, **named)
    names = [*signature.parameters][4:]
    return dict(zip(names, args, strict=False)) | named

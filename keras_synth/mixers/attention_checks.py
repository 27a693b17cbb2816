"""Checks of the arguments of attention layers."""

import keras

from keras_synth._backend.checks import may_be_equal
from keras_synth.attention.normalizers import SOFTMAX


def check_axes(attention_axes):
    """Returns `attention_axes` as a tuple, `None` as it is, or raises."""
    if attention_axes is None:
        return None
    axes = attention_axes
    if isinstance(axes, int) and not isinstance(axes, bool):
        axes = (axes,)
    integers = isinstance(axes, (list, tuple)) and all(
        isinstance(axis, int) and not isinstance(axis, bool) for axis in axes
    )
    if not integers or not axes:
        raise ValueError(
            "`attention_axes` must be an int, list, or tuple of axes. "
            f"Received: attention_axes={attention_axes!r}"
        )
    return tuple(axes)


def check_shapes(query_shape, value_shape, key_shape):
    """Raises unless the shapes are `(B, ..., d)`, all of one rank."""
    if not may_be_equal(value_shape[1:-1], key_shape[1:-1]):
        raise ValueError(
            "All dimensions of `value` and `key`, except the last one, must "
            f"be equal. Received: value.shape={tuple(value_shape)} and "
            f"key.shape={tuple(key_shape)}"
        )
    shapes = {"query": query_shape, "value": value_shape, "key": key_shape}
    for name, shape in shapes.items():
        if len(shape) < 3:
            raise ValueError(
                f"`{name}` must be a tensor (batch, length, features), or "
                "have more axes than that. Token ids go through an embedding "
                f"first. Received: {name}.shape={tuple(shape)}"
            )
    if len({*map(len, shapes.values())}) > 1:
        raise ValueError(
            "`query`, `value` and `key` must have the same number of axes. "
            f"Received: query.shape={tuple(query_shape)}, "
            f"value.shape={tuple(value_shape)}, key.shape={tuple(key_shape)}"
        )


def check_rank(rank, built):
    """Raises if a layer was built for tensors of another rank."""
    if built not in (None, rank):
        raise ValueError(
            f"This layer was built for tensors of {built} axes. Their shape "
            "must have as many at each call; make another layer for others. "
            f"Received: {rank} axes"
        )


def check_other_axes(axes, query_shape, value_shape):
    """Raises unless all other axes than the attended ones are equal.

    Args:
        axes: `AttentionAxes`.
        query_shape: Static shape `(B, ..., d)`.
        value_shape: Static shape `(B, ..., d)`.
    """
    shapes = [
        [shape[a] for a in (0, *axes.others)]
        for shape in (query_shape, value_shape)
    ]
    if not may_be_equal(*shapes):
        raise ValueError(
            "All axes of `query` and `value` but the features and "
            f"attention_axes={axes.attended} must be equal. Received: "
            f"query.shape={tuple(query_shape)}, "
            f"value.shape={tuple(value_shape)}"
        )


def check_dtypes(query, value, key):
    """Raises unless the tensors hold floats."""
    for name, x in _different(query=query, value=value, key=key):
        dtype = keras.backend.standardize_dtype(x.dtype)
        if not keras.backend.is_float_dtype(dtype):
            raise ValueError(
                f"`{name}` must hold floating-point features; token ids "
                "go through an embedding first. Received: "
                f"{name}.dtype={dtype}"
            )


def _different(**tensors):
    """Pairs of name and tensor, what is one tensor once."""
    return {id(x): (name, x) for name, x in reversed(tensors.items())}.values()


def check_flash_attention(
    flash_attention, dropout=0, scores=False, normalizer=SOFTMAX
):
    """Raises if a fused kernel is demanded that cannot do what is wanted."""
    if flash_attention not in (None, True, False):
        raise ValueError(
            "`flash_attention` must be True, False, or None to let the layer "
            f"choose. Received: flash_attention={flash_attention!r}"
        )
    if flash_attention and dropout:
        raise ValueError(
            "Dropout is not supported when flash attention is enabled. "
            "Please set dropout to 0.0 to use flash attention. "
            f"Received: dropout={dropout}"
        )
    if flash_attention and normalizer != SOFTMAX:
        raise ValueError(
            "Flash kernels compute a softmax. Leave out `flash_attention`, or "
            f"the normalizer. Received: normalizer={normalizer.name!r}"
        )
    if flash_attention and scores:
        raise ValueError(
            "Returning attention scores is not supported when flash "
            "attention is enabled. Please disable flash attention to access "
            "attention scores. Received: return_attention_scores=True"
        )


def check_traced(query, value, reads_tokens):
    """Raises if what is recorded would hold for one sample, or one length.

    Args:
        query: Tensor `(B, T, d)`.
        value: Tensor `(B, S, d)`.
        reads_tokens: Whether logits depend on tokens.
    """
    sizes = query.shape[0], query.shape[1], value.shape[1]
    if 1 in sizes[1:] or (sizes[0] == 1 and reads_tokens):
        raise ValueError(
            "PyTorch's tracer records attention for the sizes of the trace, "
            "and Keras shows it 1 for unknown ones. Export with a fixed batch "
            "size of 2 or more and a fixed length, such as input_signature="
            "[keras.InputSpec(shape=(8, 128), dtype='int32')]. "
            f"Received: batch and lengths {sizes}"
        )


def check_longest(length, max_length):
    """Raises if a sequence, or a cache, is known to be too long.

    Args:
        length: Integer, in tokens; anything else is not checked.
        max_length: Integer, the longest sequence, or `None`.
    """
    if isinstance(length, int) and max_length and length > max_length:
        raise ValueError(
            f"Sequence of {length} tokens is longer than "
            f"max_length={max_length}. Make the layer with a larger "
            f"max_length, or shorten the input. Received: {length} tokens"
        )


def check_cache(query, cache, start, sizes):
    """Raises unless a cache is the layer's and, if known, has room.

    Args:
        query: Tensor `(B, T, d)`.
        cache: What should be a tensor `(B, S, H, cache_dim)`, or a tuple of
            one for each group of heads.
        start: Integer or scalar tensor, position of the first query token in
            the cache; or `None`, if nothing is to be written.
        sizes: Tuple of (heads, cache_dim) for each group of heads.
    """
    caches = cache if isinstance(cache, (tuple, list)) else [cache]
    shapes = [tuple(getattr(x, "shape", ())) for x in caches]
    grouped = len(sizes) > 1
    if [x[2:] for x in shapes] != [*sizes] or (
        grouped != isinstance(cache, tuple)
    ):
        raise ValueError(
            "The cache must be this layer's, as its `make_cache` makes it: "
            "(batch, length, heads, cache_dim), with (heads, cache_dim)="
            f"{sizes}. Received: a cache of shape {shapes}"
        )
    known = (start, query.shape[1], shapes[0][1])
    if not all(isinstance(number, int) for number in known):
        return
    if start + known[1] > known[2]:
        raise ValueError(
            f"The cache has room for {known[2]} tokens. Make it longer, or "
            f"decode fewer. Received: {known[1]} tokens at start={start}"
        )

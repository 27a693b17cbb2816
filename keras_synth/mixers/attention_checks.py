"""Checks of the arguments of attention layers."""

from keras_synth.attention.normalizers import SOFTMAX
from keras_synth.mixers.call import check_room


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
    """Raises if what is recorded would hold for one sample, or one length."""
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
    """Raises if a sequence, or a cache, is known to be too long."""
    if isinstance(length, int) and max_length and length > max_length:
        raise ValueError(
            f"Sequence of {length} tokens is longer than "
            f"max_length={max_length}. Make the layer with a larger "
            "max_length, or shorten the input. Received: "
            f"length={length}, max_length={max_length}"
        )


def check_state(cache, shapes):
    """Raises unless a cache is a dictionary of tensors of these shapes.

    Args:
        cache: Anything.
        shapes: Dictionary from names to shapes without the batch axis.
    """
    received = {}
    if isinstance(cache, dict):
        received = {name: tuple(x.shape[1:]) for name, x in cache.items()}
    if received != shapes:
        raise ValueError(
            "The cache must be this layer's, as its `make_cache` makes it: a "
            f"dictionary of tensors with a batch axis and {shapes}. "
            f"Received: {received or type(cache).__name__}"
        )


def check_cache(query, cache, start, sizes):
    """Raises unless a cache is the layer's and, if known, has room.

    Args:
        query: Tensor `(B, T, d)`.
        cache: Anything.
        start: Position of the first query token, `None` if none is written.
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
    if start is not None:
        check_room(query, caches[0], start)

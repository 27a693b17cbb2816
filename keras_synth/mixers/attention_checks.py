"""Checks of the arguments of attention layers."""

from keras_synth.attention.normalizers import SOFTMAX


def check_axes(attention_axes):
    """Returns `attention_axes` as a tuple or `None`, or raises."""
    if attention_axes is None:
        return None
    axes = attention_axes
    axes = axes if isinstance(axes, (list, tuple)) else (axes,)
    if not axes or not all(type(axis) is int for axis in axes):
        raise ValueError(
            "`attention_axes` must be an int, list, or tuple of axes. "
            f"Received: attention_axes={attention_axes!r}"
        )
    return tuple(axes)


def check_flash_attention(wanted, dropout, normalizer):
    """Raises if a fused kernel is demanded for unsupported arguments."""
    if wanted not in (None, True, False):
        raise ValueError(
            "`flash_attention` must be True, False, or None to let the layer "
            f"choose. Received: flash_attention={wanted!r}"
        )
    if wanted and dropout:  # Keras' message
        raise ValueError(
            "Dropout is not supported when flash attention is enabled. Please "
            "set dropout to 0.0 to use flash attention. Received: "
            f"dropout={dropout}"
        )
    if wanted and normalizer != SOFTMAX:
        raise ValueError(
            "Flash kernels compute a softmax. Leave out `flash_attention`, or "
            f"the normalizer. Received: normalizer={normalizer.name!r}"
        )


def traced_route(call, synthesizer):
    """Returns the route for a graph that PyTorch records, or `None`.

    It raises if the graph would be wrong for other sizes.
    """
    sizes = call.query.shape[0], call.query.shape[1], call.value.shape[1]
    if 1 in sizes[1:] or (sizes[0] == 1 and synthesizer.reads_tokens):
        raise ValueError(
            "PyTorch records attention for fixed sizes, and Keras replaces "
            "unknown sizes by 1. Export with a fixed batch size of at least 2 "
            "and a fixed length, such as "
            "input_signature=[keras.InputSpec(shape=(8, 128), dtype='int32')]. "
            f"Received: batch size and lengths {(*map(int, sizes),)}"
        )
    # A batch axis of 1 means a table of all samples, which this is.
    return "explicit" if sizes[0] == 1 else None

"""Checks of the arguments of attention layers."""

from keras_synth.attention.normalizers import SOFTMAX


def check_axes(attention_axes):
    """Returns `attention_axes` as a tuple, `None` as it is, or raises."""
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


def check_flash_attention(wanted, dropout=0, scores=False, normalizer=SOFTMAX):
    """Raises if a fused kernel is demanded that cannot do what is wanted."""
    if wanted not in (None, True, False):
        raise ValueError(
            "`flash_attention` must be True, False, or None to let the layer "
            f"choose. Received: flash_attention={wanted!r}"
        )
    for is_lacking, words in (  # the first two are Keras' own
        (
            dropout,
            "Dropout is not supported when flash attention is enabled. Please "
            "set dropout to 0.0 to use flash attention. Received: "
            f"dropout={dropout}",
        ),
        (
            scores,
            "Returning attention scores is not supported when flash attention "
            "is enabled. Please disable flash attention to access attention "
            "scores. Received: return_attention_scores=True",
        ),
        (
            normalizer != SOFTMAX,
            "Flash kernels compute a softmax. Leave out `flash_attention`, or "
            f"the normalizer. Received: normalizer={normalizer.name!r}",
        ),
    ):
        if wanted and is_lacking:
            raise ValueError(words)


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

"""What logits, values and masks become for a kernel.

A bias of the keys alone can be a feature of theirs: `q.k + b = [q 1].[k b]`.
"""

import keras
from keras import ops

from keras_synth.attention.logits import repeat_batch


def is_row(bias):
    """Whether a bias is of the keys alone, for all samples: `(1, H, 1, S)`."""
    return bias.shape[0] == 1 and bias.shape[2] == 1


def is_causal(request):
    """Whether nothing but a causal mask forbids, of T = S tokens.

    Kernels know that one by name and skip what it forbids.
    """
    mask, length = request.mask, request.target_length
    others = mask.keys, mask.pairs, mask.window, mask.pattern
    alone = all(other is None for other in others)
    square = isinstance(length, int) and length == request.source_length
    begins = isinstance(mask.start, int) and mask.start == 0
    bias = request.logits.bias
    no_bias = bias is None or is_row(bias)
    return mask.causal and alone and square and begins and no_bias


def with_batch(logits, values):
    """Queries and keys of `Logits` for each sample, in the dtype of values.

    Args:
        logits: `Logits` with queries.
        values: Tensor `(B, S, H, v)`.
    """
    batch = ops.shape(values)[0]
    found = []
    for x in (logits.queries, logits.keys):
        if x.shape[0] == 1 and values.shape[0] != 1:
            x = repeat_batch(x, batch)
        found.append(ops.cast(x, values.dtype))
    return found


def with_bias(queries, keys, bias):
    """Makes a bias of the keys `(B or 1, H or 1, 1, S)` a feature of them."""
    bias = ops.cast(ops.transpose(bias, (0, 3, 1, 2)), keys.dtype)
    if bias.shape[0] != 1 and keys.shape[0] == 1:
        keys = repeat_batch(keys, ops.shape(bias)[0])
    bias = ops.broadcast_to(bias, (*ops.shape(keys)[:3], 1))
    return (
        ops.concatenate([queries, ops.ones_like(queries[..., :1])], axis=-1),
        ops.concatenate([keys, bias], axis=-1),
    )


def padding_bias(keys, dtype):
    """Key padding `(B, S)` as a bias of the keys, `(B, 1, 1, S)`."""
    least = ops.cast(least_logit(dtype), dtype)
    return ops.where(keys, ops.zeros_like(least), least)[:, None, None, :]


def held(bias, dtype):
    """A bias in another dtype, within what that holds."""
    if _is_float16(dtype):
        # A third of what stands for "may not attend".
        bias = ops.clip(bias, least_logit(dtype) / 3, -least_logit(dtype) / 3)
    return ops.cast(bias, dtype)


def _is_float16(dtype):
    return keras.backend.standardize_dtype(dtype) == "float16"


def least_logit(dtype):
    """A logit that no real one undercuts, and twice of which is finite."""
    return -3e4 if _is_float16(dtype) else -1e9


def same_width(*features):
    """Pads features with zeros to one width, a multiple of 8 as kernels like.

    Those that are of one width already are left alone.
    """
    widths = {x.shape[-1] for x in features}
    if len(widths) == 1:
        return features
    return tuple(padded_width(x, multiple_of_8(max(widths))) for x in features)


def multiple_of_8(width):
    """The next multiple of 8."""
    return -(-width // 8) * 8


def padded_width(x, width):
    """Pads features `(B, length, H, .)` with zeros."""
    missing = width - x.shape[-1]
    return ops.pad(x, [[0, 0], [0, 0], [0, 0], [0, missing]])

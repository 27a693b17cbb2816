"""What logits, values and masks become for a kernel.

A bias of the keys alone can be a feature of theirs: `q.k + b = [q 1].[k b]`.
"""

import math

import keras
from keras import ops

from keras_synth._backend.devices import runs_one_by_one
from keras_synth._backend.tensors import axis_size, cast_like, constant, pad
from keras_synth.attention.logits import repeat_batch
from keras_synth.attention.routes import sizes
from keras_synth.attention.softmax import FORBIDDEN


def is_row(bias):
    """Whether a bias is of the keys alone, for all samples: `(1, H, 1, S)`."""
    return bias.shape[0] == 1 and bias.shape[2] == 1


def is_causal(request):
    """Whether nothing but a causal mask forbids, of T = S tokens.

    Kernels know that one by name and skip what it forbids.
    """
    mask, rows = request.mask, request.target_length
    others = mask.keys, mask.pairs, mask.window, mask.pattern
    if not mask.causal or any(other is not None for other in others):
        return False
    square = isinstance(rows, int) and rows == request.source_length
    begins = isinstance(mask.start, int) and mask.start == 0
    bias = request.logits.bias
    return square and begins and (bias is None or is_row(bias))


def is_small(request):
    """Whether operations take longer to start than a bias of all samples."""
    values = request.values
    batch, source_length, heads, _ = values.shape
    axes = batch, heads, request.target_length, source_length
    known = all(isinstance(size, int) for size in axes)
    small = known and math.prod(axes) <= sizes.SMALL
    return small and runs_one_by_one(values)


def with_batch(logits, values):
    """Queries and keys of `Logits` for each sample, in the dtype of values.

    Args:
        logits: `Logits` with queries.
        values: Tensor `(B, S, H, v)`.
    """
    batch = axis_size(values, 0)
    found = []
    for x in (logits.queries, logits.keys):
        if x.shape[0] == 1 and values.shape[0] != 1:
            x = repeat_batch(x, batch)
        found.append(cast_like(x, values))
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


def padding_bias(keys, values):
    """Key padding `(B, S)` as a bias of the keys, `(B, 1, 1, S)`."""
    zero, least = constant(0.0, values), least_logit(values.dtype)
    bias = ops.where(keys, zero, constant(least, values))
    return bias[:, None, None, :]


def bounded(bias, values):
    """Returns a bias in the dtype of values, above what stands for a mask."""
    if _is_half(values.dtype):
        limit = -least_logit(values.dtype) / 3
        bias = ops.clip(bias, -limit, limit)
    return cast_like(bias, values)


def _is_half(dtype):
    return keras.backend.standardize_dtype(dtype) in ("float16", "bfloat16")


def least_logit(dtype):
    """Returns a logit that no real one undercuts, and twice which is finite."""
    if not _is_half(dtype):
        return FORBIDDEN
    is_float16 = keras.backend.standardize_dtype(dtype) == "float16"
    return -3e4 if is_float16 else -1e9


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
    if not missing:
        return x
    return pad(x, [[0, 0], [0, 0], [0, 0], [0, missing]])

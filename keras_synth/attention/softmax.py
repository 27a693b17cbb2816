"""The softmax of attention: in float32, over allowed entries."""

from keras import ops

from keras_synth._backend import kernels
from keras_synth._backend.tensors import constant

# The float32 logit of forbidden pairs: far below any logit and any bias, far
# above -inf, whose differences are NaN.
FORBIDDEN = -1e38
# The least bias; smaller ones count as this.
LEAST_BIAS = -1e30


def forbid(scores, mask):
    """Returns float32 scores that are `FORBIDDEN` where `mask` is False.

    Scores `(..., T, S)` can be NaN there if the mask has several rows. `None`
    forbids nothing.
    """
    if mask is None:
        return scores
    if mask.shape[-2] != 1:
        return ops.where(mask, scores, constant(FORBIDDEN, scores))
    # On PyTorch's CPUs adding is ten times as fast as selecting, and with XLA
    # it is faster than a minimum.
    nothing, least = (constant(x, scores) for x in (0.0, FORBIDDEN))
    return scores + ops.where(mask, nothing, least)


def softmax(scores):
    """Softmax over the last axis, which can have a single entry."""
    # Keras warns of a single entry, which is correct here.
    if scores.shape[-1] == 1:
        return ops.ones_like(scores)
    axes = [i for i, size in enumerate(scores.shape) if size == 1]
    if not (axes and kernels.SLOW_UNIT_AXES):
        return ops.softmax(scores, axis=-1)
    weights = ops.softmax(ops.squeeze(scores, axes), axis=-1)
    return ops.expand_dims(weights, axes)


def softmax1(scores):
    """Softmax with an additional logit, zero.

    Returns the weights `(..., S)` and that of the additional logit, `(..., 1)`.
    """
    zeros = ops.zeros_like(scores[..., :1])
    weights = softmax(ops.concatenate([scores, zeros], axis=-1))
    return weights[..., :-1], weights[..., -1:]

"""The softmax of attention: in float32, among the allowed entries only."""

from keras import ops

from keras_synth._backend.tensors import constant

# Stands for "may not attend" in float32 logits: far below any logit and any
# bias, far above -inf, whose differences are NaN.
FORBIDDEN = -1e38
# The least bias that a user can give; what is below counts as this.
LEAST_BIAS = -1e30


def masked_softmax(scores, mask=None):
    """Softmax over the last axis among the entries where `mask` is True.

    Args:
        scores: Float32 tensor, finite.
        mask: Boolean tensor that broadcasts with `scores`, or `None`.

    Returns:
        Float32 tensor. Forbidden entries are 0, and so are all entries of a
        row where nothing is allowed.
    """
    if mask is None:
        return softmax(scores)
    weights = softmax(forbid(scores, mask))
    return ops.where(mask, weights, 0.0)


def forbid(scores, mask):
    """Returns scores that are `FORBIDDEN` where `mask` is False.

    Args:
        scores: Float32 tensor `(..., T, S)`, finite.
        mask: Boolean tensor that broadcasts with `scores`, or `None`.
    """
    if mask is None:
        return scores
    # Adding takes a tenth of the time of selecting on PyTorch's CPUs.
    nothing, least = (constant(x, scores) for x in (0.0, FORBIDDEN))
    return scores + ops.where(mask, nothing, least)


def softmax(scores):
    """Softmax over the last axis, which may have a single entry."""
    # Keras warns of that; one source token is fine here.
    if scores.shape[-1] == 1:
        return ops.ones_like(scores)
    return ops.softmax(scores, axis=-1)

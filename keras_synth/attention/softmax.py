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
        scores: Float32 tensor; entries that `mask` forbids may be anything.
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
        scores: Float32 tensor `(..., T, S)`; NaN only where `mask`, if it has
            rows, is False.
        mask: Boolean tensor that broadcasts with `scores`, or `None`.
    """
    if mask is None:
        return scores
    if mask.shape[-2] != 1:
        return ops.where(mask, scores, constant(FORBIDDEN, scores))
    # PyTorch selects by a broadcast mask in ten times as long on CPUs.
    most, least = (constant(x, scores) for x in (-FORBIDDEN, FORBIDDEN))
    return ops.minimum(scores, ops.where(mask, most, least))


def softmax(scores):
    """Softmax over the last axis, which may have a single entry."""
    # Keras warns of that; one source token is fine here.
    if scores.shape[-1] == 1:
        return ops.ones_like(scores)
    return ops.softmax(scores, axis=-1)

"""What is asked of tensors many times a call: for less than Keras takes.

Where operations run one by one, `ops.shape` and `ops.cast` take longer than
what they answer, most of all where there is nothing to do.
"""

from keras import ops


def axis_size(x, axis):
    """The length of an axis: an integer where it is known, else a scalar."""
    known = x.shape[axis]
    return ops.shape(x)[axis] if known is None else known


def cast_like(x, like):
    """Returns `x` in the dtype of another tensor."""
    return x if x.dtype == like.dtype else ops.cast(x, like.dtype)

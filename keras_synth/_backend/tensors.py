"""What is asked of tensors many times a call: for less than Keras takes.

Where operations run one by one, `ops.shape` and `ops.cast` take longer than
what they answer, most of all where there is nothing to do.
"""

import sys

import keras
from keras import ops


def axis_size(x, axis):
    """The length of an axis: an integer where it is known, else a scalar."""
    known = x.shape[axis]
    return ops.shape(x)[axis] if known is None else known


def cast_like(x, like):
    """Returns `x` in the dtype of another tensor."""
    return x if x.dtype == like.dtype else ops.cast(x, like.dtype)


def pad(x, widths, value=0):
    """Puts a value before and after the entries of each axis.

    `ops.pad` makes an object with a name at each call, which PyTorch's
    compiler cannot do.

    Args:
        x: Tensor.
        widths: List of a pair for each axis: how many before and after.
        value: Number or boolean.
    """
    if keras.backend.backend() != "torch":
        return ops.pad(x, widths, constant_values=value)
    flat = [width for pair in reversed(widths) for width in pair]
    torch = sys.modules["torch"]
    return torch.nn.functional.pad(ops.convert_to_tensor(x), flat, value=value)


def product(x, y):
    """`x y`, of tensors `(b, h, ., .)`.

    TensorFlow 2.21 on CPUs (oneDNN) writes beyond the end of a product of
    `(b, 1, m, k)` and `(1, 1, k, n)`; of three axes it does not.
    """
    if x.shape[1] == y.shape[1] == 1:
        return ops.matmul(x[:, 0], y[:, 0])[:, None]
    return ops.matmul(x, y)


def from_array(x):
    """A NumPy array as a tensor, within what PyTorch compiles, too.

    Args:
        x: NumPy array.
    """
    if keras.backend.backend() == "torch":
        x = sys.modules["torch"].from_numpy(x)
    return ops.convert_to_tensor(x)

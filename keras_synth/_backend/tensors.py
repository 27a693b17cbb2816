"""Fast versions of frequent operations on tensors.

In eager execution `ops.shape` and `ops.cast` are slow, even if there is nothing
to do.
"""

from typing import Any

from keras import ops

from keras_synth._backend import execution
from keras_synth._backend.frameworks import TORCH


def axis_size(x, axis):
    """The length of an axis: an integer if it is known, or a scalar."""
    known = x.shape[axis]
    return ops.shape(x)[axis] if known is None else known


def indices(length):
    """Integers from 0 to `length - 1`.

    `jax2onnx` cannot convert Keras' `arange` without a start.
    """
    return ops.arange(0, length, dtype="int32")


def cast_like(x, like):
    """Returns `x` in the dtype of another tensor."""
    return x if x.dtype == like.dtype else ops.cast(x, like.dtype)


def pad(x, widths, value=0):
    """Pads each axis with a value.

    `ops.pad` makes an object with a name in each call, which PyTorch's compiler
    does not support. `widths` is a list with a pair for each axis.
    """
    if TORCH is None:
        return ops.pad(x, widths, constant_values=value)
    flat = [width for pair in reversed(widths) for width in pair]
    return TORCH.nn.functional.pad(ops.convert_to_tensor(x), flat, value=value)


def pad_axis(x, axis, before, after):
    """Adds zeros along an axis; `None` stays `None`."""
    if x is None or all(isinstance(n, int) and n == 0 for n in (before, after)):
        return x
    widths = [[0, 0] for _ in x.shape]
    widths[axis] = [before, after]
    return pad(x, widths)


def product(x, y):
    """`x y` for tensors `(b, h, ., .)`.

    TensorFlow 2.21 on CPUs (oneDNN) writes beyond the end of a product of
    `(b, 1, m, k)` and `(1, 1, k, n)`, but not with three axes.
    """
    if x.shape[1] == y.shape[1] == 1:
        return ops.matmul(x[:, 0], y[:, 0])[:, None]
    return ops.matmul(x, y)


def from_array(x):
    """A NumPy array as a tensor, also in code that PyTorch compiles."""
    return ops.convert_to_tensor(TORCH.from_numpy(x) if TORCH else x)


def constant(number, like):
    """A scalar tensor with the dtype and device of another.

    For PyTorch it is cached, because a new one needs an additional operation.
    """
    if TORCH is None:
        return ops.cast(number, like.dtype)
    # Do not cache tensors without values.
    plain = type(like) in (TORCH.Tensor, TORCH.nn.Parameter)
    key = number, like.dtype, like.device
    if (
        not plain
        or TORCH.compiler.is_compiling()
        or TORCH.jit.is_tracing()
        or (key not in _CONSTANTS and _is_fleeting())
    ):
        return TORCH.full((), number, dtype=like.dtype, device=like.device)
    if key not in _CONSTANTS:
        with TORCH.inference_mode(False):
            _CONSTANTS[key] = TORCH.full(
                (), number, dtype=like.dtype, device=like.device
            )
    return _CONSTANTS[key]


_CONSTANTS: dict[tuple[Any, ...], Any] = {}


def _is_fleeting():
    """Whether a new tensor must not be cached.

    `torch.func` wraps it, and a CUDA graph fills it only when the graph runs.
    """
    cuda = TORCH.cuda
    return execution.is_transformed() or (
        cuda.is_available() and cuda.is_current_stream_capturing()
    )


def take(x, positions, axis):
    """Entries of a tensor along an axis, as `ops.take`.

    `positions` are integers of any shape, at least 0.
    """
    if not TORCH:
        return ops.take(x, positions, axis=axis)
    # Keras squeezes an axis here, which ONNX files cannot.
    rows = ops.cast(ops.reshape(positions, (-1,)), "int32")
    shape = *x.shape[:axis], *positions.shape, *x.shape[axis + 1 :]
    return ops.reshape(TORCH.index_select(x, axis, rows), shape)


def heads_first(x):
    """`(B, T, H, f) -> (B, H, T, f)`, and back; `None` stays `None`."""
    return None if x is None else ops.transpose(x, (0, 2, 1, 3))

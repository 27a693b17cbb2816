"""Stock layers that multiply by constants."""

import math
import re
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from keras_synth.types import Tensor


def product_of(
    equation: str,
    shape: tuple,
    kernel: np.ndarray,
    bias: np.ndarray | None,
    activation: Any = None,
    name: str | None = None,
) -> Callable[[Tensor], Tensor]:
    """Returns a function of `x`, `einsum(equation, x, kernel) + bias`.

    A projection is a `Dense`, between two `Reshape` if it has several axes:
    converters and their quantizers do better with it than with `EinsumDense`.

    Args:
        equation: String, such as `"btd,dhk->bthk"`.
        shape: Shape of `x`, with the batch first.
        kernel: Array.
        bias: Optional array that broadcasts to the output, `(1, ...)`.
        activation: Optional activation of the output.
        name: Optional name of the layer.
    """
    letters, of_kernel, right = re.split(",|->", equation)
    summed = "".join(axis for axis in of_kernel if axis not in right)
    new = of_kernel.removeprefix(summed)
    kept = letters.removesuffix(summed)
    options = {"activation": activation, "name": name, "dtype": "float32"}
    is_dense = equation == f"{kept}{summed},{summed}{new}->{kept}{new}"
    is_dense &= bool(summed and new)
    if activation not in (None, keras.activations.linear):
        is_dense &= len(new) == 1  # it may be one over the last axis
    if bias is not None:
        is_dense &= set(bias.shape[: len(kept)]) == {1}
    if is_dense:
        return _dense(len(summed), shape, kernel, bias, options)
    return _einsum_dense(equation, shape, kernel, bias, options)


def _dense(summed, shape, kernel, bias, options):
    """A `Dense` over the last `summed` axes of `x`."""
    kept, new = shape[1:-summed], kernel.shape[summed:]
    layer = keras.layers.Dense(
        math.prod(new), use_bias=bias is not None, **options
    )
    width = math.prod(kernel.shape[:summed])
    layer.build((None, *kept, width))
    layer.kernel.assign(np.reshape(kernel, layer.kernel.shape))
    if bias is not None:
        bias = np.broadcast_to(bias, (1,) * (len(kept) + 1) + new)
        layer.bias.assign(np.ravel(bias))

    def call(x):
        if summed > 1:
            x = keras.layers.Reshape((*kept, width))(x)
        x = layer(x)
        return x if len(new) == 1 else keras.layers.Reshape((*kept, *new))(x)

    return call


def _einsum_dense(equation, shape, kernel, bias, options):
    letters, of_kernel, right = re.split(",|->", equation)
    sizes = dict(zip(letters, shape, strict=True))
    sizes |= dict(zip(of_kernel, kernel.shape, strict=True))
    output = tuple(sizes[axis] for axis in right[1:])
    axes = None
    if bias is not None:
        if bias.shape[-1] == 1:  # TensorFlow might take axes for others
            bias = np.repeat(bias, output[-1], axis=-1)
        pairs = zip(right[1:], bias.shape[1:], strict=True)
        axes = "".join(axis for axis, size in pairs if size > 1)
    layer = keras.layers.EinsumDense(
        equation,
        output_shape=output,
        bias_axes=right[-1] if axes == "" else axes,
        **options,
    )
    layer.build(shape)
    layer.kernel.assign(kernel)
    if bias is not None:
        layer.bias.assign(np.reshape(bias, layer.bias.shape))
    return layer

"""Slices of tensors, one after the other."""

import keras
from keras import ops

from keras_synth._backend import execution
from keras_synth._backend.frameworks import TENSORFLOW


def one_by_one(function, operands, axes):
    """Applies a function to one slice after another, along some axes.

    The loops are nested, the first axis being the outermost. What a slice
    needs for its gradient is computed again when the gradient is.

    Args:
        function: Function of a dictionary of tensors, slices whose length is 1
            along the axes, which returns a tensor of the same rank.
        operands: Dictionary of tensors of one rank. Those of length 1 along an
            axis are the same for all slices.
        axes: Sequence of integers.

    Returns:
        Tensor, the results side by side along the axes.
    """
    return _one_by_one(rematerialized(function), operands, tuple(axes))


def rematerialized(function):
    """Returns a function of tensors that is computed again for its gradient.

    Where no gradient is recorded, or `torch.func` maps or differentiates, which
    takes no such function, it is the function itself.
    """
    if execution.is_transformed() or not execution.may_be_differentiated():
        return function
    return keras.remat(function)


def _one_by_one(function, operands, axes):
    if not axes:
        return function(operands)
    axis, inner = axes[0], axes[1:]
    same = {k: x for k, x in operands.items() if x.shape[axis] == 1}
    each = {
        k: ops.moveaxis(x, axis, 0)
        for k, x in operands.items()
        if k not in same
    }

    if not each:
        return _one_by_one(function, operands, inner)

    def of_slice(each):
        slices = {k: ops.expand_dims(x, axis) for k, x in each.items()}
        result = _one_by_one(function, {**same, **slices}, inner)
        return ops.squeeze(result, axis)

    return ops.moveaxis(ops.map(of_slice, each), 0, axis)


def summed(function, operands, total):
    """Adds up a function of slices, one after the other.

    Args:
        function: Function of tensors, slices of the operands.
        operands: Tuple of tensors of one length, whose slices lie along their
            first axis.
        total: Tensor, what the sum begins with.
    """
    length = operands[0].shape[0]
    if TENSORFLOW:
        # XLA differentiates loops only if their length is static, which
        # `scan` does not say.
        return ops.while_loop(
            lambda i, total: i < length,
            lambda i, total: (
                i + 1,
                total + function(*(x[i] for x in operands)),
            ),
            (0, total),
            maximum_iterations=length,
        )[1]

    def add(total, slices):
        return total + function(*slices), None

    return ops.scan(add, total, operands)[0]

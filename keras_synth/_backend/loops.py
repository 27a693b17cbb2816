"""Loops over slices of tensors."""

import keras
from keras import ops

from keras_synth._backend import execution
from keras_synth._backend.frameworks import TENSORFLOW


def one_by_one(function, operands, axes):
    """Applies a function to slices along some axes, one after the other.

    The loops are nested, with the first axis outermost. The function, which is
    `rematerialized`, maps a dictionary of slices, which have length 1 along the
    axes, to a tensor of the same rank. All slices share the operands of length
    1 along an axis.
    """
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
        return one_by_one(function, operands, inner)

    def of_slice(each):
        slices = {k: ops.expand_dims(x, axis) for k, x in each.items()}
        result = one_by_one(function, {**same, **slices}, inner)
        return ops.squeeze(result, axis)

    return ops.moveaxis(ops.map(of_slice, each), 0, axis)


def rematerialized(function):
    """Returns a function that is computed again for its gradient.

    The function does not change if no gradient is recorded, or if `torch.func`,
    which does not support this, maps or differentiates.
    """
    if execution.is_transformed() or not execution.may_be_differentiated():
        return function
    return _computed_twice(function) if TENSORFLOW else keras.remat(function)


def _computed_twice(function):
    """`keras.remat` on TensorFlow, also for masks and second derivatives.

    `tf.recompute_grad`, which Keras uses, supports neither. TensorFlow
    differentiates the function: this only says when.
    """

    def call(*args):
        def of_leaves(*leaves):
            return function(*keras.tree.pack_sequence_as(args, leaves))

        @TENSORFLOW.custom_gradient
        def with_gradients(*leaves):
            def gradients(slope):
                # Without copies, second derivatives in loops are wrong.
                own = [TENSORFLOW.identity(x) for x in leaves]
                floats = [x for x in own if x.dtype.is_floating]
                with TENSORFLOW.GradientTape() as tape:
                    tape.watch(floats)
                    output = of_leaves(*own)
                found = iter(tape.gradient(output, floats, slope))
                return [
                    next(found) if x.dtype.is_floating else None for x in own
                ]

            return of_leaves(*leaves), gradients

        return with_gradients(*keras.tree.flatten(args))

    return call


def summed(function, operands, total):
    """Adds a function of slices along the first axis of all operands."""
    length = operands[0].shape[0]
    if TENSORFLOW:
        # XLA differentiates only loops of static length, which `scan` does not
        # declare.
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

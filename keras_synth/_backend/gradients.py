"""Gradients written by hand that can be differentiated themselves."""

import keras
from keras import ops

from keras_synth._backend.execution import is_transformed
from keras_synth._backend.trees import beside, put_together, taken_apart


def with_gradient(function, gradient):
    """Gives a function of tensors a gradient written by hand.

    The gradient takes the function's output, so that it need not be computed
    twice. For second derivatives the output must be known as a function of the
    operands nevertheless: there it is this function once more, of the value
    that is known, with the same gradient. So derivatives of any order are
    right as long as `gradient` computes with the tensors it is given.

    All tensors that either of them reads must be operands, masks too: inside
    `jax.checkpoint`, a loop or a branch JAX calls them anew, each time with
    other tensors in place of the operands, when those of the first call are
    gone.

    Args:
        function: Function of the operands that returns one tensor.
        gradient: Function `(upstream, output, *operands)` that returns a tuple
            with an entry like each operand, or `None` where that counts as a
            constant, as a whole or in part.

    Returns:
        A function of the operands, to be called once. They are tensors,
        `None`, numbers, functions or tuples of such.
    """
    if is_transformed():
        # `torch.func` takes no such gradient: it differentiates operations.
        return function

    def differentiable(*operands):
        outline, tensors = taken_apart(operands, ops.is_tensor)

        def of_tensors(*tensors):
            return function(*put_together(outline, tensors))

        def gradient_of_tensors(upstream, output, *tensors):
            own = put_together(outline, tensors)
            return tuple(beside(outline, gradient(upstream, output, *own)))

        return _with_gradient(of_tensors, gradient_of_tensors)(*tensors)

    return differentiable


def _with_gradient(function, gradient, known=None):
    # JAX differentiates what is computed below like anything else, in forward
    # mode too, which knows no custom gradients. Elsewhere the output leads back
    # to this function: on PyTorch the two would hold each other.
    plain = keras.backend.backend() == "jax"

    @ops.custom_gradient
    def differentiable(*operands):
        output = function(*operands) if known is None else known
        found = output if plain else ops.stop_gradient(output)

        def backward(*args, upstream=None):
            upstream = args[0] if upstream is None else upstream
            again = found
            if not plain:
                # A new tensor each time: PyTorch records a history for it.
                alias = ops.stop_gradient(found)
                again = _with_gradient(function, gradient, alias)(*operands)
            return gradient(upstream, again, *operands)

        return output, backward

    return differentiable

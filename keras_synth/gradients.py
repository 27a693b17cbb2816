"""Gradients written by hand that can be differentiated themselves."""

import keras
from keras import ops


def with_gradient(function, gradient):
    """Gives a function of tensors a gradient written by hand.

    The gradient is told the function's output, so that it need not be computed
    twice. For second derivatives the output must be known as a function of the
    operands nevertheless: there it is this function once more, of the value
    that is known, with the same gradient. So derivatives of any order are
    right as long as `gradient` computes with the tensors it is given.

    Args:
        function: Function of operands, tensors, that returns one tensor.
        gradient: Function `(upstream, output, *operands)` that returns a tuple
            with a tensor for each operand, or `None` where the operand counts
            as a constant.

    Returns:
        A function of the operands, to be called once.
    """
    return _with_gradient(function, gradient, known=None)


def _with_gradient(function, gradient, known):
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
                again = _with_gradient(function, gradient, found)(*operands)
            return gradient(upstream, again, *operands)

        return output, backward

    return differentiable

"""Loops, branches and slices that can be differentiated, on every backend.

Compiled by TensorFlow they need help with second derivatives: updates of a
slice have no gradient there, and a slice's gradient is such an update; of a
loop XLA must know the most steps; and what a loop in a branch leaves for its
gradient XLA cannot take out of the branch.
"""

import inspect

import keras
from keras import ops

from keras_synth._backend.execution import is_transformed, supports_inplace
from keras_synth._backend.gradients import with_gradient
from keras_synth._backend.tensors import pad


def repeat(number, step, state):
    """Returns the state after `step(i, state)` for `i` below `number`.

    Args:
        number: Integer or scalar integer tensor.
        step: Function of a scalar integer and the state.
        state: Tuple of tensors.
    """
    if isinstance(number, int) and number == 1:
        return step(0, state)
    if not _on_tensorflow():
        return ops.fori_loop(0, number, step, state)
    _, state = ops.while_loop(
        lambda i, state: i < number,
        lambda i, state: (i + 1, step(i, state)),
        (0, state),
        maximum_iterations=number,
    )
    return state


def branch(predicate, if_true, if_false):
    """Returns what one of two functions returns, a tuple of tensors.

    Args:
        predicate: Boolean scalar tensor.
        if_true: Function without arguments.
        if_false: Function without arguments.

    Raises:
        NotImplementedError: On TensorFlow, where it is differentiated.
    """
    found = ops.cond(predicate, if_true, if_false)
    return tuple(map(_last, found)) if _on_tensorflow() else found


def _last(x):
    """`x`, which must not be differentiated any more."""

    def refuse(upstream, *_):
        if _saving():
            return (upstream,)
        raise NotImplementedError(
            "TensorFlow cannot compile second derivatives of attention that "
            "computes one table of weights for all samples and leaves out "
            "padding for each (random synthesizers with a `value_mask`). Run "
            "eagerly, as by `compile(run_eagerly=True)`, or give the padding "
            "as an `attention_mask` of shape (B, T, S)."
        )

    return with_gradient(lambda x: x, refuse)(x)


def _saving():
    """Whether TensorFlow traces gradients for a SavedModel.

    It does so for each operation with a gradient written by hand, whether
    anything asks for that gradient or not.
    """
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_code.co_name == "_trace_gradient_functions":
            return True
        frame = frame.f_back
    return False


def cut(x, starts, sizes):
    """Returns a slice of `x`: lists of the axes' starts and sizes."""
    if not _on_tensorflow():
        return ops.slice(x, starts, sizes)

    def gradient(upstream, _, x, starts, sizes):
        return put(ops.zeros_like(x), starts, upstream), None, None

    return with_gradient(ops.slice, gradient)(x, tuple(starts), tuple(sizes))


def put(x, starts, part):
    """Returns `x` with a slice replaced by `part`: `x` itself, if it can be.

    Args:
        x: Tensor that nobody else needs as it was.
        starts: List of the starts along its axes.
        part: Tensor of its rank.
    """
    if supports_inplace(x):
        x[_along(starts, part)] = part
        return x
    if is_transformed():
        inside = _placed(ops.ones_like(part, "bool"), starts, x)
        return ops.where(inside, _placed(part, starts, x), x)
    if not _on_tensorflow():
        return ops.slice_update(x, starts, part)

    def gradient(upstream, _, x, starts, part):
        nothing = put(upstream, starts, ops.zeros_like(part))
        return nothing, None, cut(upstream, starts, ops.shape(part))

    return with_gradient(ops.slice_update, gradient)(x, tuple(starts), part)


def add(x, starts, part):
    """As `put`, with `part` added to the slice."""
    if supports_inplace(x):
        x[_along(starts, part)] += part
        return x
    return put(x, starts, cut(x, starts, ops.shape(part)) + part)


def _placed(part, starts, x):
    """Zeros like `x` but for a slice."""
    return pad(
        part,
        [
            [start, whole - start - size]
            for start, whole, size in zip(
                starts, x.shape, part.shape, strict=True
            )
        ],
    )


def _along(starts, part):
    """The slice of `put`, for tensors that are indexed."""
    return tuple(
        slice(start, start + size)
        for start, size in zip(starts, part.shape, strict=True)
    )


def _on_tensorflow():
    return keras.backend.backend() == "tensorflow"

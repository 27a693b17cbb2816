"""How operations run: one by one or compiled, recorded, differentiated."""

import contextlib

from keras_synth._backend import internals
from keras_synth._backend.frameworks import JAX, TENSORFLOW, TORCH


def is_eager(x):
    """Whether operations on `x` run when they are called, one by one.

    False while a function is being traced, to be compiled as a whole. There a
    Python loop would be unrolled; here a loop of the backend's would be
    compiled anew at each call.
    """
    if JAX:
        return not isinstance(x, JAX.core.Tracer)
    return TENSORFLOW.executing_eagerly() if TENSORFLOW else True


def is_placeholder(x):
    """Whether `x` has a shape and no values.

    PyTorch's symbolic calls (`keras.Input`) send such tensors through layers,
    with made-up numbers in place of unknown lengths.
    """
    return TORCH is not None and x.device.type == "meta"


def is_traced():
    """Whether PyTorch's older tracer (TorchScript) records operations.

    What it records holds for the sizes that it sees; Keras has it see 1 in
    place of unknown ones.
    """
    return TORCH is not None and TORCH.jit.is_tracing()


def is_compiled_by_torch():
    """Whether `torch.compile` or `torch.export` is tracing this."""
    return TORCH is not None and TORCH.compiler.is_compiling()


def is_transformed():
    """Whether `torch.func` maps or differentiates a function that does this.

    So does the backward pass of `jacobian(..., vectorize=True)`. Tensors then
    have no values to ask for, and take none in place.
    """
    if TORCH is None or TORCH.compiler.is_compiling():
        return False
    return internals.torch_transforms()


def takes_no_loops():
    """Whether PyTorch compiles, records or transforms what is computed."""
    return is_compiled_by_torch() or is_traced() or is_transformed()


def known_to_compilers(function):
    """Makes what a function returns a constant of what PyTorch compiles.

    For functions without arguments that PyTorch's compiler cannot follow: it
    calls them once.
    """
    if TORCH is None:
        return function
    return TORCH.compiler.assume_constant_result(function)


def without_gradients():
    """Returns a context in which PyTorch keeps nothing for gradients.

    Elsewhere nothing is kept unless it is asked for.
    """
    return contextlib.nullcontext() if TORCH is None else TORCH.no_grad()


def may_be_differentiated():
    """Whether a derivative may be asked for: PyTorch knows."""
    return TORCH is None or TORCH.is_grad_enabled()


def is_differentiated(x):
    """Whether PyTorch will want a gradient by what is made of a tensor."""
    return TORCH.is_grad_enabled() and x.requires_grad

"""How operations run: one by one or compiled, recorded, differentiated.

Questions that only the backend can answer, and why each is asked.
"""

import contextlib
import sys

import keras

from keras_synth._backend import internals


def is_eager(x):
    """Whether operations on `x` run when they are called, one by one.

    False while a function is being traced, to be compiled as a whole. There a
    Python loop would be unrolled; here a loop of the backend's would be
    compiled anew at each call. To ask makes nobody wait for a device.

    Args:
        x: Tensor.
    """
    backend = keras.backend.backend()
    if backend == "jax":
        return not isinstance(x, sys.modules["jax"].core.Tracer)
    if backend == "tensorflow":
        return sys.modules["tensorflow"].executing_eagerly()
    return True


def is_placeholder(x):
    """Whether `x` has a shape and no values.

    PyTorch's symbolic calls (`keras.Input`) send such tensors through layers,
    with made-up numbers in place of unknown lengths.
    """
    return keras.backend.backend() == "torch" and x.device.type == "meta"


def is_traced():
    """Whether PyTorch's older tracer (TorchScript) records operations.

    What it records holds for the sizes that it sees; Keras has it see 1 in
    place of unknown ones.
    """
    if keras.backend.backend() != "torch":
        return False
    return sys.modules["torch"].jit.is_tracing()


def is_recorded():
    """Whether PyTorch records operations, to run them without Python."""
    if keras.backend.backend() != "torch":
        return False
    compiler = sys.modules["torch"].compiler
    # PyTorch 2.6 does not distinguish an export from a compilation.
    exports = getattr(compiler, "is_exporting", compiler.is_compiling)
    return is_traced() or exports()


def is_compiled_by_torch():
    """Whether `torch.compile` is tracing this."""
    if keras.backend.backend() != "torch":
        return False
    return sys.modules["torch"].compiler.is_compiling()


def is_transformed():
    """Whether `torch.func` maps or differentiates a function that does this.

    So does the backward pass of `jacobian(..., vectorize=True)`. Tensors then
    have no values to ask for, and take none in place.
    """
    if keras.backend.backend() != "torch":
        return False
    compiling = sys.modules["torch"].compiler.is_compiling()
    return not compiling and internals.torch_transforms()


def known_to_compilers(function):
    """Makes what a function returns a constant of what PyTorch compiles.

    For functions without arguments that PyTorch's compiler cannot follow: it
    calls them once.
    """
    if keras.backend.backend() != "torch":
        return function
    return sys.modules["torch"].compiler.assume_constant_result(function)


def without_gradients():
    """Returns a context in which PyTorch keeps nothing for gradients.

    Elsewhere nothing is kept unless it is asked for, and compilers see what
    `ops.stop_gradient` leaves unused.
    """
    if keras.backend.backend() != "torch":
        return contextlib.nullcontext()
    return sys.modules["torch"].no_grad()


def may_be_differentiated():
    """Whether a derivative of what is computed now may be asked for.

    PyTorch knows; elsewhere it is always so.
    """
    if keras.backend.backend() != "torch":
        return True
    return sys.modules["torch"].is_grad_enabled()


def is_differentiated(*tensors):
    """Whether PyTorch will want a gradient by what is made of some tensors."""
    enabled = sys.modules["torch"].is_grad_enabled()
    return enabled and any(x.requires_grad for x in tensors)


def backend_version():
    """The backend's name and version, two strings."""
    backend = keras.backend.backend()
    return backend, sys.modules[backend].__version__

"""Devices, and eager, traced or compiled execution."""

import contextlib

from keras_synth._backend import internals
from keras_synth._backend.frameworks import JAX, TENSORFLOW, TORCH


def is_eager(x):
    """Whether operations on `x` run eagerly, and are not traced."""
    if JAX:
        return not isinstance(x, JAX.core.Tracer)
    return TENSORFLOW.executing_eagerly() if TENSORFLOW else True


def is_placeholder(x):
    """Whether `x` has a shape and no values.

    PyTorch's symbolic calls (`keras.Input`) use such tensors, with arbitrary
    numbers for unknown lengths.
    """
    return TORCH is not None and x.device.type == "meta"


def is_traced():
    """Whether TorchScript, PyTorch's older tracer, records operations."""
    return TORCH is not None and TORCH.jit.is_tracing()


def is_compiled_by_torch():
    """Whether `torch.compile` or `torch.export` is tracing this."""
    return TORCH is not None and TORCH.compiler.is_compiling()


def is_transformed():
    """Whether `torch.func` maps or differentiates the calling function.

    The backward pass of `jacobian(..., vectorize=True)` does so, too. Tensors
    then have no values, and cannot change in place.
    """
    if TORCH is None or TORCH.compiler.is_compiling():
        return False
    return internals.torch_transforms()


def takes_no_loops():
    """Whether PyTorch compiles, records or transforms the computation."""
    return is_compiled_by_torch() or is_traced() or is_transformed()


def known_to_compilers(function):
    """Makes the result of a function a constant for PyTorch's compiler."""
    if TORCH is None:
        return function
    return TORCH.compiler.assume_constant_result(function)


def without_gradients():
    """Returns a context in which PyTorch stores nothing for gradients.

    Other backends store nothing without a request.
    """
    return contextlib.nullcontext() if TORCH is None else TORCH.no_grad()


def may_be_differentiated():
    """Whether PyTorch records derivatives; True for other backends."""
    return TORCH is None or TORCH.is_grad_enabled()


# --- devices ------------------------------------------------------------------


def on_cpu(x):
    """Whether operations on a tensor run on a CPU.

    A traced tensor has the device of the scope, or the backend's default.
    """
    if TORCH:
        return x.device.type == "cpu"
    if JAX and isinstance(x, JAX.core.Tracer):
        device = JAX.config.jax_default_device or JAX.default_backend()
        return getattr(device, "platform", device) == "cpu"
    if JAX:
        return next(iter(x.devices())).platform == "cpu"
    if TENSORFLOW is None:
        return True
    device = (x.device or "").lower()
    if "device:" in device:
        return "device:cpu" in device
    devices = TENSORFLOW.config.list_logical_devices()
    return all(d.device_type == "CPU" for d in devices)


def first_platform():
    """JAX's name of its default platform."""
    return JAX.devices()[0].platform


def loops_over_slices(x):
    """Whether slices computed one after the other save time and memory.

    They do on CPUs, because a slice fits into the cache. There are exceptions.
    JAX compiles a loop in each eager call, and TensorFlow runs it op by op.
    PyTorch's compilers and transformations do not support loops.
    """
    if TORCH is None:
        return on_cpu(x) and not is_eager(x)
    return runs_torch_eagerly(x)


def runs_torch_eagerly(x):
    """Whether PyTorch runs operations on a tensor eagerly on a CPU."""
    return TORCH is not None and on_cpu(x) and not takes_no_loops()

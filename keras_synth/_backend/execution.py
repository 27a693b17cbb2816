"""Where and how operations run: on CPUs or not, one by one or compiled."""

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


# --- devices ------------------------------------------------------------------


def on_cpu(x):
    """Whether operations on a tensor run on a CPU.

    A tensor knows. Where it is being traced the scope does in which that
    happens, or else the device that the backend takes by default.
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
    """JAX's name of the platform that it takes by default."""
    return JAX.devices()[0].platform


def runs_one_by_one(x):
    """Whether Python launches each operation on an accelerator as it runs.

    A launch then takes longer than most operations, and to read a value is to
    wait for all that were launched before.
    """
    eager = is_eager(x) and not is_compiled_by_torch()
    return eager and not on_cpu(x)


def loops_over_slices(x):
    """Whether slices computed one after the other save time and memory.

    On CPUs, whose caches hold a slice. On TensorFlow a rematerialized function
    gives no gradient to the tensors that it captures; JAX compiles a loop anew
    at each eager call; and what PyTorch compiles or transforms takes no loop.
    """
    if JAX:
        return on_cpu(x) and not is_eager(x)
    return runs_torch_eagerly(x)


def runs_torch_eagerly(x):
    """Whether PyTorch runs operations on a tensor one by one on a CPU."""
    return TORCH is not None and on_cpu(x) and not takes_no_loops()

"""Where operations run: on CPUs or not."""

from keras_synth._backend import execution
from keras_synth._backend.frameworks import JAX, TENSORFLOW, TORCH


def on_cpu(x):
    """Whether operations on a tensor run on a CPU.

    A tensor knows. Where it is being traced the scope does in which that
    happens, or else the device that the backend takes by default.
    """
    if TORCH:
        return x.device.type == "cpu"
    if JAX:
        return _jax_platform(x) == "cpu"
    return _on_tensorflow_cpu(x) if TENSORFLOW else True


def _jax_platform(x):
    if not isinstance(x, JAX.core.Tracer):
        return next(iter(x.devices())).platform
    default = JAX.config.jax_default_device  # a device, its platform or None
    if default is None:
        return JAX.default_backend()
    return getattr(default, "platform", default)


def _on_tensorflow_cpu(x):
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
    eager = execution.is_eager(x) and not execution.is_compiled_by_torch()
    return eager and not on_cpu(x)


def loops_over_slices(x):
    """Whether slices computed one after the other save time and memory.

    On CPUs, whose caches hold a slice. On TensorFlow a rematerialized function
    gives no gradient to the tensors that it captures; JAX compiles a loop anew
    at each eager call; and what PyTorch compiles or transforms takes no loop.
    """
    if JAX:
        return on_cpu(x) and not execution.is_eager(x)
    return runs_torch_eagerly(x)


def runs_torch_eagerly(x):
    """Whether PyTorch runs operations on a tensor one by one on a CPU."""
    return TORCH is not None and on_cpu(x) and not execution.takes_no_loops()

"""Where operations run: questions that only the backend can answer."""

import sys

import keras

from keras_synth._backend import execution


def on_cpu(x):
    """Whether operations on `x` run on a CPU.

    A tensor knows. Where it is being traced the scope does in which that
    happens, or else the device that the backend takes by default.

    Args:
        x: Tensor.
    """
    backend = keras.backend.backend()
    if backend == "torch":
        return x.device.type == "cpu"
    if backend == "jax":
        return _jax_platform(x) == "cpu"
    if backend == "tensorflow":
        return _on_tensorflow_cpu(x)
    return True


def _jax_platform(x):
    jax = sys.modules["jax"]
    if not isinstance(x, jax.core.Tracer):
        return next(iter(x.devices())).platform
    default = jax.config.jax_default_device  # a device, its platform or None
    if default is None:
        return jax.default_backend()
    return getattr(default, "platform", default)


def _on_tensorflow_cpu(x):
    device = x.device or ""
    if "device:" in device.lower():
        return "device:cpu" in device.lower()
    devices = sys.modules["tensorflow"].config.list_logical_devices()
    return all(d.device_type == "CPU" for d in devices)


def first_platform():
    """JAX's name of the platform that it takes by default."""
    return sys.modules["jax"].devices()[0].platform


def runs_one_by_one(x):
    """Whether Python launches each operation on an accelerator as it runs.

    A launch then takes longer than most operations, and to read a value is to
    wait for all that were launched before.

    Args:
        x: Tensor.
    """
    return (
        not on_cpu(x)
        and execution.is_eager(x)
        and not execution.is_compiled_by_torch()
    )


def loops_over_slices(x):
    """Whether slices computed one after the other save time and memory.

    On CPUs, whose caches hold a slice. On TensorFlow a rematerialized function
    gives no gradient to the tensors that it captures; JAX compiles a loop anew
    at each eager call; and what PyTorch compiles or transforms takes no loop.

    Args:
        x: Tensor.
    """
    backend = keras.backend.backend()
    if backend == "torch":
        return on_cpu(x) and not (
            execution.is_compiled_by_torch()
            or execution.is_recorded()
            or execution.is_transformed()
        )
    return backend == "jax" and on_cpu(x) and not execution.is_eager(x)


def runs_torch_eagerly(x):
    """Whether PyTorch runs operations on `x` one by one on a CPU.

    Args:
        x: Tensor.
    """
    return keras.backend.backend() == "torch" and loops_over_slices(x)

"""What must be asked of the backend itself. No other module does."""

import functools
import sys

import keras
from keras import ops


def runs_at_once(x):
    """Whether operations on `x` run when they are called, one by one.

    False while a function is being traced, to be compiled as a whole. There a
    Python loop would be unrolled; here a loop of the backend's would be
    compiled anew at each call.

    Args:
        x: Tensor of rank 1 or more.
    """
    if keras.backend.backend() == "torch":
        return True
    try:
        return bool(ops.all(ops.isfinite(x[:0])))
    except TypeError:  # while tracing, nobody knows the value of anything
        return False


def is_placeholder(x):
    """Whether `x` has a shape and no values.

    PyTorch's symbolic calls (`keras.Input`) send such tensors through layers,
    with made-up numbers in place of unknown lengths.
    """
    return keras.backend.backend() == "torch" and x.device.type == "meta"


def is_traced():
    """Whether PyTorch records operations, to export them to ONNX.

    What it records holds for the sizes that it sees; Keras has it see 1 in
    place of unknown ones.
    """
    if keras.backend.backend() != "torch":
        return False
    return sys.modules["torch"].jit.is_tracing()


def on_cpu(x):
    """Whether operations on `x` run on a CPU."""
    if keras.backend.backend() == "torch":
        return x.device.type == "cpu"
    return _only_cpus()


@functools.cache
def _only_cpus():
    devices = keras.distribution.list_devices()
    return all(name.lower().startswith("cpu") for name in devices)

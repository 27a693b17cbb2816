"""What must be asked of the backend itself, and the answers' reasons."""

import contextlib
import sys
from typing import Any

import keras
from keras import ops

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


def runs_one_by_one(x):
    """Whether Python launches each operation on an accelerator as it runs.

    A launch then takes longer than most operations, and to read a value is to
    wait for all that were launched before.

    Args:
        x: Tensor.
    """
    return not on_cpu(x) and is_eager(x) and not is_compiled_by_torch()


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


def constant(number, like):
    """A scalar tensor, of the dtype and on the device of another.

    PyTorch would fill a new one each time, an operation of its own: there it
    is kept.

    Args:
        number: Float.
        like: Tensor.
    """
    if keras.backend.backend() != "torch":
        return ops.cast(number, like.dtype)
    torch = sys.modules["torch"]
    # Of tensors that only look like tensors none must be kept.
    plain = type(like) in (torch.Tensor, torch.nn.Parameter)
    key = number, like.dtype, like.device
    if (
        not plain
        or torch.compiler.is_compiling()
        or torch.jit.is_tracing()
        or (key not in _CONSTANTS and (is_transformed() or _is_captured(like)))
    ):
        return torch.full((), number, dtype=like.dtype, device=like.device)
    if key not in _CONSTANTS:
        with torch.inference_mode(False):
            _CONSTANTS[key] = torch.full(
                (), number, dtype=like.dtype, device=like.device
            )
    return _CONSTANTS[key]


_CONSTANTS: dict[tuple[Any, ...], Any] = {}


def _is_captured(x):
    """Whether a CUDA graph records what is filled, to fill it when it runs."""
    cuda = sys.modules["torch"].cuda
    return x.device.type == "cuda" and cuda.is_current_stream_capturing()


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
            is_compiled_by_torch() or is_recorded() or is_transformed()
        )
    return backend == "jax" and on_cpu(x) and not is_eager(x)


def runs_torch_eagerly(x):
    """Whether PyTorch runs operations on `x` one by one on a CPU.

    Args:
        x: Tensor.
    """
    return keras.backend.backend() == "torch" and loops_over_slices(x)


def fuses_operations():
    """Whether passes over a tensor that follow each other become one.

    Compilers see to that. PyTorch runs a kernel for each.
    """
    return keras.backend.backend() != "torch"


def fuses_dot_products():
    """Whether a product and its sum over the last axis are one fast loop."""
    return keras.backend.backend() == "tensorflow"


def has_cpu_kernel():
    """Whether `ops.dot_product_attention` has a kernel for CPUs."""
    return keras.backend.backend() == "torch"


def attends_in_half_precision(x):
    """Whether `ops.dot_product_attention` takes the dtype of `x` where it is.

    JAX's refuses half precision on CPUs in some shapes ("The precision
    'F16_F16_F32' is not supported by dot_general on CPU").

    Args:
        x: Tensor.
    """
    return keras.backend.backend() != "jax" or not on_cpu(x)


def has_unsafe_flash_kernels():
    """Whether flash kernels that Keras takes by itself may be wrong.

    On TPUs it hands `ops.dot_product_attention` to JAX's Splash kernel, leaves
    out the bias, applies the first sample's mask to all samples and a causal
    one where there is none, and scales wrongly. cuDNN's kernel on JAX is right,
    but fails within a gradient if a length is odd, and older versions of JAX
    return no gradient of some biases (Keras 3.15.1, JAX 0.10.2).
    """
    return keras.backend.backend() == "jax"


def why_no_flash_kernel(x):
    """Why the device of `x` has no flash kernel: a string, or `None`.

    Args:
        x: Tensor.
    """
    backend = keras.backend.backend()
    if backend == "tensorflow":
        return "Keras has no flash kernel on TensorFlow"
    if backend == "jax" and _first_platform() == "tpu":
        return (
            "the kernel that Keras takes on TPUs loses biases and masks, and "
            "scales wrongly"
        )
    if backend == "torch" and is_placeholder(x):
        cuda = sys.modules["torch"].cuda.is_available()
        return None if cuda else "there is no GPU"
    return "CPUs have no flash kernel" if on_cpu(x) else None


def widest_cudnn_head(dtype):
    """How wide heads may be for cuDNN's attention on JAX; 0 if there is none.

    Keras asks the same before it takes that kernel.

    Args:
        dtype: String, of queries, keys and values.
    """
    if keras.backend.backend() != "jax" or _first_platform() != "gpu":
        return 0
    if dtype not in ("bfloat16", "float16"):
        return 0
    checks = internals.cudnn_checks()
    try:
        checks.check_cudnn_version()
        if not checks.check_compute_capability("8.0"):
            return 0
        return 256 if checks.check_compute_capability("9.0") else 128
    except (AttributeError, TypeError, RuntimeError):
        return 0


def has_cudnn_bias_gradient(bias, queries):
    """Whether cuDNN's attention on JAX returns the gradient of a bias.

    Older versions of JAX have none for a bias of each sample: what is trained
    by it would stay as it is, without a word.

    Args:
        bias: Tensor `(B or 1, H or 1, T, S)`.
        queries: Tensor `(B, T, H, k)`.
    """
    checks = internals.cudnn_checks()
    try:
        layout = checks.AttentionLayout.BTNH
        shapes = tuple(bias.shape), tuple(queries.shape)
        return checks.should_export_dbias(*shapes, layout.value)
    except (AttributeError, TypeError):
        return False


def _first_platform():
    return sys.modules["jax"].devices()[0].platform


def has_sparse_gradients():
    """Whether the gradient of a lookup has a row for each occurrence."""
    return keras.backend.backend() == "tensorflow"


def gathered(x, positions, axis):
    """Entries of a tensor along one of its first axes.

    Args:
        x: Tensor.
        positions: Integer tensor of one axis, whose length may be a symbol.
        axis: Integer.
    """
    if keras.backend.backend() == "torch":
        # There `take` squeezes an axis that ONNX takes for a single entry.
        index = ops.cast(positions, "int64")
        return x[(slice(None),) * axis + (index,)]
    return ops.take(x, positions, axis=axis)


def backend_version():
    """The backend's name and version, two strings."""
    backend = keras.backend.backend()
    return backend, sys.modules[backend].__version__


def is_differentiated(*tensors):
    """Whether PyTorch will want a gradient by what is made of some tensors."""
    enabled = sys.modules["torch"].is_grad_enabled()
    return enabled and any(x.requires_grad for x in tensors)


def may_be_differentiated():
    """Whether a derivative of what is computed now may be asked for.

    PyTorch knows; elsewhere it is always so.
    """
    if keras.backend.backend() != "torch":
        return True
    return sys.modules["torch"].is_grad_enabled()


@contextlib.contextmanager
def kept_variables(model):
    """Leaves a model its variables when data raise an error.

    On JAX, Keras takes them out of a model before it asks for the first
    batch, and puts them back after the last one; what raises in between
    leaves a model without weights (Keras 3.15.1).

    Args:
        model: A `keras.Model`, in a `with` block that calls `fit`, `evaluate`
            or `predict`.
    """
    if keras.backend.backend() != "jax":
        yield
        return
    optimizer = getattr(model, "optimizer", None)
    kept = [
        (variable, variable.value)
        for variable in (
            *model.variables,
            *model.metrics_variables,
            *(optimizer.variables if optimizer is not None else ()),
        )
    ]
    try:
        yield
    except BaseException:
        internals.forget_state(model)
        for variable, value in kept:
            if internals.is_empty(variable) and not value.is_deleted():
                variable.assign(value)
        raise

"""Which kernels a backend has, and which of them are right and fast."""

from keras_synth._backend import execution, internals
from keras_synth._backend.frameworks import JAX, TENSORFLOW, TORCH

# Passes over a tensor that follow each other become one: compilers see to that.
FUSES_OPERATIONS = TORCH is None
# A product and its sum over the last axis are one fast loop.
FUSES_DOT_PRODUCTS = TENSORFLOW is not None
# The gradient of a lookup has a row for each occurrence.
HAS_SPARSE_GRADIENTS = TENSORFLOW is not None
# `ops.dot_product_attention` has a kernel for CPUs.
HAS_CPU_KERNEL = TORCH is not None
# Flash kernels that Keras takes by itself may be wrong. On TPUs it hands
# `ops.dot_product_attention` to JAX's Splash kernel, leaves out the bias,
# applies the first sample's mask to all samples and a causal one where there is
# none, and scales wrongly. cuDNN's kernel on JAX is right, but fails within a
# gradient if a length is odd, and older versions of JAX return no gradient of
# some biases (Keras 3.15.1, JAX 0.10.2).
HAS_UNSAFE_FLASH_KERNELS = JAX is not None


def attends_in_half_precision(x):
    """Whether `ops.dot_product_attention` takes the dtype of `x` where it is.

    JAX's refuses half precision on CPUs in some shapes ("The precision
    'F16_F16_F32' is not supported by dot_general on CPU").
    """
    return JAX is None or not execution.on_cpu(x)


def why_no_flash_kernel(x):
    """Why the device of `x` has no flash kernel: a string, or `None`."""
    if TENSORFLOW:
        return "Keras has no flash kernel on TensorFlow"
    if JAX and execution.first_platform() == "tpu":
        return (
            "the kernel that Keras takes on TPUs loses biases and masks, and "
            "scales wrongly"
        )
    if execution.is_placeholder(x):
        return None if TORCH.cuda.is_available() else "there is no GPU"
    return "CPUs have no flash kernel" if execution.on_cpu(x) else None


def widest_cudnn_head(dtype):
    """How wide heads may be for cuDNN's attention on JAX; 0 if there is none.

    Keras asks the same before it takes that kernel.

    Args:
        dtype: String, of queries, keys and values.
    """
    half = dtype in ("bfloat16", "float16")
    if not JAX or not half or execution.first_platform() != "gpu":
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
        queries: Tensor `(B or 1, T, H, k)`.
    """
    checks = internals.cudnn_checks()
    try:
        layout = checks.AttentionLayout.BTNH
        shapes = tuple(bias.shape), tuple(queries.shape)
        return checks.should_export_dbias(*shapes, layout.value)
    except (AttributeError, TypeError):
        return False

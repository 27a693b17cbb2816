"""The kernels of a backend: which exist, and which are correct and fast."""

from keras_synth._backend import execution, internals
from keras_synth._backend.frameworks import JAX, TENSORFLOW, TORCH

# Compilers fuse consecutive passes over a tensor.
FUSES_OPERATIONS = TORCH is None
# A product and its sum over the last axis are one fast loop.
FUSES_DOT_PRODUCTS = TENSORFLOW is not None
# On CPUs JAX's softmax takes up to three times as long if an axis has length 1,
# above all for the gradient.
SLOW_UNIT_AXES = JAX is not None
# Loops save time only for large tensors, and none if they read pairs of tokens
# from a tensor, whose gradient they write in parts or add up.
SLOW_LOOPS = TENSORFLOW is not None
# The gradient of a lookup has a row for each occurrence.
HAS_SPARSE_GRADIENTS = TENSORFLOW is not None
# `ops.dot_product_attention` has a kernel for some devices. On TensorFlow it
# always computes the formula, with products of float16 that can be infinite.
HAS_KERNEL = TENSORFLOW is None
# It has one for CPUs.
HAS_CPU_KERNEL = TORCH is not None
# `ops.dot_product_attention` needs values that are as wide as keys.
NEEDS_ONE_WIDTH = JAX is not None
# Flash kernels that Keras chooses can be wrong. On TPUs it uses JAX's Splash
# kernel for `ops.dot_product_attention`, omits the bias, applies the first
# sample's mask to all samples, adds a causal mask, and scales wrongly. cuDNN's
# kernel on JAX is correct, but its gradient fails for odd lengths, and older
# versions of JAX return no gradient of some biases (Keras 3.15.1, JAX 0.10.2).
HAS_UNSAFE_FLASH_KERNELS = JAX is not None


def attends_in_half_precision(x):
    """Whether `ops.dot_product_attention` supports the dtype of `x`.

    JAX does not support half precision on CPUs for some shapes ("The precision
    'F16_F16_F32' is not supported by dot_general on CPU").
    """
    return JAX is None or not execution.on_cpu(x)


def why_no_flash_kernel(x):
    """Why the device of `x` has no flash kernel: a string, or `None`."""
    if TENSORFLOW:
        return "Keras has no flash kernel on TensorFlow"
    if JAX and execution.first_platform() == "tpu":
        return (
            "Keras' kernel on TPUs loses biases and masks, and scales wrongly"
        )
    if execution.is_placeholder(x):
        return None if TORCH.cuda.is_available() else "there is no GPU"
    return "CPUs have no flash kernel" if execution.on_cpu(x) else None


def widest_cudnn_head(dtype):
    """The widest head of cuDNN's attention on JAX, or 0 without cuDNN.

    Keras makes the same check before it uses that kernel. The dtype, a string,
    is that of queries, keys and values.
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

    Older versions of JAX do not return it for a bias of each sample, whose
    weights would silently not be trained. JAX 0.10 always returns it, and newer
    versions lack the function that says so.
    """
    checks = internals.cudnn_checks()
    try:
        layout = checks.AttentionLayout.BTNH
        if not hasattr(checks, "should_export_dbias"):
            return True
        shapes = tuple(bias.shape), tuple(queries.shape)
        return checks.should_export_dbias(*shapes, layout.value)
    except (AttributeError, TypeError):
        return False


def loses_gradient(bias, *inputs):
    """Whether PyTorch's kernel for GPUs cannot compute the gradient of a bias.

    It keeps the sums of its rows for the backward pass only if an input (the
    queries, keys or values) has a gradient. Where only the bias is trained,
    PyTorch 2.11 raises "LSE is not correctly aligned".
    """
    return (
        TORCH is not None
        and bias is not None
        and bias.requires_grad
        and execution.may_be_differentiated()
        and not any(x.requires_grad for x in inputs)
        and not execution.on_cpu(bias)
    )

"""The kernel route: the backend's own attention kernel."""

from typing import Any

import keras
from keras import ops

from keras_synth._backend import execution, kernels
from keras_synth._backend.tensors import cast_like
from keras_synth.attention.masks import AttentionMask, zero_rows
from keras_synth.attention.routes.kernel_arguments import (
    arguments,
    is_row,
    widest_of_cudnn,
)
from keras_synth.attention.routes.route import Request, Route, is_small


class KernelRoute(Route):
    """`ops.dot_product_attention`, where queries are compared with keys.

    Example:

    >>> from keras_synth.attend import attend
    >>> from keras_synth.logits import Logits
    >>> q, k = keras.random.normal((2, 3, 5, 2, 4))
    >>> logits = Logits(queries=q, keys=k)
    >>> values = keras.random.normal((3, 5, 2, 4))
    >>> attend(logits, values, route="kernel").shape
    (3, 5, 2, 4)
    """

    name = "kernel"

    def serves(self, request: Request) -> bool:
        compares = request.logits.queries is not None
        return (
            compares and request.dropout is None and not request.return_weights
        )

    def cost(self, request: Request) -> float:
        """Half where there is a kernel; else it is the formula, with detours.

        On accelerators there is one, as far as we know without having one.
        """
        one = request.has_one_query and request.values.shape[0] != 1
        if one and request.logits.keys.shape[0] == 1:
            return 1.5  # constant keys are repeated for each sample
        if execution.on_cpu(request.values) and not _has_cpu_kernel(request):
            return 1.5
        return 0.5

    def is_portable(self, request: Request) -> bool:
        """Everywhere but under `torch.func`, which cannot map kernels."""
        wanted = request.flash_attention is not None
        return wanted or not execution.is_transformed()

    def run(self, request: Request) -> Any:
        flash, values = request.flash_attention, request.values
        reason = kernels.why_no_flash_kernel(values) if flash else None
        if reason is not None:
            raise ValueError(
                f"flash_attention=True asks for what is not there: {reason}. "
                "Leave it out, and what the device is best at is taken"
            )
        small = is_small(request)
        mask = request.mask
        limited = mask.pairs is not None or mask.has_pattern
        if small and limited and mask.keys is not None:
            allowed = request.with_pairs().mask.materialize()
            request = request._replace(mask=AttentionMask(pairs=allowed))
        given, widest = None, widest_of_cudnn(request)
        if widest:
            given = arguments(request, widest=widest)
        if given is not None:
            context = _context(given, flash)[:, : request.target_length]
        else:
            # Keras would take a wrong kernel by itself, or ask what PyTorch
            # cannot compile. PyTorch looks for one anyway.
            unsafe = kernels.HAS_UNSAFE_FLASH_KERNELS
            if flash is None and (unsafe or execution.is_compiled_by_torch()):
                flash = False
            context = _context(arguments(request, features=not small), flash)
        context = cast_like(context[..., : values.shape[-1]], values)
        if not limited:
            # A sample without keys holds an average of values, all zero.
            return context
        # Rows that see nothing hold an average of the forbidden.
        return zero_rows(context, request.visible())


def _context(arguments, flash):
    """The context by the backend's kernel, `(B, T, H, v)` or larger."""
    arguments = {**arguments, "scale": 1.0, "flash_attention": flash}
    if not flash:
        return ops.dot_product_attention(**arguments)
    try:
        return ops.dot_product_attention(**arguments)
    except (ImportError, NotImplementedError, RuntimeError, ValueError) as e:
        values = arguments["value"]
        shape = tuple(values.shape)
        dtype = keras.backend.standardize_dtype(values.dtype)
        # Keras puts what it was given below what went wrong.
        reason = (str(e).strip() or type(e).__name__).splitlines()[0]
        reason = reason.rstrip(".") + "."
        raise ValueError(
            "flash_attention=True asks for a kernel that refuses these "
            f"logits: {reason} Leave it out, and one that takes them is "
            f"chosen. Received: values {shape} of {dtype}, a bias or a mask: "
            f"{arguments['bias'] is not None}"
        ) from e


def _has_cpu_kernel(request):
    """Whether the backend has a kernel for CPUs that likes this request."""
    logits, values = request.logits, request.values
    if not kernels.HAS_CPU_KERNEL or logits.queries is None:
        return False
    bias = logits.bias
    if request.has_one_query and (
        bias is not None or logits.keys.shape[0] == 1
    ):
        # A single query is not worth a copy of all keys, be it to repeat
        # constant ones or to make the bias a feature of theirs.
        return False
    # A bias that depends only on keys can be one of their features.
    no_bias = bias is None or is_row(bias) or _likes_bias(request)
    # Keys and values are padded to one width: that must not cost too much.
    key_width, value_width = logits.keys.shape[-1], values.shape[-1]
    return no_bias and key_width < 1.5 * value_width < 3 * key_width


def _likes_bias(request):
    """Whether PyTorch's kernel for CPUs beats streaming with a table of logits.

    It leaves its fast path for one that is trained, and visits what a pattern
    forbids. In float32, where pieces are written in place, it is as fast as
    they are up to 1,024 tokens and slower beyond.
    """
    bias, values = request.logits.bias, request.values
    return not (
        keras.backend.standardize_dtype(values.dtype) == "float32"
        or request.mask.has_pattern
        or request.logits.needs_float32
        or (execution.may_be_differentiated() and bias.requires_grad)
    )

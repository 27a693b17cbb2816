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
    """`ops.dot_product_attention`, for logits with queries and keys.

    Example:

    >>> keras_synth.routes.get("kernel")
    <KernelRoute 'kernel'>
    """

    name = "kernel"

    def serves(self, request: Request) -> bool:
        compares = request.logits.queries is not None
        return (
            compares
            and request.dropout is None
            and not request.return_weights
            and not kernels.loses_gradient(
                request.logits.bias, *request.logits[:2], request.values
            )
        )

    def cost(self, request: Request) -> float:
        """Half with a kernel; otherwise `ops` computes the formula, with
        detours.

        On accelerators it assumes a kernel.
        """
        one = request.has_one_query and request.values.shape[0] != 1
        if one and request.logits.keys.shape[0] == 1:
            return 1.5  # constant keys are repeated for each sample
        on_cpu = execution.on_cpu(request.values)
        if not kernels.HAS_KERNEL or (on_cpu and not _has_cpu_kernel(request)):
            return 1.5
        return 0.5

    def is_portable(self, request: Request) -> bool:
        """True except under `torch.func`, which cannot map kernels."""
        wanted = request.flash_attention is not None
        return wanted or not execution.is_transformed()

    def run(self, request: Request) -> Any:
        flash, values = request.flash_attention, request.values
        reason = kernels.why_no_flash_kernel(values) if flash else None
        if reason is not None:
            raise ValueError(
                f"flash_attention=True is not possible: {reason}. Leave it out "
                "to use the fastest route"
            )
        small = is_small(request)
        mask = request.mask
        limited = mask.pairs is not None or mask.has_pattern
        if small and limited and mask.keys is not None:
            request = request.with_zero_keys()
            allowed = request.with_pairs().mask.materialize()
            request = request._replace(mask=AttentionMask(pairs=allowed))
        given, widest = None, widest_of_cudnn(request)
        if widest:
            given = arguments(request, widest=widest)
        if given is not None:
            context = _context(given, flash)[:, : request.target_length]
        else:
            # Keras would choose a wrong kernel, or make a check that PyTorch
            # cannot compile. PyTorch chooses a kernel anyway.
            unsafe = kernels.HAS_UNSAFE_FLASH_KERNELS
            if flash is None and (unsafe or execution.is_compiled_by_torch()):
                flash = False
            context = _context(arguments(request, features=not small), flash)
        context = cast_like(context[..., : values.shape[-1]], values)
        if not limited:
            # A sample without keys has the average of values, which are zero.
            return context
        # Rows without visible keys have the average of forbidden values.
        return zero_rows(context, request.visible())


def _context(arguments, flash):
    """The context by the backend's kernel, `(B, T, H, v)` or larger."""
    try:
        return ops.dot_product_attention(
            **arguments, scale=1.0, flash_attention=flash
        )
    except (ImportError, NotImplementedError, RuntimeError, ValueError) as e:
        if not flash:
            raise
        values = arguments["value"]
        shape = tuple(values.shape)
        dtype = keras.backend.standardize_dtype(values.dtype)
        # Keras appends the arguments to the message.
        reason = (str(e).strip() or type(e).__name__).splitlines()[0]
        reason = reason.rstrip(".") + "."
        raise ValueError(
            "The kernel for flash_attention=True does not support these "
            f"logits: {reason} Leave it out to use the fastest route. "
            f"Received: values {shape} of {dtype}, a bias or a mask: "
            f"{arguments['bias'] is not None}"
        ) from e


def _has_cpu_kernel(request):
    """Whether the backend has a fast kernel for CPUs for this request."""
    logits, values = request.logits, request.values
    if not kernels.HAS_CPU_KERNEL:
        return False
    bias = logits.bias
    if request.has_one_query and (
        bias is not None or logits.keys.shape[0] == 1
    ):
        # For a single query it is too slow to copy all keys, to repeat constant
        # ones or to make the bias a feature.
        return False
    # A bias that depends only on keys can be a feature of them.
    no_bias = bias is None or is_row(bias) or _likes_bias(request)
    # Keys and values are padded to one width, which must not cost too much.
    key_width, value_width = logits.keys.shape[-1], values.shape[-1]
    return no_bias and key_width < 1.5 * value_width < 3 * key_width


def _likes_bias(request):
    """Whether PyTorch's kernel for CPUs beats streaming with a table of logits.

    It is slow for a trained table, and computes pairs that a pattern forbids.
    In float32, compared with tiles that are written in place, it is as fast up
    to 1,024 tokens and slower beyond.
    """
    bias, values = request.logits.bias, request.values
    return not (
        keras.backend.standardize_dtype(values.dtype) == "float32"
        or request.mask.has_pattern
        or request.logits.needs_float32
        or (execution.may_be_differentiated() and bias.requires_grad)
    )

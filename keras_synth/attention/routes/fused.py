"""The fused route: the backend's own attention kernel.

All that is special about `ops.dot_product_attention` on a backend is known
here alone.
"""

from typing import Any

import keras
from keras import ops

from keras_synth._backend import execution
from keras_synth.attention.logits import Product, repeat_batch
from keras_synth.attention.masks import zero_padded_keys, zero_rows
from keras_synth.attention.routes.route import Request, Route


class FusedRoute(Route):
    """`ops.dot_product_attention`, where queries are compared with keys.

    Example:

    >>> from keras_synth.attend import attend
    >>> from keras_synth.logits import Logits
    >>> q, k = keras.random.normal((2, 3, 5, 2, 4))
    >>> logits = Logits(queries=q, keys=k)
    >>> values = keras.random.normal((3, 5, 2, 4))
    >>> attend(logits, values, route="fused").shape
    (3, 5, 2, 4)
    """

    name = "fused"

    def serves(self, request: Request) -> bool:
        compares = request.logits.queries is not None
        return (
            compares and request.dropout is None and not request.return_weights
        )

    def cost(self, request: Request) -> float:
        """Half where there is a kernel; else it is the formula, with detours.

        On accelerators there is one, as far as we know without having one.
        """
        if _repeats_keys(request):
            return 1.5
        if execution.on_cpu(request.values) and not _has_cpu_kernel(request):
            return 1.5
        return 0.5

    def is_portable(self, request: Request) -> bool:
        return True

    def run(self, request: Request) -> Any:
        causal = _is_causal(request)
        if not causal:
            request = request.with_pairs()
        logits, values, mask = request.logits, request.values, request.mask
        dtype = values.dtype
        if logits.is_steep and not request.flash_attention:
            values = ops.cast(values, "float32")
        queries, keys, bias = _for_kernel(logits, values, mask)
        forbidding = mask
        if bias is not None and bias.shape[0] == 1 and mask.keys is not None:
            # Padding as a feature of the keys: beside it the table would
            # become a bias of every sample.
            least = ops.cast(_least_logit(values.dtype), values.dtype)
            padding = ops.where(mask.keys, ops.zeros_like(least), least)
            padding = padding[:, None, None, :]  # (B, 1, 1, S)
            queries, keys = _with_bias(queries, keys, padding)
            forbidding = mask._replace(keys=None)
        allowed = None if causal else forbidding.materialize()
        if bias is not None and allowed is not None:
            # The mask joins the bias: PyTorch takes one of the two.
            least = ops.cast(_least_logit(bias.dtype), bias.dtype)
            bias, allowed = ops.where(allowed, bias, least), None
        width = values.shape[-1]
        # Kernels want values as wide as the keys: JAX refuses others, PyTorch
        # leaves its flash path.
        queries, keys, values = _same_width(queries, keys, values)
        context = ops.dot_product_attention(
            queries,
            keys,
            values,
            bias=bias,
            mask=allowed,
            scale=1.0,
            is_causal=causal,
            flash_attention=request.flash_attention,
        )[..., :width]
        # Rows that see nothing hold an average of the forbidden.
        return zero_rows(ops.cast(context, dtype), request.visible())


def _repeats_keys(request):
    """Whether constant keys are repeated for samples of a single query."""
    keys, batch = request.logits.keys, request.values.shape[0]
    constant = keys is not None and keys.shape[0] == 1 and batch != 1
    return constant and request.of_one_query


def _has_cpu_kernel(request):
    """Whether the backend has a kernel for CPUs that likes this request."""
    logits, values = request.logits, request.values
    if not execution.has_cpu_kernel() or logits.queries is None:
        return False
    bias = logits.bias
    if request.of_one_query and (bias is not None or logits.keys.shape[0] == 1):
        # A single query is not worth a copy of all keys, be it to repeat
        # constant ones or to make the bias a feature of theirs.
        return False
    # One of the keys alone can be a feature of theirs.
    no_bias = bias is None or _is_row(bias) or _likes_bias(request)
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
    parts = bias[:2] if isinstance(bias, Product) else (bias,)
    return not (
        keras.backend.standardize_dtype(values.dtype) == "float32"
        or request.mask.has_pattern
        or request.logits.is_steep
        or execution.is_differentiated(*parts)
    )


def _is_causal(request):
    """Whether nothing but a causal mask forbids, of T = S tokens.

    Kernels know that one by name and skip what it forbids.
    """
    mask, length = request.mask, request.target_length
    others = mask.keys, mask.pairs, mask.window, mask.pattern
    alone = all(other is None for other in others)
    square = isinstance(length, int) and length == request.source_length
    begins = isinstance(mask.start, int) and mask.start == 0
    bias = request.logits.bias
    no_bias = bias is None or _is_row(bias)
    return mask.causal and alone and square and begins and no_bias


def _for_kernel(logits, values, mask):
    """Gives logits the dtype, the batch and the finite keys a kernel needs."""
    queries, keys, bias = zero_padded_keys(logits, mask)
    if bias is not None and _is_row(bias):
        bias = _held(bias, values.dtype)
        queries, keys = (ops.cast(x, values.dtype) for x in (queries, keys))
        queries, keys = _with_bias(queries, keys, bias)
        bias = None
    bias = None if bias is None else _held(bias, values.dtype)
    batch = ops.shape(values)[0]
    if queries.shape[0] == 1 and values.shape[0] != 1:
        queries = repeat_batch(queries, batch)
    if keys.shape[0] == 1 and values.shape[0] != 1:
        keys = repeat_batch(keys, batch)
    queries = ops.cast(queries, values.dtype)
    keys = ops.cast(keys, values.dtype)
    return queries, keys, bias


def _is_row(bias):
    """Whether a bias is of the keys alone, for all samples: `(1, H, 1, S)`."""
    return bias.shape[0] == 1 and bias.shape[2] == 1


def _with_bias(queries, keys, bias):
    """Makes a bias of the keys `(B or 1, H or 1, 1, S)` a feature of them."""
    bias = ops.cast(ops.transpose(bias, (0, 3, 1, 2)), keys.dtype)
    if bias.shape[0] != 1 and keys.shape[0] == 1:
        keys = repeat_batch(keys, ops.shape(bias)[0])
    bias = ops.broadcast_to(bias, (*ops.shape(keys)[:3], 1))
    return (
        ops.concatenate([queries, ops.ones_like(queries[..., :1])], axis=-1),
        ops.concatenate([keys, bias], axis=-1),
    )


def _held(bias, dtype):
    """A bias in another dtype, within what that holds."""
    if _is_float16(dtype):
        # A third of what stands for "may not attend".
        bias = ops.clip(bias, _least_logit(dtype) / 3, -_least_logit(dtype) / 3)
    return ops.cast(bias, dtype)


def _is_float16(dtype):
    return keras.backend.standardize_dtype(dtype) == "float16"


def _least_logit(dtype):
    """A logit that no real one undercuts, and twice of which is finite."""
    return -3e4 if _is_float16(dtype) else -1e9


def _same_width(*features):
    """Pads features with zeros to one width, a multiple of 8 as kernels like.

    Those that are of one width already are left alone.
    """
    widths = {x.shape[-1] for x in features}
    if len(widths) == 1:
        return features
    width = -(-max(widths) // 8) * 8
    return tuple(
        ops.pad(x, [[0, 0], [0, 0], [0, 0], [0, width - x.shape[-1]]])
        for x in features
    )

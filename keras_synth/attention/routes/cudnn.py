"""cuDNN's attention on JAX: what it must be given not to be left.

It takes half precision, heads of up to 256 features (128 before Hopper) in
multiples of 8, even lengths where there are gradients, and a bias with a row
for each query, in half precision as well. What differs from that Keras hands
to XLA instead, or is an error in the midst of a gradient.
"""

import keras
from keras import ops

from keras_synth._backend import kernels
from keras_synth.attention.masks import zero_padded_keys
from keras_synth.attention.routes.kernel_arguments import (
    bounded,
    is_causal,
    is_row,
    least_logit,
    multiple_of_8,
    padded_width,
    padding_bias,
    with_batch,
    with_bias,
)
from keras_synth.attention.softmax import FORBIDDEN


def arguments(request):
    """What a request becomes for cuDNN, or `None` if it cannot take it.

    Lengths and features are padded: of the context the first `T` and `v`
    count.

    Args:
        request: `Request` that compares queries with keys.

    Returns:
        Dictionary, the arguments of `ops.dot_product_attention`; or `None`.
    """
    dtype = keras.backend.standardize_dtype(request.values.dtype)
    widest = kernels.widest_cudnn_head(dtype)
    if not _may_take(request, widest):
        return None
    # Padding becomes a feature: it keeps no causal mask from its name.
    mask = request.mask
    causal = not request.logits.needs_float32 and is_causal(
        request._replace(mask=mask._replace(keys=None))
    )
    request = _even(request if causal else request.with_pairs(), causal)
    logits = zero_padded_keys(request.logits, request.mask)
    values = request.values
    queries, keys = with_batch(logits, values)
    row, table = _biases(request, causal)
    width = _width(keys.shape[-1] + (row is not None), values)
    if width > widest:
        width = _width(keys.shape[-1], values)
        row, table = None, row if table is None else row + table
    if table is not None:
        trained = logits.bias is not None
        if trained and not kernels.has_cudnn_bias_gradient(table, queries):
            return None
        lengths = queries.shape[1], keys.shape[1]
        table = ops.broadcast_to(table, (*ops.shape(table)[:2], *lengths))
    if row is not None:
        queries, keys = with_bias(queries, keys, row)
    return {
        "query": padded_width(queries, width),
        "key": padded_width(keys, width),
        "value": padded_width(values, width),
        "bias": table,
        "is_causal": causal,
    }


def _may_take(request, widest):
    lengths = request.target_length, request.source_length
    known = all(isinstance(length, int) for length in lengths)
    # Two products with vectors are no worse elsewhere.
    worth = not request.has_one_query or request.flash_attention
    keys, values = request.logits.keys, request.values
    return known and worth and _width(keys.shape[-1], values) <= widest


def _width(width, values):
    """Features of queries and keys, once values have as many."""
    return multiple_of_8(max(width, values.shape[-1]))


def _even(request, causal):
    """The same with even lengths: a row more, and a key that nobody sees."""
    rows, columns = request.target_length % 2, request.source_length % 2
    if not rows and not columns:
        return request
    logits, mask = request.logits, request.mask
    keys = mask.keys
    if columns and keys is None and not causal:
        keys = ops.ones((1, request.source_length), "bool")
    if keys is not None:
        keys = ops.pad(keys, [[0, 0], [0, columns]])
    return request._replace(
        logits=logits._replace(
            queries=ops.pad(logits.queries, _after(rows, 1)),
            keys=ops.pad(logits.keys, _after(columns, 1)),
            bias=_longer(logits.bias, rows, columns),
        ),
        values=ops.pad(request.values, _after(columns, 1)),
        target_length=request.target_length + rows,
        mask=mask._replace(keys=keys, pairs=_longer(mask.pairs, rows, columns)),
    )


def _after(more, axis):
    """Widths that pad one of four axes at its end."""
    return [[0, more * (i == axis)] for i in range(4)]


def _longer(table, rows, columns):
    """A table `(., ., T or 1, S)` with more columns, and rows if it has any."""
    if table is None:
        return None
    rows = 0 if table.shape[2] == 1 else rows
    return ops.pad(table, [[0, 0], [0, 0], [0, rows], [0, columns]])


def _biases(request, causal):
    """Bias and mask, as a row for all queries and as a table, or `None`s.

    Returns:
        Tuple of a tensor `(B or 1, H or 1, 1, S)` and one
        `(B or 1, H or 1, T or 1, S)`, in the dtype of the values.
    """
    logits, mask, values = request.logits, request.mask, request.values
    if logits.bias is not None and logits.needs_float32:
        return None, _from_the_largest(request)
    row = table = None
    if logits.bias is not None:
        table = bounded(logits.bias, values)
        if is_row(table):
            row, table = table, None
    if mask.keys is not None and (table is None or table.shape[0] == 1):
        # Beside it a table would become a bias of every sample.
        padding = padding_bias(mask.keys, values)
        row = padding if row is None else row + padding
        mask = mask._replace(keys=None)
    allowed = None if causal else mask.materialize()
    if allowed is not None:
        least = ops.cast(least_logit(values.dtype), values.dtype)
        table = ops.zeros_like(least) if table is None else table
        table = ops.where(allowed, table, least)
    return row, table


def _from_the_largest(request):
    """Steep logits and the mask, from the largest that each row may see.

    In half precision a number has as much of an error as it is large. Within
    a row only differences count: from the largest on, what has weight is
    small, and exact enough, however far away it is. It is another one for
    each sample where padding is.

    Returns:
        Tensor `(B or 1, H or 1, T or 1, S)`, in the dtype of the values.
    """
    dtype = request.values.dtype
    bias = ops.cast(request.logits.bias, "float32")
    allowed = request.mask.materialize()
    seen = bias if allowed is None else ops.where(allowed, bias, FORBIDDEN)
    largest = ops.stop_gradient(ops.amax(seen, axis=-1, keepdims=True))
    bias = bounded(bias - largest, request.values)
    if allowed is None:
        return bias
    return ops.where(allowed, bias, ops.cast(least_logit(dtype), dtype))

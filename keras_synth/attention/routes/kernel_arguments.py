"""The arguments of `ops.dot_product_attention` for a request.

A bias that depends only on keys can be one of their features:
`q.k + b = [q 1].[k b]`.

cuDNN's attention on JAX supports half precision, heads of up to 256 features
(128 before Hopper) in multiples of 8, lengths that are even if there are
gradients, and a bias in half precision with a row for each query. For other
arguments Keras uses XLA instead, or the gradient fails.
"""

import keras
from keras import ops

from keras_synth._backend import execution, kernels
from keras_synth._backend.tensors import (
    axis_size,
    cast_like,
    constant,
    pad_axis,
)
from keras_synth.attention.logits import repeat_batch
from keras_synth.attention.masks import AttentionMask
from keras_synth.attention.softmax import FORBIDDEN


def arguments(request, features=True, widest=0):
    """Returns the arguments of `ops.dot_product_attention`, a dictionary.

    Args:
        request: `Request` that compares queries with keys.
        features: Whether biases of keys become features. Otherwise starting
            operations takes the most time, and a bias needs the fewest.
        widest: Integer, the widest head of cuDNN, or 0 for other kernels. With
            cuDNN, lengths and features can be padded: only the first `T` and
            `v` of the context are valid. The result is `None` if cuDNN does not
            support the request.
    """
    named = request
    if widest:  # with padding as a feature, a causal mask keeps its name
        named = request._replace(mask=request.mask._replace(keys=None))
    steep = request.logits.needs_float32
    causal = is_causal(named) and not (widest and steep)
    if not (features or widest) and request.logits.bias is not None:
        causal = False  # PyTorch takes no causal mask with a bias
    request = request if causal else request.with_pairs()
    request = _even(request, causal) if widest else request
    request = request.with_zero_keys()
    values = request.values
    in_half = kernels.attends_in_half_precision(values)
    if not (widest or request.flash_attention) and (steep or not in_half):
        values = ops.cast(values, "float32")
        request = request._replace(values=values)
    queries, keys = (cast_like(x, values) for x in request.logits[:2])
    row, table = _biases(request, causal, features, bool(widest))
    if widest:
        if _width(row, keys, values) > widest:
            row, table = None, row if table is None else row + table
        if table is not None:
            trained = request.logits.bias is not None
            if trained and not kernels.has_cudnn_bias_gradient(table, queries):
                return None
            lengths = queries.shape[1], keys.shape[1]
            table = ops.broadcast_to(table, (*ops.shape(table)[:2], *lengths))
    if row is not None:
        queries, keys = _with_feature(queries, keys, row)
    # PyTorch uses its flash kernel only for values that are as wide as keys.
    inputs = queries, keys, values
    widths = {x.shape[-1] for x in inputs}
    # The strides of a single feature are an error for PyTorch on GPUs.
    single = widths == {1} and not execution.on_cpu(values)
    one = features or kernels.NEEDS_ONE_WIDTH
    if widest or single or (one and len(widths) > 1):
        width = _multiple_of_8(max(widths))
        inputs = [pad_axis(x, 3, 0, width - x.shape[-1]) for x in inputs]
    if values.shape[0] != 1:  # all samples can share queries or keys
        inputs = [
            repeat_batch(x, axis_size(values, 0)) if x.shape[0] == 1 else x
            for x in inputs
        ]
    named = dict(zip(("query", "key", "value"), inputs, strict=True))
    return {**named, "bias": table, "is_causal": causal}


def is_row(bias):
    """Whether a bias depends only on the keys: `(1, H, 1, S)`."""
    return bias.shape[0] == 1 and bias.shape[2] == 1


def is_causal(request):
    """Whether the mask is only a causal one, of T = S tokens.

    Kernels have an argument for it, and skip forbidden pairs.
    """
    mask, rows = request.mask, request.target_length
    others = mask.keys, mask.pairs, mask.window, mask.pattern
    if not mask.causal or any(other is not None for other in others):
        return False
    square = isinstance(rows, int) and rows == request.source_length
    begins = isinstance(mask.start, int) and mask.start == 0
    bias = request.logits.bias
    return square and begins and (bias is None or is_row(bias))


def widest_of_cudnn(request):
    """Returns the widest head of cuDNN, or 0 if it is not used."""
    lengths = request.target_length, request.source_length
    known = all(isinstance(length, int) for length in lengths)
    # Other kernels are as fast for two products with vectors.
    worth = not request.has_one_query or request.flash_attention
    values = request.values
    dtype = keras.backend.standardize_dtype(values.dtype)
    widest = kernels.widest_cudnn_head(dtype)
    fits = _width(None, request.logits.keys, values) <= widest
    return widest if known and worth and fits else 0


# --- lengths and widths -------------------------------------------------------


def _width(row, keys, values):
    """Returns the width of all features, including a `row`."""
    width = keys.shape[-1] + (row is not None)
    return _multiple_of_8(max(width, values.shape[-1]))


def _multiple_of_8(width):
    return -(-width // 8) * 8


def _even(request, causal):
    """Pads to even lengths: with a row, and a key that no query sees."""
    rows, columns = request.target_length % 2, request.source_length % 2
    if not rows and not columns:
        return request
    logits, mask = request.logits, request.mask
    keys = mask.keys
    if columns and keys is None and not causal:
        keys = ops.ones((1, request.source_length), "bool")
    if keys is not None:
        keys = ops.pad(keys, [[0, 0], [0, columns]])

    def longer(table):  # which can have one row for all queries
        one = table is None or table.shape[2] == 1
        table = pad_axis(table, 3, 0, columns)
        return pad_axis(table, 2, 0, 0 if one else rows)

    return request._replace(
        logits=logits._replace(
            queries=pad_axis(logits.queries, 1, 0, rows),
            keys=pad_axis(logits.keys, 1, 0, columns),
            bias=longer(logits.bias),
        ),
        values=pad_axis(request.values, 1, 0, columns),
        target_length=request.target_length + rows,
        mask=mask._replace(keys=keys, pairs=longer(mask.pairs)),
    )


# --- biases -------------------------------------------------------------------


def _biases(request, causal, features, cudnn):
    """Returns bias and mask, as a row for all queries and as a table.

    Tensors `(B or 1, H or 1, 1, S)` and `(B or 1, H or 1, T or 1, S)` in the
    dtype of the values, or `None`.
    """
    _, _, bias, steep = request.logits
    values, mask = request.values, request.mask
    row, table = None, bias
    if cudnn and steep and bias is not None:
        table = _from_the_largest(bias, mask, values)
        return None, _limited(table, mask, values)
    if bias is not None:
        table = _bounded(bias, values)
        if features and is_row(bias):
            row, table = table, None
    # With padding a table would become a bias for each sample.
    alone = cudnn if table is None else features and table.shape[0] == 1
    if mask.keys is not None and alone:
        padding = _limited(None, AttentionMask(keys=mask.keys), values)
        row = padding if row is None else row + padding
        mask = mask._replace(keys=None)
    return row, table if causal else _limited(table, mask, values)


def _with_feature(queries, keys, row):
    """Makes a bias `(B or 1, H or 1, 1, S)` a feature of keys."""
    row = ops.cast(ops.transpose(row, (0, 3, 1, 2)), keys.dtype)
    if row.shape[0] != 1 and keys.shape[0] == 1:
        keys = repeat_batch(keys, ops.shape(row)[0])
    row = ops.broadcast_to(row, (*ops.shape(keys)[:3], 1))
    return (
        ops.concatenate([queries, ops.ones_like(queries[..., :1])], axis=-1),
        ops.concatenate([keys, row], axis=-1),
    )


def _limited(bias, mask, values):
    """Adds a mask to a bias, because PyTorch accepts only one of the two.

    The result is finite, so that rows without allowed pairs get an average.
    """
    allowed = mask.materialize()
    if allowed is None:
        return bias
    bias = constant(0.0, values) if bias is None else bias
    least = constant(_least_logit(values), values)
    return ops.where(allowed, bias, least)


def _from_the_largest(bias, mask, values):
    """Steep logits, relative to the largest visible one in each row.

    In half precision the error of a number grows with its size. Relative to the
    largest, logits are small if they have weight. With padding the largest
    depends on the sample.
    """
    bias, allowed = ops.cast(bias, "float32"), mask.materialize()
    seen = bias if allowed is None else ops.where(allowed, bias, FORBIDDEN)
    largest = ops.stop_gradient(ops.amax(seen, axis=-1, keepdims=True))
    return _bounded(bias - largest, values)


def _bounded(bias, values):
    """Returns a bias in the dtype of values, above the value of a mask."""
    least = _least_logit(values)
    if least != FORBIDDEN:
        bias = ops.clip(bias, least / 3, -least / 3)
    return cast_like(bias, values)


def _least_logit(values):
    """Returns a logit below all real ones; twice this logit is finite."""
    dtype = keras.backend.standardize_dtype(values.dtype)
    return {"float16": -3e4, "bfloat16": -1e9}.get(dtype, FORBIDDEN)

"""One table of weights times the values of all samples, whatever is padded.

Where each sample has its own key padding `m`,

    softmax(table + padding) V = A (m V) / (A m),   A = softmax(table)

In floating point that holds as long as the allowed keys keep a share `A m` of
the row's weight. Where a masked logit leads by so much that less than
`LEAST_SHARE` is left, the batch takes the exact way: a softmax per sample,
streamed. The gradients of both ways are written out, so that nothing of size
B x H x T x S exists in the backward pass either.

To know how much is left is to wait for the device, unless a compiled program
branches there. So accelerators whose operations run one by one bound the
weights from below, by `LEAST_WEIGHT`, and always take the first way: some
weight is then left for every key. Where a masked logit leads the visible ones
by `gap`, and `Z = sum_j exp(S_j - max S)`, the relative error is about
`S Z LEAST_WEIGHT exp(gap)`: with `S Z = 1000` 1e-8 for a gap of 50, 2e-2 for
one of 65, and everything beyond 70. Under a compiler accelerators take the
exact way in float16, which would lose what little weight may be left.
"""

import functools
from typing import NamedTuple

import keras
from keras import ops

from keras_synth._backend import execution
from keras_synth._backend.distributions import number_of_devices
from keras_synth._backend.execution import constant
from keras_synth._backend.gradients import with_gradient
from keras_synth._backend.loops import branch
from keras_synth._backend.tensors import axis_size, cast_like, pad
from keras_synth.attention.masks import zero_rows
from keras_synth.attention.routes import pieces, single_query
from keras_synth.attention.routes.pieces import Constants, Operands
from keras_synth.attention.softmax import softmax

# A share of 1e-12 costs float32 nothing: its range ends at 1e-38.
LEAST_SHARE = 1e-12
# Times a value it is a normal number of float32 still.
LEAST_WEIGHT = 1e-33


def apply(weights, values):
    """Returns `weights values`, for all samples at once.

    Args:
        weights: Tensor `(H, T, S)`.
        values: Tensor `(B, S, H, v)`.

    Returns:
        Tensor `(B, T, H, v)`.
    """
    if weights.shape[1] == 1 and values.shape[1] is not None:
        return single_query.context(weights[None], values)
    return _unfold(ops.matmul(weights, _fold(values)), values.shape[-1])


def apply_known(weights, values, mask):
    """Returns `weights values` among what may be seen, rows summing to 1.

    Args:
        weights: Float32 tensor `(H, T, S)`, positive; rows sum to 1.
        values: Tensor `(B, S, H, v)`, zero where padded.
        mask: `AttentionMask` with pairs of all samples, if any.

    Returns:
        Tensor `(B, T, H, v)` in the dtype of `values`.
    """
    dtype = keras.backend.standardize_dtype(values.dtype)
    if mask.keys is None and mask.pairs is None:
        return apply(ops.cast(weights, dtype), values)
    if mask.pairs is not None:
        weights = ops.where(mask.pairs[0], weights, 0.0)
    if mask.keys is None:
        share = ops.sum(weights, axis=-1, keepdims=True)  # (H, T, 1)
    else:
        keys = ops.cast(ops.transpose(mask.keys), "float32")
        share = ops.matmul(weights, keys)  # (H, T, B or 1)
    scale = ops.where(share > 0, 1 / ops.where(share > 0, share, 1.0), 0.0)
    scale = ops.transpose(scale, (2, 1, 0))[..., None]
    # float16 would lose what little weight the allowed keys may have left.
    exact = "float32" if dtype == "float16" else dtype
    found = apply(ops.cast(weights, exact), ops.cast(values, exact))
    return ops.cast(ops.cast(found, "float32") * scale, dtype)


def apply_padded(table, values, keys, visible, keep=None):
    """Returns `softmax(table, where keys are allowed) values`.

    Args:
        table: Float32 tensor `(H, T, S)`, logits.
        values: Tensor `(B, S, H, v)`, zero where padded.
        keys: Boolean tensor `(B, S)`, True where a key is allowed.
        visible: Boolean tensor `(B, 1 or H, 1 or T)`, False for rows that may
            attend to nothing.
        keep: Optional float32 tensor `(H, T, S)` that multiplies the weights
            after normalisation: dropout.

    Returns:
        Tensor `(B, T, H, v)` in the dtype of `values`.
    """
    dtype = keras.backend.standardize_dtype(values.dtype)
    if not _may_be_fast(values, dtype):
        operands = _pieces(table, values, keys, keep)
        return zero_rows(pieces.attend(*operands), visible)
    if dtype == "float16":
        # It would lose what little weight the allowed keys may have left.
        values = ops.cast(values, "float32")
    keys = ops.cast(keys, "float32")
    visible = ops.cast(ops.transpose(visible, (1, 2, 0)), "float32")
    weights = softmax(table)  # (H, T, S)
    share = ops.matmul(weights, ops.transpose(keys))  # (H, T, B)
    enough = ops.stop_gradient(share) > LEAST_SHARE
    enough = ops.all(ops.logical_or(enough, visible < 0.5))
    scale = visible / ops.maximum(share, LEAST_SHARE)
    kept = ops.cast(weights if keep is None else weights * keep, values.dtype)
    derived = _Derived(weights, kept, _fold(values), scale)
    given = _Given(enough, keys, visible, keep)
    product = with_gradient(_product, _product_gradient)
    return ops.cast(product(table, values, derived, given), dtype)


def apply_bounded(table, values, keys, keep=None, pairs=None):
    """`apply_padded` without a branch, with weights of `LEAST_WEIGHT` or more.

    Entries below have no gradient, and the bound gives none to the others.

    Args:
        table: Float32 tensor `(H, T, S)`, logits, `FORBIDDEN` where `pairs`
            forbid.
        values: Tensor `(B, S, H, v)`, zero where padded.
        keys: Boolean tensor `(B, S)`, True where a key is allowed.
        keep: As for `apply_padded`.
        pairs: Boolean tensor `(H or 1, T, S)`, or `None`.

    Returns:
        Tensor `(B, T, H, v)` in the dtype of `values`; zero where a row may
        attend to nothing.
    """
    like = values
    if is_float16(values):
        values = ops.cast(values, "float32")
    weights = softmax(table)  # (H, T, S)
    least = constant(LEAST_WEIGHT, weights)
    plain = execution.is_transformed()  # no gradient is written by hand
    known = weights if plain else ops.stop_gradient(weights)
    bounded = ops.maximum(known, least)
    if pairs is not None:
        # A sink is one more column, which all rows see.
        sink = ops.shape(bounded)[-1] - ops.shape(pairs)[-1]
        seen = pad(pairs, [[0, 0], [0, 0], [0, sink]], value=True)
        bounded = ops.where(seen, bounded, constant(0.0, bounded))
    kept = cast_like(bounded if keep is None else bounded * keep, values)
    keys = cast_like(keys, weights)
    if plain or not execution.may_be_differentiated():
        context = ops.einsum("hts,bshv->bthv", kept, values)
        share = ops.einsum("hts,bs->bth", bounded, keys)
        scale = ops.reciprocal(ops.maximum(share, least))[..., None]
        return cast_like(cast_like(context, scale) * scale, like)
    share = ops.matmul(bounded, ops.transpose(keys))  # (H, T, B)
    scale = ops.reciprocal(ops.maximum(share, least))
    derived = _Derived(weights, kept, _fold(values), scale)
    given = _Given(True, keys, None, keep)
    product = with_gradient(_product, _product_gradient)
    return cast_like(product(table, values, derived, given), like)


def _may_be_fast(values, dtype):
    """Whether the first way may be chosen by how much weight is left."""
    exact = execution.on_cpu(values) or dtype != "float16"
    return exact and execution.may_branch(values)


class _Derived(NamedTuple):
    """What follows from a table and values, which alone have gradients."""

    weights: object  # (H, T, S)
    kept: object  # those after dropout
    columns: object  # (H, S, B * v)
    scale: object  # (H, T, B)


class _Given(NamedTuple):
    """What has no gradient."""

    enough: object  # whether all rows have enough weight left
    keys: object
    visible: object
    keep: object


def _product(table, values, derived, given):
    """`apply_padded` proper, without its gradient."""
    (found,) = _chooser(given.enough)(
        lambda: (_fast(derived, values.shape[-1]),),
        lambda: (_exact(table, values, given),),
    )
    return found  # (B, T, H, v)


def _product_gradient(upstream, context, table, values, derived, given):
    outer = upstream, context
    of_table, of_values = _chooser(given.enough)(
        lambda: _fast_gradient(outer, derived, given),
        lambda: _exact_gradient(outer, table, values, given),
    )
    # Complete: nothing is left for what derives from table and values.
    # Second derivatives find their way through it.
    return of_table, of_values, None, None


def _chooser(predicate):
    """Returns `choose(if_true, if_false)`, of a boolean or a scalar tensor."""
    if predicate is True:
        return lambda if_true, if_false: if_true()
    if execution.is_eager(predicate):
        known = bool(predicate)
        return lambda if_true, if_false: (if_true if known else if_false)()
    return functools.partial(branch, predicate)


# --- all samples at once ------------------------------------------------------


def _fast(derived, width):
    """`A (m V) / (A m)`: `(H, T, S), (H, S, B * v), (H, T, B)`."""
    _, kept, columns, scale = derived
    total = cast_like(ops.matmul(kept, columns), scale)
    total = _scaled(total, scale, width)
    return cast_like(_unfold(total, width), columns)


def _fast_gradient(outer, derived, given):
    weights, kept, columns, scale = derived
    upstream, context = (ops.cast(x, "float32") for x in outer)
    along = ops.sum(upstream * context, axis=-1)  # (B, T, H)
    along = ops.transpose(along, (2, 1, 0)) * scale  # (H, T, B)
    width = upstream.shape[-1]
    slopes = _scaled(_fold(upstream), scale, width)  # (H, T, B * v)
    slopes = ops.cast(slopes, columns.dtype)
    of_weights = _weights_gradient(slopes, columns, along, given)
    of_columns = ops.matmul(ops.transpose(kept, (0, 2, 1)), slopes)
    # The context does not change where a row of the weights is multiplied by a
    # number. So `sum(weights * of_weights)` is zero in each row, which the
    # gradient of a softmax would take off; but for rounding.
    of_table = weights * of_weights
    if not _is_float32(columns):
        rest = ops.sum(of_table, axis=-1, keepdims=True)
        of_table = of_table - weights * rest
    return of_table, _unfold(of_columns, width)


def _weights_gradient(slopes, columns, along, given):
    """`slopes columns^T - along keys`, dropout counted in: `(H, T, S)`."""
    keys, keep = given.keys, given.keep
    # Several devices would have to exchange the samples that they share.
    one_device = number_of_devices() == 1
    at_once = keep is None and one_device and _is_float32(columns)
    if at_once:
        keys = ops.transpose(keys)  # (S, B)
        keys = ops.broadcast_to(keys, (ops.shape(columns)[0], *ops.shape(keys)))
        slopes = ops.concatenate([slopes, -along], axis=-1)
        columns = ops.concatenate([columns, keys], axis=-1)
    found = ops.matmul(slopes, ops.transpose(columns, (0, 2, 1)))
    if at_once:
        return found
    found = ops.cast(found, "float32")
    found = found if keep is None else found * keep
    return found - ops.matmul(along, keys)


def is_float16(x):
    """Whether a tensor is float16."""
    return keras.backend.standardize_dtype(x.dtype) == "float16"


def _is_float32(x):
    return keras.backend.standardize_dtype(x.dtype) == "float32"


# --- sample by sample ---------------------------------------------------------


def _exact(table, values, given):
    context = pieces.context(*_pieces(table, values, given.keys, given.keep))
    return context * _rows(given.visible, context.dtype)


def _exact_gradient(outer, table, values, given):
    upstream, context = outer
    gradients = pieces.gradient(
        upstream * _rows(given.visible, upstream.dtype),
        context,
        *_pieces(table, values, given.keys, given.keep),
    )
    return gradients.bias[0], gradients.values


def _pieces(table, values, keys, keep):
    return (
        Operands(None, None, table[None], values),
        Constants(
            keys=ops.cast(keys, "bool")[:, None, None],
            keep=None if keep is None else keep[None],
        ),
    )


def _rows(visible, dtype):
    """`(1 or H, 1 or T, B) -> (B, 1 or T, 1 or H, 1)`."""
    return ops.cast(ops.transpose(visible, (2, 1, 0))[..., None], dtype)


# --- layouts ------------------------------------------------------------------


def _fold(x):
    """`(B, S, H, v) -> (H, S, B * v)`: the batch becomes columns."""
    shape = (axis_size(x, 2), axis_size(x, 1), -1)
    return ops.reshape(ops.transpose(x, (2, 1, 0, 3)), shape)


def _unfold(x, width):
    """`(H, T, B * v) -> (B, T, H, v)`, the inverse of `_fold`."""
    return ops.transpose(_by_sample(x, width), (2, 1, 0, 3))


def _scaled(x, scale, width):
    """Multiplies `(H, T, B * v)` by one number for each head, row, sample."""
    shape = (axis_size(x, 0), axis_size(x, 1), -1)
    return ops.reshape(_by_sample(x, width) * scale[..., None], shape)


def _by_sample(x, width):
    """`(H, T, B * v) -> (H, T, B, v)`."""
    shape = (axis_size(x, 0), axis_size(x, 1), -1, width)
    return ops.reshape(x, shape)

"""One table of weights for the whole batch, key padding included.

`apply` is the product of one `(H, T, S)` table with the values of all samples,
computed as a matrix product per head with the batch folded into the columns.

`apply_padded` does the same where each sample has its own key padding `m`:

    softmax(table + padding) V = A (m V) / (A m),   A = softmax(table)

In floating point that holds as long as the allowed keys keep a share `A m` of
the row's weight. Where a masked logit leads by so much that less than
`LEAST_SHARE` is left, the batch takes the exact way: a softmax per sample,
streamed. The gradients of both ways are written out, so that nothing of size
B x H x T x S exists in the backward pass either.
"""

import functools

import keras
from keras import ops

from keras_synth import rows, streamed
from keras_synth.backends import runs_at_once
from keras_synth.gradients import with_gradient
from keras_synth.loops import branch
from keras_synth.softmax import softmax, through_softmax
from keras_synth.streamed import Constants, Operands

# A share of 1e-12 costs float32 nothing: its range ends at 1e-38.
LEAST_SHARE = 1e-12


def apply(weights, values):
    """Returns `weights values`, for all samples at once.

    Args:
        weights: Tensor `(H, T, S)`.
        values: Tensor `(B, S, H, v)`.

    Returns:
        Tensor `(B, T, H, v)`.
    """
    if weights.shape[1] == 1 and values.shape[1] is not None:
        return rows.context(weights[None], values)
    return _unfold(ops.matmul(weights, _fold(values)), values.shape[-1])


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
    operands = (table, values, weights, kept, _fold(values), scale)
    product = _product(_chooser(enough), keys, visible, keep)
    return ops.cast(product(*operands), dtype)


def _product(choose, keys, visible, keep):
    """Returns `apply_padded` proper, as a function with its own gradient.

    `choose` calls the first of two functions if all rows have enough weight
    left, else the second.
    """

    def context(table, values, weights, kept, columns, scale):
        (found,) = choose(
            lambda: (_fast(kept, columns, scale, values.shape[-1]),),
            lambda: (_exact(table, values, keys, visible, keep),),
        )
        return found  # (B, T, H, v)

    def gradient(upstream, context, table, values, *derived):
        weights, kept, columns, scale = derived
        outer = upstream, context
        of_table, of_values = choose(
            lambda: _fast_gradient(
                outer, weights, keep, kept, columns, keys, scale
            ),
            lambda: _exact_gradient(outer, table, values, keys, visible, keep),
        )
        # Complete: nothing is left for what derives from table and values.
        # Second derivatives find their way through it.
        return of_table, of_values, *(None for _ in derived)

    return with_gradient(context, gradient)


def _chooser(predicate):
    """Returns `choose(if_true, if_false)` for a boolean scalar tensor."""
    if runs_at_once(predicate[None]):
        known = bool(predicate)
        return lambda if_true, if_false: (if_true if known else if_false)()
    return functools.partial(branch, predicate)


# --- all samples at once ------------------------------------------------------


def _fast(kept, columns, scale, width):
    """`A (m V) / (A m)`: `(H, T, S), (H, S, B * v), (H, T, B)`."""
    total = ops.cast(ops.matmul(kept, columns), "float32")
    total = _scaled(total, scale, width)
    return ops.cast(_unfold(total, width), columns.dtype)


def _fast_gradient(outer, weights, keep, kept, columns, keys, scale):
    upstream, context = (ops.cast(x, "float32") for x in outer)
    along = ops.sum(upstream * context, axis=-1)  # (B, T, H)
    along = ops.transpose(along, (2, 1, 0)) * scale  # (H, T, B)
    width = upstream.shape[-1]
    given = _scaled(_fold(upstream), scale, width)  # (H, T, B * v)
    given = ops.cast(given, columns.dtype)
    of_kept = ops.matmul(given, ops.transpose(columns, (0, 2, 1)))
    of_weights = ops.cast(of_kept, "float32")
    of_weights = of_weights if keep is None else of_weights * keep
    of_weights = of_weights - ops.matmul(along, keys)
    of_columns = ops.matmul(ops.transpose(kept, (0, 2, 1)), given)
    return through_softmax(weights, of_weights), _unfold(of_columns, width)


# --- sample by sample ---------------------------------------------------------


def _exact(table, values, keys, visible, keep):
    context = streamed.context(*_pieces(table, values, keys, keep))
    return context * _rows(visible, context.dtype)


def _exact_gradient(outer, table, values, keys, visible, keep):
    upstream, context = outer
    gradients = streamed.gradient(
        upstream * _rows(visible, upstream.dtype),
        context,
        *_pieces(table, values, keys, keep),
    )
    return gradients.bias[0], gradients.values


def _pieces(table, values, keys, keep):
    return (
        Operands(None, None, table[None], values),
        Constants(
            keys=keys[:, None, None, :] > 0.5,
            keep=None if keep is None else keep[None],
        ),
    )


def _rows(visible, dtype):
    """`(1 or H, 1 or T, B) -> (B, 1 or T, 1 or H, 1)`."""
    return ops.cast(ops.transpose(visible, (2, 1, 0))[..., None], dtype)


# --- layouts ------------------------------------------------------------------


def _fold(x):
    """`(B, S, H, v) -> (H, S, B * v)`: the batch becomes columns."""
    heads, length = ops.shape(x)[2], ops.shape(x)[1]
    return ops.reshape(ops.transpose(x, (2, 1, 0, 3)), (heads, length, -1))


def _unfold(x, width):
    """`(H, T, B * v) -> (B, T, H, v)`, the inverse of `_fold`."""
    return ops.transpose(_by_sample(x, width), (2, 1, 0, 3))


def _scaled(x, scale, width):
    """Multiplies `(H, T, B * v)` by one number for each head, row, sample."""
    return ops.reshape(_by_sample(x, width) * scale[..., None], ops.shape(x))


def _by_sample(x, width):
    """`(H, T, B * v) -> (H, T, B, v)`."""
    heads, length = ops.shape(x)[:2]
    return ops.reshape(x, (heads, length, -1, width))

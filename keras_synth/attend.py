"""`attend` turns logits, values and a mask into a context.

It chooses among four routes, which agree to rounding:

- **once**: logits and mask do not depend on the batch, key padding excepted.
  The softmax of one `(H, T, S)` table is computed once and applied to all
  samples as a single product.
- **fused**: there are queries; `ops.dot_product_attention` takes over.
- **streamed**: piece by piece, each small enough for the cache.
- **explicit**: when the weights themselves are wanted, or dropped out per
  sample.

Only the last makes a tensor of size B x H x T x S. All that is special about a
backend's attention kernel is known here alone; docs/performance.md has the
measurements behind `choose_route`.
"""

import keras
from keras import ops

from keras_synth import once, rows, streamed
from keras_synth.backends import on_cpu
from keras_synth.logits import Logits, repeat_batch
from keras_synth.masks import AttentionMask, zero_padding
from keras_synth.softmax import FORBIDDEN, masked_softmax

ROUTES = ("once", "fused", "streamed", "explicit")


def attend(
    logits,
    values,
    mask=None,
    *,
    target_length=None,
    dropout=None,
    return_weights=False,
    route=None,
    flash_attention=None,
):
    """Returns `softmax(logits, masked) values`, the softmax in float32.

    A query row that may attend to nothing has a zero context, and padding has
    no influence on any other row, even where it holds inf or NaN.

    Args:
        logits: `Logits`.
        values: Tensor `(B, S, H, v)`.
        mask: Optional `AttentionMask`.
        target_length: Integer or scalar tensor, `T`. Logits without queries
            whose bias is one row for all of them do not tell it.
        dropout: Optional function that drops and rescales attention weights,
            applied after normalisation: to `(B, H, T, S)` weights on the
            explicit route, to one `(H, T, S)` table for the whole batch on the
            once route.
        return_weights: Whether to return the weights too, before dropout.
        route: One of `ROUTES`, for tests and benchmarks; by default
            `choose_route` decides.
        flash_attention: `True` demands the backend's flash kernel, `False`
            forbids it.

    Returns:
        Tensor `(B, T, H, v)` in the dtype of `values`; with `return_weights`
        a tuple of it and the float32 weights `(B, H, T, S)`, whose rows sum
        to 1, or to 0 where nothing is visible.

    Raises:
        ValueError: If `route` is unknown or cannot serve these arguments.
    """
    mask = AttentionMask() if mask is None else mask
    if target_length is not None:
        logits = logits.with_rows(target_length)
    possible = possible_routes(logits, mask, dropout, return_weights)
    if flash_attention and "fused" not in possible:
        raise ValueError(
            "flash_attention=True needs logits that compare queries with keys "
            '(dot-product, Dense, or mixtures with them). Leave it out for "R" '
            f"and the like. Received: {_described(logits)}"
        )
    if flash_attention:
        route = "fused"
    if route is None:
        route = choose_route(possible, logits, values)
    if route not in possible:
        raise ValueError(
            f"The route must be one of {possible} for these logits, mask, "
            f"dropout and return_weights. Received: route={route!r}"
        )
    values = zero_padding(values, mask.keys)
    weights = None
    if route == "once":
        context = _once(logits, values, mask, dropout)
    elif route == "fused":
        context = _fused(logits, values, mask, flash_attention)
    elif route == "streamed":
        context = _streamed(logits, values, mask)
    else:
        context, weights = _explicit(logits, values, mask, dropout)
    if mask.queries is not None:
        context = zero_padding(context, mask.queries)
        if return_weights:
            rows = mask.queries[:, None, :, None]
            weights = ops.where(rows, weights, 0.0)
    return (context, weights) if return_weights else context


def _described(logits):
    """Which parts logits have."""
    parts = logits._asdict().items()
    return "logits of " + ", ".join(k for k, x in parts if x is not None)


def possible_routes(logits, mask, dropout=None, return_weights=False):
    """Returns the routes that can serve.

    Args:
        logits: `Logits`.
        mask: `AttentionMask`.
        dropout: As for `attend`.
        return_weights: As for `attend`.

    Returns:
        Tuple of strings out of `ROUTES`; `"explicit"` always can.
    """
    possible = {
        "once": logits.shared and mask.shared,
        "fused": logits.queries is not None and dropout is None,
        "streamed": dropout is None,
    }
    routes = [] if return_weights else [r for r in possible if possible[r]]
    return (*routes, "explicit")


def choose_route(possible, logits, values):
    """Returns the fastest of the possible routes.

    Args:
        possible: Sequence of strings out of `ROUTES`.
        logits: `Logits`.
        values: Tensor `(B, S, H, v)`.
    """
    preferred = ["fused", "explicit"]
    if on_cpu(values):
        preferred = ["fused"] if _has_cpu_kernel(logits, values) else []
        # One row of weights is not worth cutting into pieces.
        preferred.append("explicit" if rows.is_one(logits) else "streamed")
    # A batch of one may look as if it were the same for the whole batch.
    if logits.queries is None or values.shape[0] != 1:
        preferred.insert(0, "once")
    return next(r for r in (*preferred, "explicit") if r in possible)


def _has_cpu_kernel(logits, values):
    """Whether the backend has a kernel for CPUs that likes these logits."""
    if keras.backend.backend() != "torch" or logits.queries is None:
        return False
    bias = logits.bias
    if rows.is_one(logits) and (bias is not None or logits.keys.shape[0] == 1):
        # A single query is not worth a copy of all keys, be it to repeat
        # constant ones or to make the bias a feature of theirs.
        return False
    # It leaves its fast path for a bias that is trained. One of the keys alone
    # can be a feature of theirs.
    no_bias = bias is None or _is_row(bias) or not bias.requires_grad
    # Keys and values are padded to one width: that must not cost too much.
    key_width, value_width = logits.keys.shape[-1], values.shape[-1]
    return no_bias and key_width < 1.5 * value_width < 3 * key_width


# --- explicit -----------------------------------------------------------------


def _explicit(logits, values, mask, dropout):
    if mask.keys is not None and logits.queries is not None:
        logits = _zero_padded_keys(logits, mask)
    one = rows.is_one(logits) and values.shape[1] is not None
    scores = _row(logits) if one else logits.materialize()  # (B or 1, H, T, S)
    weights = masked_softmax(scores, mask.materialize())
    weights = ops.broadcast_to(
        weights, (ops.shape(values)[0], *ops.shape(weights)[1:])
    )
    dropped = weights if dropout is None else dropout(weights)
    dropped = ops.cast(dropped, values.dtype)
    if one:
        return rows.context(dropped, values), weights
    return ops.einsum("bhts,bshv->bthv", dropped, values), weights


def _row(logits):
    """The logits of one query, `(B or 1, H, 1, S)`."""
    queries, keys, bias = logits
    if queries is None or 1 in (queries.shape[0], keys.shape[0]):
        return logits.materialize()
    scores = ops.cast(rows.scores(queries, keys), "float32")
    return scores if bias is None else scores + ops.cast(bias, "float32")


# --- fused --------------------------------------------------------------------


def _fused(logits, values, mask, flash_attention=None):
    queries, keys, bias = _for_kernel(logits, values, mask)
    forbidding = mask
    if bias is not None and bias.shape[0] == 1 and mask.keys is not None:
        # Padding as a feature of the keys: beside it the table would become a
        # bias of every sample.
        least = ops.cast(_least_logit(values.dtype), values.dtype)
        padding = ops.where(mask.keys, ops.zeros_like(least), least)
        padding = padding[:, None, None, :]  # (B, 1, 1, S)
        queries, keys = _with_bias(queries, keys, padding)
        forbidding = mask._replace(keys=None)
    by_name = mask.causal and mask.keys is None and bias is None
    allowed = None if by_name else forbidding.materialize()
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
        is_causal=by_name,
        flash_attention=flash_attention,
    )[..., :width]
    return _visible_rows(context, mask)


def _visible_rows(context, mask):
    """Zeroes rows that see nothing: they hold an average of the forbidden."""
    visible = mask.visible()
    if visible is None:
        return context
    visible = ops.transpose(visible, (0, 2, 1))[..., None]  # (B, T, H, 1)
    return ops.where(visible, context, ops.zeros((), dtype=context.dtype))


def _for_kernel(logits, values, mask):
    """Gives logits the dtype, the batch and the finite keys a kernel needs."""
    queries, keys, bias = _zero_padded_keys(logits, mask)
    if bias is not None and _is_row(bias):
        queries, keys = _with_bias(queries, keys, bias)
        bias = None
    batch = ops.shape(values)[0]
    if queries.shape[0] == 1 and values.shape[0] != 1:
        queries = repeat_batch(queries, batch)
    if keys.shape[0] == 1 and values.shape[0] != 1:
        keys = repeat_batch(keys, batch)
    queries = ops.cast(queries, values.dtype)
    keys = ops.cast(keys, values.dtype)
    return queries, keys, None if bias is None else ops.cast(bias, values.dtype)


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


def _zero_padded_keys(logits, mask):
    """Zeroes padded keys; constants, with a batch axis of 1, have none."""
    queries, keys, bias = logits
    if mask.keys is None:
        return logits
    if keys.shape[0] != 1 or mask.keys.shape[0] == 1:
        keys = zero_padding(keys, mask.keys)
    return Logits(queries, keys, bias)


def _least_logit(dtype):
    """A logit that no real one undercuts, and twice of which is finite."""
    return -3e4 if keras.backend.standardize_dtype(dtype) == "float16" else -1e9


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


# --- streamed -----------------------------------------------------------------


def _streamed(logits, values, mask):
    if logits.queries is not None:
        logits = _zero_padded_keys(logits, mask)
    keys = None if mask.keys is None else mask.keys[:, None, None, :]
    context = streamed.attend(
        streamed.Operands(*logits, values),
        streamed.Constants(keys=keys, pairs=mask.pairs),
    )
    return _visible_rows(context, mask)


# --- once per batch -----------------------------------------------------------


def _once(logits, values, mask, dropout):
    table = logits.materialize()[0]  # (H, T, S)
    pairs = None if mask.pairs is None else mask.pairs[0]  # (1 or H, T, S)
    if mask.keys is None:
        weights = masked_softmax(table, pairs)
        weights = weights if dropout is None else dropout(weights)
        return once.apply(ops.cast(weights, values.dtype), values)
    if pairs is not None:
        table = ops.where(pairs, table, FORBIDDEN)
    keep = None if dropout is None else dropout(ops.ones_like(table))
    return once.apply_padded(table, values, mask.keys, mask.visible(), keep)

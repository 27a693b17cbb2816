"""The shared route: one `(H, T, S)` table of weights for the whole batch.

If each sample has its own key padding `m`,

    softmax(table + padding) V = A (m V) / (A m),   A = softmax(table)

`LEAST_WEIGHT` is added to `A`, so that every key has some weight. The error is
in docs/routes.md.
"""

import functools
import math
from typing import Any

from keras import ops

from keras_synth._backend import execution
from keras_synth._backend.loops import one_by_one, rematerialized
from keras_synth._backend.tensors import axis_size, cast_like
from keras_synth.attention.logits import Weights, float32, within_float32
from keras_synth.attention.masks import both
from keras_synth.attention.normalizers import (
    SOFTMAX,
    ReLU,
    Sigmoid,
    Softmax,
    Softmax1,
    normalized,
)
from keras_synth.attention.routes import sizes
from keras_synth.attention.routes.explicit import query_context
from keras_synth.attention.routes.route import Request, Route
from keras_synth.attention.routes.tile import tile_scores
from keras_synth.attention.softmax import forbid, softmax, softmax1

# The product with a value is still a normal float32 number.
LEAST_WEIGHT = 1e-33


class SharedRoute(Route):
    """Weights that are computed once for all samples.

    Example:

    >>> keras_synth.routes.get("shared")
    <SharedRoute 'shared'>
    """

    name = "shared"
    normalizers = (Softmax, Softmax1, ReLU, Sigmoid)
    takes_weights = True

    def serves(self, request: Request) -> bool:
        logits, mask = request.logits, request.mask
        if request.return_weights or request.flash_attention:
            return False
        if isinstance(logits, Weights):
            plain = request.normalizer == SOFTMAX and request.dropout is None
            return plain and mask.shared
        if mask.keys is not None and (
            # A masked logit can exceed the visible ones by more than the bound.
            logits.needs_float32
            # Weights depend on n, and so on the padding of each sample.
            or isinstance(request.normalizer, Sigmoid)
        ):
            return False
        return logits.shared and mask.shared

    def cost(self, request: Request) -> float:
        """A softmax for all samples and one product.

        A batch of one sample always has the same logits for all samples, but
        with queries other routes are faster.
        """
        single = request.values.shape[0] == 1
        compares = getattr(request.logits, "queries", None) is not None
        return 2.0 if single and compares else 0.3

    def is_portable(self, request: Request) -> bool:
        return not _is_large(request)

    def run(self, request: Request) -> Any:
        request = request.with_pairs()
        operands = _operands(request)
        of_heads = functools.partial(_context, request)
        if _is_large(request):
            context = one_by_one(rematerialized(of_heads), operands, [0])
        else:
            context = of_heads(operands)
        return cast_like(ops.transpose(context, (2, 1, 0, 3)), request.values)


def _is_large(request):
    """Whether a table is too large to be computed as a whole."""
    lengths = request.target_length, request.source_length
    axes = *lengths, request.values.shape[2]
    return (
        all(isinstance(size, int) for size in axes)
        and math.prod(axes) >= sizes.LARGE_TABLE
        and request.dropout is None
        and execution.loops_over_slices(request.values)
    )


def _operands(request):
    """Returns a dictionary of tensors per head, heads first."""
    logits, mask, count = request.logits, request.mask, request.count()
    operands = {"values": ops.transpose(request.values, (2, 1, 0, 3))}
    if isinstance(logits, Weights):
        operands["weights"] = logits.table[0]
    else:
        if logits.queries is not None:
            operands["queries"] = ops.transpose(logits.queries[0], (1, 0, 2))
            operands["keys"] = ops.transpose(logits.keys[0], (1, 0, 2))
        if logits.bias is not None:
            operands["bias"] = logits.bias[0]  # (H, T, S)
    pairs, keys = mask.pairs, mask.keys
    if keys is not None and keys.shape[0] == 1:  # the same for all samples
        pairs, keys = both(pairs, keys[:, None, None]), None
    if pairs is not None:
        operands["pairs"] = pairs[0]  # (1 or H, 1 or T, S)
    if keys is not None:
        operands["is_token"] = keys[None]  # (1, B, S)
    if count is not None:
        operands["count"] = ops.transpose(count, (1, 2, 0, 3))
    return operands


def _context(request, operands):
    """Returns the context of some heads, `(H, T, B, v)`."""
    normalizer, is_token = request.normalizer, operands.get("is_token")
    keys = None if is_token is None else is_token[0]
    drop = request.dropout or (lambda weights: weights)
    values, pairs = operands["values"], operands.get("pairs")
    weights, sink = operands.get("weights"), None
    if weights is None:
        terms = (operands.get(name) for name in ("queries", "keys", "bias"))
        table = tile_scores(*terms)  # (H, T, S)
        count = operands.get("count")  # (1 or H, 1 or T, B or 1, 1)
        if keys is None:
            count = None if count is None else count[..., 0]
            weights = normalized(normalizer, table, pairs, count)
            return _product(drop(weights), values)
        table = forbid(table, pairs)
        if isinstance(normalizer, ReLU):
            weights = drop(ops.relu(table))
            # A sum before the division can overflow in float16.
            context = _product(weights, within_float32(values))
            return float32(context) / count
        if normalizer.sink:
            weights, sink = softmax1(table)
        else:
            weights = softmax(table)
        weights = weights + LEAST_WEIGHT
    elif pairs is None and keys is None:
        return _product(weights, values)
    if pairs is not None:
        weights = weights * ops.cast(pairs, weights.dtype)
    kept = request.dropout and drop(weights)
    return _among_visible(weights, values, keys, sink, kept)


def _among_visible(weights, values, keys, sink=None, kept=None):
    """Returns `A (m V) / (A m)`, `(H, T, B, v)`, zero without visible keys.

    Weights `A` are float32 `(H, T, S)`, like `kept`, those after dropout.
    Values are `(H, S, B, v)`, zero for padding, keys `m` boolean `(B, S)`.
    A sink, `(H, T, 1)`, is one more weight of each row, without a value.
    """
    # float16 would lose the small weights that visible keys can have.
    values = within_float32(values)
    if keys is None:
        context = _product(weights, values)
        total = ops.sum(weights, axis=-1, keepdims=True)[..., None]
    elif (
        kept is None
        and weights.shape[1] != 1
        and values.dtype == weights.dtype  # float32
    ):
        # One product: `m` is an additional feature of the values.
        keys = ops.cast(ops.transpose(keys), values.dtype)[None, :, :, None]
        keys = ops.broadcast_to(keys, (*ops.shape(values)[:3], 1))
        product = _product(weights, ops.concatenate([values, keys], axis=-1))
        context, total = product[..., :-1], product[..., -1:]
    else:
        context = float32(_product(weights if kept is None else kept, values))
        total = ops.matmul(weights, float32(ops.transpose(keys)))[..., None]
    total = total if sink is None else total + sink[..., None]
    total = ops.where(total > 0, total, 1.0)  # (H, T, B or 1, 1)
    context = float32(context)
    if not execution.may_be_differentiated():
        return context / total
    # The gradient of a plain `x / y` would overflow in `y^-2`.
    scale = ops.stop_gradient(ops.reciprocal(total))
    return (context * scale) / (total * scale)


def _product(weights, values):
    """Returns `weights values`: `(H, T, S), (H, S, B, v) -> (H, T, B, v)`."""
    weights = cast_like(weights, values)
    if weights.shape[1] == 1 and values.shape[1] is not None:
        values = ops.transpose(values, (2, 1, 0, 3))
        context = query_context(weights[None], values)
        return ops.transpose(context, (2, 1, 0, 3))
    heads, length, _, width = (axis_size(values, axis) for axis in range(4))
    columns = ops.reshape(values, (heads, length, -1))
    product = ops.matmul(weights, columns)
    return ops.reshape(product, (heads, axis_size(weights, 1), -1, width))

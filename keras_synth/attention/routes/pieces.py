"""Attention piece by piece: some samples, some heads, some rows at a time.

The weights of a piece fit into a CPU's cache. They are computed, used and
forgotten; the backward pass, written out here, computes them once more. So the
weights of the whole batch, B x H x T x S, never exist, and on CPUs the memory
that is not written and read costs less time than the products done twice.

The same idea as FlashAttention's, with pieces of whole rows (Dao et al., 2022,
https://arxiv.org/abs/2205.14135). Where positions rule out columns for all rows
of a piece, as outside of a window, these are not visited at all.
"""

from types import ModuleType
from typing import NamedTuple

from keras import ops

from keras_synth._backend.gradients import with_gradient
from keras_synth._backend.tensors import pad, product
from keras_synth.attention.logits import Product, covering
from keras_synth.attention.masks import AttentionMask, both
from keras_synth.attention.normalizers import SOFTMAX, Normalizer
from keras_synth.attention.routes.grid import Result, assembled, grid_of, part
from keras_synth.attention.softmax import forbid


class Operands(NamedTuple):
    """What the context is differentiated by.

    Fields:
        queries: Tensor `(B or 1, T, H, k)` or `None`.
        keys: Tensor `(B or 1, S, H, k)`; `None` together with `queries`.
        bias: Tensor `(B or 1, H or 1, T or 1, S)` or `None`.
        values: Tensor `(B, S, H, v)`.
        scale: Tensor `(1, H or 1, 1, 1)` that multiplies the bias, then one
            of `T` rows for all samples, or `None`. Or the first factor of a
            `logits.Product`, `(B or 1, H or 1, T or 1, a)`, the bias being the
            second.
    """

    queries: object
    keys: object
    bias: object
    values: object
    scale: object = None

    @classmethod
    def of(cls, logits, values):
        """Those of `Logits`, whose bias may be a `Product`."""
        bias = logits.bias
        if not isinstance(bias, Product):
            return cls(*logits, values)
        if bias.repeated.shape[-1] == 1 and not bias.scales_a_table:
            return cls(*logits.written_out(), values)
        queries, keys, _ = logits
        return cls(queries, keys, bias.tiled, values, bias.repeated)

    @property
    def scales_a_table(self):
        """Whether there is one scale for a table, not a factor of its rows."""
        return self.scale is not None and self.scale.shape[-1] == 1

    @property
    def has_factors(self):
        """Whether rows of the bias are products of two shorter ones."""
        return self.scale is not None and self.scale.shape[-1] != 1


class Constants(NamedTuple):
    """What it is not differentiated by.

    Fields:
        keys: Boolean tensor `(B, 1, 1, S)`, the key padding, or `None`.
        pairs: Boolean tensor `(B or 1, H or 1, T, S)` or `None`.
        keep: Float32 tensor `(1, H, T, S)` that multiplies the weights after
            normalisation, or `None`.
        pattern: `AttentionMask` whose causal mask and window hold here;
            lengths and start are known where it has one.
        seen: Float32 tensor `(B or 1, H or 1, T or 1, 1)`, how many keys that a
            row sees, if the normalizer counts; or `None`.
        normalizer: `Normalizer`.
    """

    keys: object = None
    pairs: object = None
    keep: object = None
    pattern: AttentionMask = AttentionMask()
    seen: object = None
    normalizer: Normalizer = SOFTMAX


# Modules that compute some pieces faster: they have `serves`, `context` and
# `gradient`, with the arguments of these here.
shortcuts: list[ModuleType] = []

# Axes of operands and constants, heads first.
LAYOUT = {
    "queries": "bht-",
    "keys": "bhs-",
    "bias": "bhts",
    "values": "bhs-",
    "scale": "bht-",
}
# Gradients that are summed over rows as `(b, h, features, S)`, as they come.
TRANSPOSED = {"keys", "values"}


def attend(operands, constants):
    """Returns `softmax(queries . keys + bias, masked) values`.

    Args:
        operands: `Operands`, padded keys and values being finite.
        constants: `Constants`.

    Returns:
        Tensor `(B, T, H, v)`. Rows where nothing is allowed hold an average:
        zeroing them, as `attend` does, zeroes their gradients too.
    """

    def backward(*given):
        return gradient(*given), None

    return with_gradient(context, backward)(operands, constants)


def context(operands, constants):
    """Returns the context `(B, T, H, v)`; its gradient is not taken care of."""
    for shortcut in shortcuts:
        if shortcut.serves(operands, constants):
            return shortcut.context(operands, constants)
    operands = _heads_first(operands)
    values = operands.values
    target_length = _target_length(operands)
    grid = _grid(operands, constants.pattern)

    def piece(at):
        own, fixed = _cut(operands, constants, at)
        _, kept = _weights(own, fixed, at)
        return (ops.matmul(kept, own.values),)

    shape = (*ops.shape(values)[:2], target_length, values.shape[-1])
    (found,) = assembled(piece, grid, [Result("bht-", shape, values)])
    return _swap_heads(found)


def gradient(upstream, output, operands, constants):
    """Returns `Operands` of gradients, `None` where there is no operand.

    Args:
        upstream: Tensor `(B, T, H, v)`, gradient by the context.
        output: Tensor `(B, T, H, v)`, the context.
        operands: `Operands`.
        constants: `Constants`.
    """
    for shortcut in shortcuts:
        if shortcut.serves(operands, constants):
            return Operands(
                *shortcut.gradient(upstream, output, operands, constants)
            )
    # Of a row's weights times their gradients all that matters is the sum.
    along = ops.cast(upstream, "float32") * ops.cast(output, "float32")
    along = ops.sum(_swap_heads(along), axis=-1, keepdims=True)
    upstream = _swap_heads(upstream)
    operands = _heads_first(operands)
    grid = _grid(operands, constants.pattern)
    present = {n: x for n, x in operands._asdict().items() if x is not None}
    if operands.scales_a_table:
        del present["scale"]  # it follows from that of the table

    def piece(at):
        own, fixed = _cut(operands, constants, at)
        outer = (part(x, "bht-", at) for x in (upstream, along))
        gradients = _piece_gradient(*outer, own, fixed, at)
        return tuple(getattr(gradients, name) for name in present)

    layout = _layout(operands)
    results = [
        Result("bh-s", ops.shape(_swapped(x)), x)
        if name in TRANSPOSED
        else Result(layout[name], ops.shape(x), x)
        for name, x in present.items()
    ]
    found = dict(zip(present, assembled(piece, grid, results), strict=True))
    for name in TRANSPOSED & {*found}:
        found[name] = _swapped(found[name])
    if operands.scales_a_table:
        found["scale"], found["bias"] = _scale_gradient(found["bias"], operands)
    nothing = Operands(None, None, None, None)
    return _heads_first(nothing._replace(**found))


def _scale_gradient(of_product, operands):
    """Gradients by the scale and by the table, of that by their product."""
    bias, scale = operands.bias, operands.scale
    of_scale = ops.sum(of_product * bias, axis=(0, 2, 3), keepdims=True)
    return _summed_to(of_scale, scale), of_product * scale


# --- one piece ----------------------------------------------------------------


def _weights(own, fixed, at):
    """A piece's weights `(b, h, T, S)`, float32, and what multiplies values."""
    scores = None
    if own.queries is not None:
        scores = product(own.queries, _swapped(own.keys))
        scores = ops.cast(scores, "float32")
    if own.bias is not None:
        bias = ops.cast(_bias(own, at), "float32")
        scores = bias if scores is None else scores + bias
    pairs = both(fixed.pairs, _allowed(fixed.pattern, at))
    for mask in (pairs, fixed.keys):
        scores = scores if mask is None else forbid(scores, mask)
    weights = fixed.normalizer.weights(scores, fixed.seen)
    kept = weights if fixed.keep is None else weights * fixed.keep
    return weights, ops.cast(kept, own.values.dtype)


def _bias(own, at):
    columns = own.values.shape[2]
    if own.has_factors:
        first = _first_column(at)
        return Product(own.scale, own.bias, None).columns(first, columns)
    if own.scale is not None:
        return Product(own.scale, own.bias, columns).written_out()
    return own.bias


def _first_column(at):
    return at["s"][0] if "s" in at else 0


def _allowed(pattern, at):
    """What a pattern allows of a piece, `(1, 1, rows, columns)`, or `None`."""
    if not pattern.has_pattern:
        return None
    (row, rows), (column, columns) = at["t"], at["s"]
    return pattern.allows(
        ops.arange(rows) + row + pattern.start, ops.arange(columns) + column
    )[None, None]


def _piece_gradient(upstream, along, own, fixed, at):
    weights, kept = _weights(own, fixed, at)
    of_values = _transposed_product(kept, upstream)
    of_weights = ops.matmul(upstream, _swapped(own.values))
    of_weights = ops.cast(of_weights, "float32")
    if fixed.keep is not None:
        of_weights = of_weights * fixed.keep
    of_scores = fixed.normalizer.slopes(weights, of_weights, along, fixed.seen)
    of_queries = of_keys = of_bias = of_scale = None
    if own.queries is not None:
        slopes = ops.cast(of_scores, own.queries.dtype)
        of_queries = product(slopes, own.keys)
        of_keys = _transposed_product(slopes, own.queries)
        of_queries = _summed_to(of_queries, own.queries)
        of_keys = _summed_to(of_keys, own.keys, (0, 1))
    if own.has_factors:
        first = _first_column(at)
        of_scale, of_bias = _factor_gradients(of_scores, own, first)
    elif own.bias is not None:
        of_bias = ops.cast(_summed_to(of_scores, own.bias), own.bias.dtype)
    return Operands(of_queries, of_keys, of_bias, of_values, of_scale)


def _factor_gradients(of_bias, own, first):
    """Gradients by both factors of rows, of that by columns of the rows."""
    number, width = of_bias.shape[-1], own.bias.shape[-1]
    runs = covering(first, number, width)
    before = first - runs.start * width
    after = runs.stop * width - first - number
    of_bias = _with_columns(of_bias, before, after)
    shape = *ops.shape(of_bias)[:3], runs.stop - runs.start, width
    of_bias = ops.reshape(of_bias, shape)
    of_scale = ops.sum(of_bias * own.bias[..., None, :], axis=-1)
    of_tiled = ops.sum(of_bias * own.scale[..., runs, None], axis=-2)
    after = own.scale.shape[-1] - runs.stop
    of_scale = _with_columns(of_scale, runs.start, after)
    return tuple(
        ops.cast(_summed_to(x, factor), factor.dtype)
        for x, factor in ((of_scale, own.scale), (of_tiled, own.bias))
    )


def _with_columns(x, before, after):
    """Adds columns of zeros to `(b, h, t, n)`."""
    if not before and not after:
        return x
    return pad(x, [[0, 0]] * 3 + [[before, after]])


def _summed_to(x, like, among=(0, 1, 2, 3)):
    """Sums over the axes along which `like` was broadcast."""
    axes = [
        axis for axis in among if like.shape[axis] == 1 and x.shape[axis] != 1
    ]
    return ops.sum(x, axis=axes, keepdims=True) if axes else x


def _transposed_product(x, y):
    """`(x^T y)^T`, for an `x` so large that it is better not transposed."""
    return ops.matmul(_swapped(y), x)


def _swapped(x):
    return ops.transpose(x, (0, 1, 3, 2))


def _heads_first(operands):
    """Swaps lengths and heads of all but the bias; once more undoes it."""
    return operands._replace(
        queries=_swap_heads(operands.queries),
        keys=_swap_heads(operands.keys),
        values=_swap_heads(operands.values),
    )


def _swap_heads(x):
    return None if x is None else ops.transpose(x, (0, 2, 1, 3))


def _target_length(operands):
    has_queries = operands.queries is not None
    return ops.shape(operands.queries if has_queries else operands.bias)[2]


def _grid(operands, pattern):
    bias = operands.bias
    return grid_of(
        operands.values,
        _target_length(operands),
        pattern,
        # A table without queries is the exact way of the shared route, which
        # promises to hold the weights of one sample at most.
        fills=operands.queries is not None,
        sums_tables=bias is not None
        and bias.shape[0] == 1
        and bias.shape[2] != 1,
    )


def _layout(operands):
    """`LAYOUT`; columns of a factor are not those of the source."""
    return {**LAYOUT, "bias": "bht-"} if operands.has_factors else LAYOUT


def _cut(operands, constants, at):
    layout = _layout(operands)
    own = {
        name: part(x, layout[name], at)
        for name, x in operands._asdict().items()
    }
    keys, pairs, keep = (part(x, "bhts", at) for x in constants[:3])
    seen = part(constants.seen, "bht-", at)
    fixed = constants._replace(keys=keys, pairs=pairs, keep=keep, seen=seen)
    return Operands(**own), fixed

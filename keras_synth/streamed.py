"""Attention piece by piece: some samples, some heads at a time.

The weights of a piece fit into a core's cache. They are computed, used and
forgotten; the backward pass, written out here, computes them once more. So the
weights of the whole batch, B x H x T x S, never exist, and on CPUs the memory
that is not written and read costs less time than the products done twice.

The same idea as FlashAttention's, with pieces of whole rows (Dao et al., 2022,
https://arxiv.org/abs/2205.14135).
"""

import math
from typing import NamedTuple

from keras import ops

from keras_synth.backends import runs_at_once
from keras_synth.gradients import with_gradient
from keras_synth.loops import cut, put, repeat
from keras_synth.masks import both
from keras_synth.softmax import FORBIDDEN, softmax

# Entries of the weights of a piece: 2 MiB of float32.
PIECE_SIZE = 2**19


class Operands(NamedTuple):
    """What the context is differentiated by.

    Fields:
        queries: Tensor `(B or 1, T, H, k)` or `None`.
        keys: Tensor `(B or 1, S, H, k)`; `None` together with `queries`.
        bias: Tensor `(B or 1, H or 1, T or 1, S)` or `None`.
        values: Tensor `(B, S, H, v)`.
    """

    queries: object
    keys: object
    bias: object
    values: object


class Constants(NamedTuple):
    """What it is not differentiated by.

    Fields:
        keys: Boolean tensor `(B, 1, 1, S)`, the key padding, or `None`.
        pairs: Boolean tensor `(B or 1, H or 1, T, S)` or `None`.
        keep: Float32 tensor `(1, H, T, S)` that multiplies the weights after
            normalisation, or `None`.
    """

    keys: object = None
    pairs: object = None
    keep: object = None


def attend(operands, constants):
    """Returns `softmax(queries . keys + bias, masked) values`.

    Args:
        operands: `Operands`, padded keys and values being finite.
        constants: `Constants`.

    Returns:
        Tensor `(B, T, H, v)`. Rows where nothing is allowed hold an average:
        zeroing them, as `attend` does, zeroes their gradients too.
    """
    present = [name for name, x in operands._asdict().items() if x is not None]

    def given(tensors):
        return operands._replace(**dict(zip(present, tensors, strict=True)))

    def backward(upstream, output, *tensors):
        gradients = gradient(upstream, output, given(tensors), constants)
        return tuple(getattr(gradients, name) for name in present)

    streamed = with_gradient(
        lambda *tensors: context(given(tensors), constants), backward
    )
    return streamed(*(getattr(operands, name) for name in present))


def context(operands, constants):
    """Returns the context `(B, T, H, v)`; its gradient is not taken care of."""
    operands = _heads_first(operands)
    values = operands.values
    grid = _grid(operands)

    def piece(at):
        own, fixed = _cut(operands, constants, grid, at)
        _, kept = _weights(own, fixed)
        return (ops.matmul(kept, own.values),)

    shape = (
        *ops.shape(values)[:2],
        _target_length(operands),
        values.shape[-1],
    )
    (found,) = _assembled(piece, grid, [(shape, values.dtype)], values)
    return _swap_heads(found)


def gradient(upstream, output, operands, constants):
    """Returns `Operands` of gradients, `None` where there is no operand.

    Args:
        upstream: Tensor `(B, T, H, v)`, gradient by the context.
        output: Tensor `(B, T, H, v)`, the context.
        operands: `Operands`.
        constants: `Constants`.
    """
    # Of a row's weights times their gradients all that matters is the sum.
    along = ops.cast(upstream, "float32") * ops.cast(output, "float32")
    along = ops.sum(_swap_heads(along), axis=-1, keepdims=True)
    upstream = _swap_heads(upstream)
    operands = _heads_first(operands)
    grid = _grid(operands)
    present = [i for i, x in enumerate(operands) if x is not None]

    def piece(at):
        own, fixed = _cut(operands, constants, grid, at)
        outer = _part(upstream, grid, at), _part(along, grid, at)
        gradients = _piece_gradient(*outer, own, fixed)
        return tuple(gradients[i] for i in present)

    buffers = [(ops.shape(operands[i]), operands[i].dtype) for i in present]
    gradients = _assembled(piece, grid, buffers, operands.values)
    return _heads_first(
        Operands(
            *(
                gradients[present.index(i)] if i in present else None
                for i in range(len(operands))
            )
        )
    )


# --- one piece ----------------------------------------------------------------


def _weights(own, fixed):
    """A piece's weights `(b, h, T, S)`, float32, and what multiplies values."""
    scores = None
    if own.queries is not None:
        scores = ops.matmul(own.queries, _swapped(own.keys))
        scores = ops.cast(scores, "float32")
    if own.bias is not None:
        bias = ops.cast(own.bias, "float32")
        scores = bias if scores is None else scores + bias
    mask = both(fixed.keys, fixed.pairs)
    if mask is not None:
        scores = ops.where(mask, scores, FORBIDDEN)
    weights = softmax(scores)
    kept = weights if fixed.keep is None else weights * fixed.keep
    return weights, ops.cast(kept, own.values.dtype)


def _piece_gradient(upstream, along, own, fixed):
    weights, kept = _weights(own, fixed)
    of_values = _transposed_product(kept, upstream)
    of_weights = ops.matmul(upstream, _swapped(own.values))
    of_weights = ops.cast(of_weights, "float32")
    if fixed.keep is not None:
        of_weights = of_weights * fixed.keep
    of_scores = weights * (of_weights - along)
    of_queries = of_keys = of_bias = None
    if own.queries is not None:
        slopes = ops.cast(of_scores, own.queries.dtype)
        of_queries = ops.matmul(slopes, own.keys)
        of_keys = _transposed_product(slopes, own.queries)
        of_queries = _summed_to(of_queries, own.queries)
        of_keys = _summed_to(of_keys, own.keys)
    if own.bias is not None:
        of_bias = ops.cast(_summed_to(of_scores, own.bias), own.bias.dtype)
    return Operands(of_queries, of_keys, of_bias, of_values)


def _summed_to(x, like):
    """Sums over the axes along which `like` was broadcast."""
    axes = [
        axis
        for axis in range(len(x.shape))
        if like.shape[axis] == 1 and x.shape[axis] != 1
    ]
    return ops.sum(x, axis=axes, keepdims=True) if axes else x


def _transposed_product(x, y):
    """`x^T y`, for an `x` so large that it is better not transposed."""
    return _swapped(ops.matmul(_swapped(y), x))


def _swapped(x):
    return ops.transpose(x, (0, 1, 3, 2))


def _heads_first(operands):
    """Swaps lengths and heads of all but the bias; once more undoes it."""
    queries, keys, bias, values = operands
    return Operands(
        _swap_heads(queries), _swap_heads(keys), bias, _swap_heads(values)
    )


def _swap_heads(x):
    return None if x is None else ops.transpose(x, (0, 2, 1, 3))


# --- cutting and putting together ---------------------------------------------


class _Grid(NamedTuple):
    """Samples and heads of a piece, and the number of pieces along both."""

    size: tuple
    number: tuple


def _target_length(operands):
    has_queries = operands.queries is not None
    return ops.shape(operands.queries if has_queries else operands.bias)[2]


def _grid(operands):
    """The largest pieces up to `PIECE_SIZE`: samples if whole, or heads.

    A table without queries is the exact way of `once`, which promises to hold
    the weights of one sample at most.
    """
    batch, heads, source_length, _ = operands.values.shape
    lengths = _target_length(operands), source_length
    samples, group = 1, heads
    if all(isinstance(length, int) for length in lengths):
        room = max(1, PIECE_SIZE // math.prod(lengths))
        group = _divisor(heads, room)
        several = operands.queries is not None and isinstance(batch, int)
        if group == heads and several:
            samples = _divisor(batch, room // heads)
    number = ops.shape(operands.values)[0] // samples, heads // group
    return _Grid((samples, group), number)


def _divisor(number, most):
    """The largest divisor of `number` that is at most `most`, at least 1."""
    return max(i for i in range(1, number + 1) if number % i == 0 and i <= most)


def _cut(operands, constants, grid, at):
    own = (_part(x, grid, at) for x in operands)
    fixed = (_part(x, grid, at) for x in constants)
    return Operands(*own), Constants(*fixed)


def _part(x, grid, at):
    """Cuts piece `at` out of `x`; axes of length 1 serve all pieces."""
    if x is None:
        return None
    starts, sizes = _place(x, grid, at)
    if all(isinstance(start, int) for start in starts):
        i, j = (
            slice(starts[axis], starts[axis] + sizes[axis]) for axis in (0, 1)
        )
        return x[i, j]
    return cut(x, starts, sizes)


def _place(x, grid, at):
    """Starts and sizes of a piece; samples and heads are the first axes."""
    starts, sizes = [0] * len(x.shape), list(ops.shape(x))
    for axis in (0, 1):
        if x.shape[axis] != 1:
            starts[axis] = at[axis] * grid.size[axis]
            sizes[axis] = grid.size[axis]
    return starts, sizes


def _assembled(piece, grid, buffers, example):
    """Puts the results of all pieces in their places.

    Results along an axis where there is one place for all are added.

    Args:
        piece: Function from the position `(i, j)` of a piece to a tuple of
            tensors.
        grid: `_Grid`.
        buffers: List of shape and dtype of each result.
        example: Tensor that tells whether operations run at once.
    """
    if runs_at_once(example):
        return _joined(piece, grid, buffers)
    zeros = tuple(ops.zeros(shape, dtype) for shape, dtype in buffers)
    # A buffer that is read and written in one step would be copied. So what
    # is the same for all samples is added up apart, before it is written.
    apart = [x.shape[0] == 1 for x in zeros]

    def heads(j, totals):
        def samples(i, totals):
            return tuple(
                total + part if sums else _written(total, part, grid, (i, j))
                for total, part, sums in zip(
                    totals, piece((i, j)), apart, strict=True
                )
            )

        begun = tuple(
            ops.zeros_like(_part(x, grid, (0, j))) if sums else x
            for x, sums in zip(totals, apart, strict=True)
        )
        ended = repeat(grid.number[0], samples, begun)
        return tuple(
            _written(total, x, grid, (0, j)) if sums else x
            for total, x, sums in zip(totals, ended, apart, strict=True)
        )

    return repeat(grid.number[1], heads, zeros)


def _written(buffer, part, grid, at):
    """`buffer` with a piece in its place, added if heads share the place."""
    starts, sizes = _place(buffer, grid, at)
    if buffer.shape[1] == 1 and grid.number[1] != 1:
        part = part + cut(buffer, starts, sizes)
    return put(buffer, starts, part)


def _joined(piece, grid, buffers):
    """As `_assembled`, in a Python loop and without writing in place."""
    shapes = [shape for shape, _ in buffers]
    columns = []
    for j in range(grid.number[1]):
        rows = [piece((i, j)) for i in range(grid.number[0])]
        columns.append(_join(rows, shapes, axis=0))
    return _join(columns, shapes, axis=1)


def _join(pieces, shapes, axis):
    """Puts results side by side, or adds them where one place serves all."""
    if len(pieces) == 1:
        return pieces[0]
    return [
        sum(parts[1:], parts[0])
        if shape[axis] == 1
        else ops.concatenate(parts, axis=axis)
        for parts, shape in zip(zip(*pieces, strict=True), shapes, strict=True)
    ]

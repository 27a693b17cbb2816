"""Streamed attention on PyTorch's CPUs: pieces written into tensors at hand.

The same as in `pieces`, where operations run one by one. There each new tensor
is asked of the system, and its fresh pages cost more than the product that
fills them (1024 x 64 by 64 x 1024 on one core: 3.1 ms, into a tensor at hand
1.5 ms). So all pieces of a thread share two tensors, one for scores and then
gradients, one for weights; products add to what is there; and what is so cheap
by piece can be cut small enough for the cache of one core. Threads take heads.

Derivatives of derivatives need what would be written over: where PyTorch
records operations, `pieces` does the work.
"""

import math
import sys

from keras_synth import backends
from keras_synth.routes import threads
from keras_synth.softmax import FORBIDDEN

# Entries of the weights of a piece: 2 MiB.
PIECE_SIZE = 2**19
# Entries of one head's weights from which threads take heads. Below, Python,
# which only one thread can run at a time, takes longer than the products, of
# which the gradient has five and the context two.
SHARED_CONTEXT = 2**18
SHARED_GRADIENT = 2**16


def serves(operands, constants):
    """Whether this module can compute pieces of these operands.

    Args:
        operands: `pieces.Operands`.
        constants: `pieces.Constants`.
    """
    if not backends.may_overwrite(operands.values):
        return False
    float32 = sys.modules["torch"].float32
    alike = all(x is None or x.dtype == float32 for x in operands)
    return (
        alike and not constants.pattern.has_pattern and constants.keep is None
    )


def context(operands, constants):
    """As `pieces.context`."""
    work = _Work(operands, constants)
    values, found = work.values, work.like(work.values, work.target_length)

    def of_heads(groups):
        piece = _Piece(work)
        for heads, rows in work.places(groups):
            for b in range(values.shape[0]):
                weights = piece.weights(b, heads, rows)
                found[b, heads, rows] = work.torch.bmm(
                    weights, values[b, heads]
                )

    work.share(of_heads, SHARED_CONTEXT)
    return found.transpose(1, 2)


def gradient(upstream, output, operands, constants):
    """As `pieces.gradient`, a tuple in the order of the operands."""
    work = _Work(operands, constants)
    upstream, output = upstream.transpose(1, 2), output.transpose(1, 2)
    by_values = _ByColumns(work, work.values)
    by_pairs = None if work.queries is None else _ByPairs(work)
    by_bias = _by_bias(work)
    parts = [part for part in (by_pairs, by_bias) if part is not None]

    def of_heads(groups):
        piece = _Piece(work)
        for heads, rows in work.places(groups):
            for b in range(work.values.shape[0]):
                own = upstream[b, heads, rows]
                along = (own * output[b, heads, rows]).sum(-1, keepdim=True)
                weights = piece.weights(b, heads, rows)
                by_values.add(b, heads, own, weights)
                slopes = piece.scores  # by the logits; the scores are done with
                work.torch.bmm(
                    own, work.values[b, heads].transpose(1, 2), out=slopes
                )
                slopes.sub_(along).mul_(weights)
                for part in parts:
                    part.add(b, heads, rows, slopes)
            if rows.stop == work.target_length:
                by_values.put(heads)
                if by_pairs is not None:
                    by_pairs.keys.put(heads)

    # A gradient that is a sum over heads cannot be added to by two threads.
    alone = by_bias is not None and by_bias.is_of_all_heads
    work.share(of_heads, math.inf if alone else SHARED_GRADIENT)
    of_queries, of_keys = (None, None) if by_pairs is None else by_pairs.found()
    of_bias, of_scale = (None, None) if by_bias is None else by_bias.found()
    return of_queries, of_keys, of_bias, by_values.found(), of_scale


class _ByColumns:
    """Gradient by keys or values: sums over the rows of all pieces."""

    def __init__(self, work, x):
        self.x, self.total = x, work.like(x, x.shape[2])
        # Of each group of heads at work, by its first: a list of (h, k, S).
        self.sums = {}

    def add(self, b, heads, rows, matrix):
        """Adds `rows^T matrix`, of `(h, t, k)` and `(h, t, S)`."""
        if heads.start not in self.sums:
            batch, _, length, width = self.x.shape
            shape = batch, rows.shape[0], width, length
            self.sums[heads.start] = list(self.x.new_zeros(shape))
        sums = self.sums[heads.start]
        own = sums[min(b, len(sums) - 1)]
        own.baddbmm_(rows.transpose(1, 2), matrix)

    def put(self, heads):
        """Writes the sums of a group of heads, all of whose rows are in."""
        _put_transposed(self.total, self.sums.pop(heads.start), heads)

    def found(self):
        return self.total.transpose(1, 2)


class _ByPairs:
    """Gradients by queries and keys."""

    def __init__(self, work):
        self.work = work
        self.keys = _ByColumns(work, work.keys)
        self.queries = work.like(work.queries, work.queries.shape[2])
        self.are_shared = self.queries.shape[0] == 1  # by all samples
        if self.are_shared:
            self.queries.zero_()

    def add(self, b, heads, rows, slopes):
        queries, keys = self.work.queries, self.work.keys
        step = self.work.torch.bmm(slopes, keys[min(b, len(keys) - 1), heads])
        if self.are_shared:
            self.queries[0, heads, rows] += step
        else:
            self.queries[b, heads, rows] = step
        own = queries[min(b, len(queries) - 1), heads, rows]
        self.keys.add(b, heads, own, slopes)

    def found(self):
        return self.queries.transpose(1, 2), self.keys.found()


def _by_bias(work):
    """What sums the gradients by a bias and its scale; `None` without one."""
    if work.bias is None:
        return None
    if work.factors:
        return _ByFactors(work)
    return (_ByTable if work.is_table else _ByBias)(work)


class _ByBias:
    """Gradients by a bias and, if it has one, its scale."""

    def __init__(self, work):
        self.work = work
        self.total = work.bias.new_zeros(work.bias.shape)
        self.is_of_all_heads = work.bias.shape[1] == 1

    def add(self, b, heads, rows, slopes):
        _add_to(self.total, slopes, b, heads, rows)

    def found(self):
        if self.work.scale is None:
            return self.total, None
        # Turns the total into the gradient by the bias.
        of_scale = _of_scale(self.total, self.work)
        return self.total, of_scale


class _ByTable:
    """Gradients by one table of all samples and, if it has one, its scale.

    A part is done with the last sample, while it is in the cache.
    """

    is_of_all_heads = False

    def __init__(self, work):
        self.work = work
        self.total = work.bias.new_empty(work.bias.shape)
        self.of_scale = work.bias.new_zeros((1, work.bias.shape[1], 1, 1))

    def add(self, b, heads, rows, slopes):
        total = self.total[0, heads, rows]
        if b == 0:
            total.copy_(slopes)
        else:
            total += slopes
        work = self.work
        if work.scale is None or b < work.values.shape[0] - 1:
            return
        # So far the gradient by the product of table and scale.
        for h, own in enumerate(total, heads.start):
            table = work.bias[0, h, rows]
            self.of_scale[0, h] += work.torch.dot(own.view(-1), table.view(-1))
        total.mul_(_part(work.scale, 0, heads, rows))

    def found(self):
        scale = self.work.scale
        if scale is None or scale.shape[1] != 1:
            return self.total, None if scale is None else self.of_scale
        return self.total, self.of_scale.sum(1, keepdim=True)


class _ByFactors:
    """Gradients by both factors of rows that are products."""

    def __init__(self, work):
        self.work = work
        self.of_first = work.scale.new_zeros(work.scale.shape)
        self.of_second = work.bias.new_zeros(work.bias.shape)
        self.is_of_all_heads = 1 in (work.scale.shape[1], work.bias.shape[1])

    def add(self, b, heads, rows, slopes):
        work = self.work
        first, second = (
            _part(x, b, heads, rows) for x in (work.scale, work.bias)
        )
        missing = first.shape[-1] * second.shape[-1] - slopes.shape[-1]
        if missing:
            slopes = work.torch.nn.functional.pad(slopes, (0, missing))
        shape = first.shape[-1], second.shape[-1]
        slopes = slopes.unflatten(-1, shape)  # (h, t, a, b)
        of_rows = (slopes * second[..., None, :]).sum(-1)
        _add_to(self.of_first, of_rows, b, heads, rows)
        of_rows = (slopes * first[..., None]).sum(-2)
        _add_to(self.of_second, of_rows, b, heads, rows)

    def found(self):
        return self.of_second, self.of_first


class _Work:
    """Operands with heads first, and how they are cut."""

    def __init__(self, operands, constants):
        self.torch = sys.modules["torch"]
        self.queries, self.keys, self.values = (
            None if x is None else x.transpose(1, 2)
            for x in (operands.queries, operands.keys, operands.values)
        )
        self.bias, self.scale = operands.bias, operands.scale
        self.factors = operands.has_factors
        self.masks = constants.pairs, constants.keys
        self.target_length = (
            self.bias if self.queries is None else self.queries
        ).shape[2]
        self.source_length = self.values.shape[2]
        self.number_of_heads = self.values.shape[1]
        shape = (1, self.number_of_heads, self.target_length)
        self.is_table = (
            self.bias is not None
            and not self.factors
            and tuple(self.bias.shape[:3]) == shape
        )
        rows = min(self.target_length, max(1, PIECE_SIZE // self.source_length))
        # Of about the same size.
        self.rows = -(-self.target_length // -(-self.target_length // rows))

    def like(self, x, length):
        """A tensor `(b, H, length, k)`, in the memory order of projections."""
        batch, heads, _, width = x.shape
        return x.new_empty((batch, length, heads, width)).transpose(1, 2)

    def share(self, of_heads, least):
        """Shares groups of heads out among threads.

        Args:
            of_heads: Function of an iterable of slices of heads.
            least: Number of a head's weights below which this thread does
                all by itself.
        """
        pairs = self.target_length * self.source_length
        alone = pairs < least
        count = self.number_of_heads
        most = count if alone else -(-count // self.torch.get_num_threads())
        size = 1
        if self.rows == self.target_length:
            size = max(1, min(PIECE_SIZE // pairs, most))
        groups = [slice(h, min(h + size, count)) for h in range(0, count, size)]
        if alone:
            of_heads(groups)
        else:
            threads.share(groups, of_heads)

    def places(self, groups):
        """Yields pairs of slices: heads and rows."""
        length = self.target_length
        for heads in groups:
            for t in range(0, length, self.rows):
                yield heads, slice(t, min(t + self.rows, length))


class _Piece:
    """Weights of one piece after the other, in two tensors of a thread."""

    def __init__(self, work):
        self.work, self.torch = work, work.torch
        self.scores = None
        self._held = {}
        self._least = work.values.new_tensor(FORBIDDEN)

    def weights(self, b, heads, rows):
        """Weights `(h, t, S)` of a piece; `self.scores` may be overwritten."""
        work = self.work
        shape = (
            heads.stop - heads.start,
            rows.stop - rows.start,
            work.source_length,
        )
        self.scores = scores = self._tensor("scores", shape)
        added = self._bias(b, heads, rows, scores)
        if work.queries is not None:
            q = work.queries[min(b, len(work.queries) - 1), heads, rows]
            k = work.keys[min(b, len(work.keys) - 1), heads].transpose(1, 2)
            if added:
                scores.baddbmm_(q, k)
            else:
                self.torch.bmm(q, k, out=scores)
        for mask in work.masks:
            if mask is not None:
                self._forbid(scores, _part(mask, b, heads, rows))
        return self.torch.softmax(
            scores, -1, out=self._tensor("weights", shape)
        )

    def _bias(self, b, heads, rows, scores):
        """Writes the bias; returns whether there is one."""
        work = self.work
        if work.bias is None:
            return False
        bias = _part(work.bias, b, heads, rows)
        if work.scale is None:
            scores.copy_(bias)
            return True
        scale = _part(work.scale, b, heads, rows)
        if not work.factors:
            self.torch.mul(bias.expand(scores.shape), scale, out=scores)
            return True
        columns = scale[..., None] * bias[..., None, :]
        scores.copy_(columns.flatten(-2)[..., : work.source_length])
        return True

    def _forbid(self, scores, mask):
        if mask.shape[-2] != 1:
            self.torch.where(mask, scores, self._least, out=scores)
        else:
            # It selects by a broadcast mask in ten times as long.
            least = self.torch.where(mask, -self._least, self._least)
            self.torch.minimum(scores, least, out=scores)

    def _tensor(self, name, shape):
        size, held = math.prod(shape), self._held.get(name)
        if held is None or held.numel() < size:
            held = self._held[name] = self._least.new_empty(size)
        return held[:size].view(shape)


def _part(x, b, heads, rows):
    """Cuts a sample's piece out of `(B or 1, H or 1, T or 1, .)`."""
    x = x[min(b, x.shape[0] - 1)]
    x = x if x.shape[0] == 1 else x[heads]
    return x if x.shape[1] == 1 else x[:, rows]


def _add_to(total, x, b, heads, rows):
    """Adds a piece to its part of a gradient, summed where that is one."""
    own = _part(total, b, heads, rows)
    axes = [a for a in (0, 1) if own.shape[a] == 1 and x.shape[a] != 1]
    own += x.sum(axes, keepdim=True) if axes else x


def _put_transposed(total, sums, heads):
    """Puts sums, lists of `(h, k, S)`, among gradients `(b, H, S, k)`.

    PyTorch transposes a matrix block by block, one of more axes, or into rows
    that are apart, in five times as long.
    """
    for own, found in zip(total[:, heads], sums, strict=True):
        for to, matrix in zip(own, found, strict=True):
            to.copy_(matrix.t().contiguous())


def _of_scale(of_product, work):
    """Gradient by a table's scale; turns that by their product in place."""
    bias, scale = work.bias, work.scale
    # Head by head: no product of two tables is held.
    own = [
        work.torch.dot(x.reshape(-1), y.reshape(-1))
        for x, y in zip(of_product[0], bias[0], strict=True)
    ]
    own = work.torch.stack(own).view(1, -1, 1, 1)
    of_product.mul_(scale)
    return own if scale.shape[1] != 1 else own.sum(1, keepdim=True)

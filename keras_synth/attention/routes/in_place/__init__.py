"""Streamed attention on PyTorch's CPUs: pieces written into tensors at hand.

The same as in `pieces`, where operations run one by one. There each new tensor
is asked of the system, and its fresh pages cost more than the product that
fills them (1024 x 64 by 64 x 1024 on one core: 3.1 ms, into a tensor at hand
1.5 ms). So all pieces of a thread share two tensors, one for scores and then
gradients, one for weights; products add to what is there; and what is so cheap
by piece can be cut small enough for the cache of one core. Threads take heads.

Derivatives of derivatives need what would be written over: where PyTorch
records operations, `pieces` does the work. This is one of its `shortcuts`.
"""

import math
import sys
from typing import NamedTuple

from keras_synth._backend import execution
from keras_synth.attention.logits import Product
from keras_synth.attention.normalizers import SOFTMAX
from keras_synth.attention.routes import grid
from keras_synth.attention.routes.in_place import sums, threads
from keras_synth.attention.routes.in_place.sums import part
from keras_synth.attention.softmax import FORBIDDEN

# Entries of the weights of a piece: 2 MiB.
PIECE_SIZE = 2**19
# Entries of the weights of one head, and of the whole batch, from which threads
# take heads; the gradient has five products, the context two. Below the first,
# Python, which only one thread can run at a time, takes longer than they do.
# Below the second, what is saved is less than what PyTorch's own threads waste,
# which wait for work some milliseconds long without leaving their cores.
SHARED_CONTEXT = 2**18, 2**24
SHARED_GRADIENT = 2**16, 2**23


def serves(operands, constants):
    """Whether this module can compute pieces of these operands.

    Args:
        operands: `pieces.Operands`.
        constants: `pieces.Constants`.
    """
    if not execution.may_overwrite(operands.values):
        return False
    float32 = sys.modules["torch"].float32
    alike = all(x is None or x.dtype == float32 for x in operands)
    softmax = constants.normalizer == SOFTMAX
    return alike and softmax and constants.keep is None


def context(operands, constants):
    """As `pieces.context`."""
    work = _Work(operands, constants)
    values, found = work.values, work.like(work.values, work.target_length)

    def of_heads(groups):
        piece = _Piece(work)
        for place in work.places(groups):
            heads, rows, columns = place
            for b in range(values.shape[0]):
                weights = piece.weights(b, place)
                found[b, heads, rows] = work.torch.bmm(
                    weights, values[b, heads, columns]
                )

    work.share(of_heads, work.is_at_least(*SHARED_CONTEXT))
    return found.transpose(1, 2)


def gradient(upstream, output, operands, constants):
    """As `pieces.gradient`, a tuple in the order of the operands."""
    work = _Work(operands, constants)
    upstream, output = upstream.transpose(1, 2), output.transpose(1, 2)
    by_values = sums.ByColumns(work, work.values)
    by_pairs = None if work.queries is None else sums.ByPairs(work)
    by_bias = sums.by_bias(work)
    parts = [x for x in (by_pairs, by_bias) if x is not None]

    def of_heads(groups):
        piece = _Piece(work)
        for place in work.places(groups):
            heads, rows, columns = place
            for b in range(work.values.shape[0]):
                own = upstream[b, heads, rows]
                along = (own * output[b, heads, rows]).sum(-1, keepdim=True)
                weights = piece.weights(b, place)
                by_values.add(b, place, own, weights)
                slopes = piece.scores  # by the logits; the scores are done with
                values = work.values[b, heads, columns]
                work.torch.bmm(own, values.transpose(1, 2), out=slopes)
                slopes.sub_(along).mul_(weights)
                for each in parts:
                    each.add(b, place, slopes)
            if rows.stop == work.target_length:
                by_values.put(heads)
                if by_pairs is not None:
                    by_pairs.keys.put(heads)

    # A gradient that is a sum over heads cannot be added to by two threads.
    sums_heads = by_bias is not None and by_bias.is_of_all_heads
    many = work.is_at_least(*SHARED_GRADIENT)
    work.share(of_heads, among_threads=many and not sums_heads)
    of_queries, of_keys = (None, None) if by_pairs is None else by_pairs.found()
    of_bias, of_scale = (None, None) if by_bias is None else by_bias.found()
    return of_queries, of_keys, of_bias, by_values.found(), of_scale


class Place(NamedTuple):
    """Slices of heads, rows and columns."""

    heads: slice
    rows: slice
    columns: slice


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
        self.pattern = constants.pattern
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
        self.bands = self._bands()

    def _bands(self):
        """Slices of rows, and of the columns that they visit."""
        length, pattern = self.target_length, self.pattern
        sizes = length, self.source_length
        if pattern.has_pattern:
            most = grid.rows_of_pattern(*sizes, pattern, PIECE_SIZE)
        else:
            most = min(length, max(1, PIECE_SIZE // self.source_length))
        size = -(-length // -(-length // most))  # of about the same size
        bands = [
            slice(t, min(t + size, length)) for t in range(0, length, size)
        ]
        return [(rows, self._columns(rows)) for rows in bands]

    def _columns(self, rows):
        """The columns that a pattern allows any of some rows, at least one."""
        pattern, first, stop = self.pattern, 0, self.source_length
        if pattern.causal:
            stop = min(stop, pattern.start + rows.stop)
        if pattern.window is not None:
            first = max(0, pattern.start + rows.start - pattern.window + 1)
            if not pattern.causal:
                last = pattern.start + rows.stop - 1
                stop = min(stop, last + pattern.window)
        stop = max(1, stop)
        return slice(min(first, stop - 1), stop)

    def like(self, x, length):
        """A tensor `(b, H, length, k)`, in the memory order of projections."""
        batch, heads, _, width = x.shape
        return x.new_empty((batch, length, heads, width)).transpose(1, 2)

    def is_at_least(self, of_head, of_batch):
        """Whether there are that many weights, of a head and of the batch."""
        size = self.target_length * self.source_length
        batch, heads = self.values.shape[:2]
        return size >= of_head and batch * heads * size >= of_batch

    def share(self, of_heads, among_threads):
        """Cuts the heads into groups, whose pieces fit.

        Args:
            of_heads: Function of an iterable of slices of heads.
            among_threads: Whether threads share them out; or else this one
                does all by itself.
        """
        count = self.number_of_heads
        workers = self.torch.get_num_threads() if among_threads else 1
        most = -(-count // workers)
        largest = max(_size(x) * _size(y) for x, y in self.bands)
        size = max(1, min(PIECE_SIZE // largest, most))
        groups = [slice(h, min(h + size, count)) for h in range(0, count, size)]
        if among_threads:
            threads.share(groups, of_heads)
        else:
            of_heads(groups)

    def places(self, groups):
        """Yields the `Place`s of groups of heads."""
        for heads in groups:
            for rows, columns in self.bands:
                yield Place(heads, rows, columns)


class _Piece:
    """Weights of one piece after the other, in two tensors of a thread."""

    def __init__(self, work):
        self.work, self.torch = work, work.torch
        self.scores = None
        self._held = {}
        self._forbidden = {}  # by a pattern, for each place among the columns
        self._least = work.values.new_tensor(FORBIDDEN)

    def weights(self, b, place):
        """Weights `(h, t, s)` of a piece; `self.scores` may be overwritten."""
        work, (heads, rows, columns) = self.work, place
        shape = tuple(map(_size, place))
        self.scores = scores = self._tensor("scores", shape)
        added = self._bias(b, place, scores)
        if work.queries is not None:
            q = work.queries[min(b, len(work.queries) - 1), heads, rows]
            k = work.keys[min(b, len(work.keys) - 1), heads, columns]
            if added:
                scores.baddbmm_(q, k.transpose(1, 2))
            else:
                self.torch.bmm(q, k.transpose(1, 2), out=scores)
        for mask in work.masks:
            if mask is not None:
                self._forbid(scores, part(mask, b, place))
        if work.pattern.has_pattern:
            self._forbid_pattern(scores, place)
        return self.torch.softmax(
            scores, -1, out=self._tensor("weights", shape)
        )

    def _bias(self, b, place, scores):
        """Writes the bias; returns whether there is one."""
        work = self.work
        if work.bias is None:
            return False
        if work.factors:
            first, second = (
                part(x, b, place, all_columns=True)
                for x in (work.scale, work.bias)
            )
            columns = place.columns.start, _size(place.columns)
            scores.copy_(Product(first, second, None).columns(*columns))
            return True
        bias = part(work.bias, b, place)
        if work.scale is None:
            scores.copy_(bias)
        else:
            scale = part(work.scale, b, place, all_columns=True)
            self.torch.mul(bias.expand(scores.shape), scale, out=scores)
        return True

    def _forbid(self, scores, mask):
        if mask.shape[-2] != 1:
            self.torch.where(mask, scores, self._least, out=scores)
        else:
            # It selects by a broadcast mask in ten times as long.
            least = self.torch.where(mask, -self._least, self._least)
            self.torch.minimum(scores, least, out=scores)

    def _forbid_pattern(self, scores, place):
        _, rows, columns = place
        pattern = self.work.pattern
        row, first = pattern.start + rows.start, columns.start
        if pattern.window is None:  # all columns up to the first row are seen
            first = min(max(first, row), columns.stop)
        own = row - first, row - first + _size(rows), columns.stop - first
        if own not in self._forbidden:
            *ends, width = own
            positions = (
                self.torch.arange(*x, device=scores.device)
                for x in (ends, (width,))
            )
            self._forbidden[own] = ~pattern.allows(*positions)[None]
        scores[..., first - columns.start :].masked_fill_(
            self._forbidden[own], FORBIDDEN
        )

    def _tensor(self, name, shape):
        size, held = math.prod(shape), self._held.get(name)
        if held is None or held.numel() < size:
            held = self._held[name] = self._least.new_empty(size)
        return held[:size].view(shape)


def _size(part):
    return part.stop - part.start

"""Blocks of queries, and the keys for each block.

Queries `(B, H, T, f)` become G groups of r rows, each with c columns: logits
are `(B, H, G, r, c)`. Entries beyond the ends are zero, or False in a mask.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from keras import ops

from keras_synth._backend.tensors import indices, pad_axis, take


class QueryBlocks:
    """Blocks of queries in each residue class of positions.

    A class has the positions that are equal modulo `residues`.

    Args:
        length: Integer or scalar tensor, `T`.
        residues: Integer, number of classes.
        block: Integer, queries in a block, at most and by default the whole
            class.
    """

    def __init__(self, length, residues=1, block=None):
        size = -(-length // residues)
        if block is None or (isinstance(size, int) and size < block):
            block = ops.maximum(size, 1) if ops.is_tensor(size) else size
        self.length, self.residues, self.block = length, residues, block
        self.blocks = -(-size // block)

    def same_as(self, other):
        """Whether its groups equal those of another grid."""
        own, others = self.block, other.block
        known = isinstance(own, int) and isinstance(others, int)
        return self.residues == other.residues and (
            own == others if known else own is others
        )

    @property
    def groups(self):
        """The number of groups, `G`."""
        return self.residues * self.blocks

    def rows(self, x):
        """`(B, H, T, f) -> (B, H, G, r, f)`."""
        return _merged(self.split(x))

    def split(self, x):
        """`(B, H, T, f) -> (B, H, residues, blocks, block, f)`."""
        batch, heads, length, features = ops.shape(x)
        x = pad_axis(x, 2, 0, self.groups * self.block - length)
        shape = self.blocks, self.block, self.residues
        if self.residues == 1:
            shape = 1, self.blocks, self.block
        x = ops.reshape(x, (batch, heads, *shape, features))
        order = (0, 1, 4, 2, 3, 5)
        return x if self.residues == 1 else ops.transpose(x, order)

    def restored(self, x):
        """`(B, H, G, r, f) -> (B, H, T, f)`, the inverse of `rows`."""
        batch, heads, _, block, features = ops.shape(x)
        if self.residues != 1:
            shape = self.residues, self.blocks, block
            x = ops.reshape(x, (batch, heads, *shape, features))
            x = ops.transpose(x, (0, 1, 3, 4, 2, 5))
        x = ops.reshape(x, (batch, heads, -1, features))
        return x[:, :, : self.length]

    def positions(self, relative=False):
        """Positions of rows, integers `(G, r)`.

        If `relative`, only differences matter, and the result is that of the
        first group, `(1, r)`.
        """
        return self.firsts(relative) + self.steps(self.block, relative)

    def firsts(self, relative):
        """Positions of the first row of each group, `(G, 1)`."""
        if relative:
            return np.zeros((1, 1), "int32")
        first = indices(self.blocks) * (self.block * self.residues)
        first = indices(self.residues)[:, None] + first
        return ops.reshape(first, (-1, 1))

    def steps(self, number, relative):
        """The distances of a number of rows from a group's first row."""
        # Small constants for a known length.
        if relative and isinstance(number, int):
            return np.arange(number, dtype="int32")[None] * self.residues
        return indices(number)[None] * self.residues


class Neighbours(NamedTuple):
    """The keys of a block, and a number of keys before and after it."""

    before: int = 0
    after: int = 0

    def take(self, grid, x):
        """The columns of groups, `(B, H, T, f) -> (B, H, G or 1, c, f)`."""
        x = grid.split(x)
        before, after = self._around(grid)
        blocks, block, found = grid.blocks, grid.block, [x]
        for away, taken in _taken(before, block):
            part = pad_axis(x[:, :, :, :, block - taken :], 3, away, 0)
            found.insert(0, part[:, :, :, :blocks])
        for away, taken in _taken(after, block):
            part = pad_axis(x[:, :, :, :, :taken], 3, 0, away)
            found.append(part[:, :, :, away:])
        x = found[0] if len(found) == 1 else ops.concatenate(found, axis=4)
        return _merged(x)

    def number(self, grid):
        """The number of columns, `c`."""
        return grid.block + sum(self._around(grid))

    def positions(self, grid, relative=False):
        """Positions of columns, integers `(G or 1, c)`."""
        before, _ = self._around(grid)
        steps = grid.steps(self.number(grid), relative)
        return grid.firsts(relative) + steps - before * grid.residues

    def _around(self, grid):
        alone = isinstance(grid.blocks, int) and grid.blocks == 1
        return (0, 0) if alone else self


class Listed(NamedTuple):
    """Keys by position, the same for all rows of a group; see `Neighbours`.

    Fields:
        most: Integer, number of columns.
        of_rows: Function of positions of rows `(G,)`. Returns those of columns,
            integers `(G, most)` or `(most,)`. Columns beyond the ends are not
            visible.
    """

    most: int
    of_rows: Callable

    def take(self, grid, x):
        places = ops.clip(self.positions(grid), 0, grid.length - 1)
        may_be_empty = ops.is_tensor(grid.length)
        return take(pad_axis(x, 2, 0, int(may_be_empty)), places, 2)

    def number(self, grid):
        return self.most

    def positions(self, grid, relative=False):
        places = self.of_rows(grid.firsts(False)[:, 0])
        return ops.reshape(places, (-1, self.most))


def _merged(x):
    """`(B, H, classes, blocks, n, f) -> (B, H, classes * blocks, n, f)`."""
    batch, heads, classes, blocks, size, features = ops.shape(x)
    return ops.reshape(x, (batch, heads, classes * blocks, size, features))


def _taken(number, block):
    """The distance of a block, and the number of its positions to take."""
    if not number:
        return
    for away in range(1, -(-number // block) + 1):
        yield away, min(block, number - (away - 1) * block)

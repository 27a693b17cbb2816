"""Blocks of queries, and the keys that each is compared with.

`QueryBlocks` cut queries `(B, H, T, f)` into G groups of r rows, and columns
are chosen for each group: logits are `(B, H, G, r, c)`. Entries beyond the ends
are zero, in a mask False.
"""

from typing import NamedTuple

import numpy as np
from keras import ops

from keras_synth._backend.tensors import from_array, pad


class QueryBlocks:
    """Blocks of queries.

    Of each residue class of positions: all that are equal modulo `residues`.

    Args:
        length: Integer or scalar tensor, `T`.
        residues: Integer, how many classes.
        block: Integer, queries in a block; a whole class by default.
        exact: Whether a block has this size however short a class is.
    """

    def __init__(self, length, residues=1, block=None, exact=False):
        size = -(-length // residues)
        short = isinstance(size, int) and size <= (block or size)
        if block is None or (short and not exact):
            block = size
        self.length, self.residues, self.block = length, residues, block
        self.blocks = -(-size // block)

    def same_as(self, other):
        """Whether it makes the groups of another grid."""
        own, others = self.block, other.block
        known = isinstance(own, int) and isinstance(others, int)
        return self.residues == other.residues and (
            own == others if known else own is others
        )

    def rows(self, x):
        """`(B, H, T, f) -> (B, H, G, r, f)`."""
        return _merged(self.split(x))

    def split(self, x):
        """`(B, H, T, f) -> (B, H, residues, blocks, block, f)`."""
        batch, heads, length, features = ops.shape(x)
        classes, blocks, block = self.residues, self.blocks, self.block
        x = _padded(x, 2, 0, classes * blocks * block - length)
        if classes == 1:
            return ops.reshape(x, (batch, heads, 1, blocks, block, features))
        x = ops.reshape(x, (batch, heads, blocks, block, classes, features))
        return ops.transpose(x, (0, 1, 4, 2, 3, 5))

    def restored(self, x):
        """`(B, H, G, r, f) -> (B, H, T, f)`, the inverse of `rows`."""
        batch, heads, _, block, features = ops.shape(x)
        classes, blocks = self.residues, self.blocks
        if classes != 1:
            shape = batch, heads, classes, blocks, block, features
            x = ops.transpose(ops.reshape(x, shape), (0, 1, 3, 4, 2, 5))
        x = ops.reshape(x, (batch, heads, -1, features))
        return x[:, :, : self.length]

    def positions(self, relative=False):
        """Positions of rows, integers `(G, r)`.

        Args:
            relative: Whether only differences matter: then those of the first
                group, `(1, r)`.
        """
        return self.firsts(relative) + self.steps(self.block, relative)

    def firsts(self, relative):
        """Positions of the first row of each group, `(G, 1)`."""
        if relative:
            return np.zeros((1, 1), "int32")
        first = ops.arange(self.blocks, dtype="int32") * (
            self.block * self.residues
        )
        first = ops.arange(self.residues, dtype="int32")[:, None] + first
        return ops.reshape(first, (-1, 1))

    def steps(self, number, relative):
        """What so many rows of a group add to the position of the first."""
        # Small constants where a length is known.
        known = relative and isinstance(number, int)
        arange = np.arange if known else ops.arange
        return arange(number, dtype="int32")[None] * self.residues


class Neighbours(NamedTuple):
    """The keys of a block, and so many before and after it."""

    before: int = 0
    after: int = 0

    def take(self, grid, x):
        """Returns the columns of each group.

        Args:
            grid: `QueryBlocks`.
            x: Tensor `(B, H, T, f)`.

        Returns:
            Tensor `(B, H, G or 1, c, f)`.
        """
        x = grid.split(x)
        before, after = self._around(grid)
        blocks, block, found = grid.blocks, grid.block, [x]
        for away, taken in _taken(before, block):
            part = _padded(x[:, :, :, :, block - taken :], 3, away, 0)
            found.insert(0, part[:, :, :, :blocks])
        for away, taken in _taken(after, block):
            part = _padded(x[:, :, :, :, :taken], 3, 0, away)
            found.append(part[:, :, :, away:])
        x = found[0] if len(found) == 1 else ops.concatenate(found, axis=4)
        return _merged(x)

    def positions(self, grid, relative=False):
        """Positions of columns, integers `(G or 1, c)`."""
        before, after = self._around(grid)
        steps = grid.steps(before + grid.block + after, relative)
        return grid.firsts(relative) + steps - before * grid.residues

    def _around(self, grid):
        alone = isinstance(grid.blocks, int) and grid.blocks == 1
        return (0, 0) if alone else self


class First(NamedTuple):
    """The first keys, for all groups."""

    number: int

    def take(self, grid, x):
        """As `Neighbours.take`."""
        return x[:, :, None, : self.number]

    def positions(self, grid, relative=False):
        """As `Neighbours.positions`."""
        least = min if isinstance(grid.length, int) else ops.minimum
        number = least(self.number, grid.length)
        return ops.arange(number, dtype="int32")[None]


class Drawn(NamedTuple):
    """Blocks of keys from a table.

    Fields:
        table: Integer array `(max, n)`, blocks for each block of rows; -1 is
            none.
    """

    table: object

    def take(self, grid, x):
        """As `Neighbours.take`."""
        x = grid.rows(x)
        batch, heads, blocks, block, features = ops.shape(x)
        # One block of zeros represents all missing ones.
        x, table = _padded(x, 2, 0, 1), self._rows(grid)
        there = (table >= 0) & (table < grid.blocks)
        at = ops.where(there, table, grid.blocks)
        x = ops.take(x, ops.reshape(at, (-1,)), axis=2)
        columns = self.table.shape[1] * block
        return ops.reshape(x, (batch, heads, blocks, columns, features))

    def positions(self, grid, relative=False):
        """As `Neighbours.positions`."""
        first = self._rows(grid)[:, :, None] * grid.block
        columns = self.table.shape[1] * grid.block
        return ops.reshape(
            first + ops.arange(grid.block, dtype="int32"), (-1, columns)
        )

    def _rows(self, grid):
        return from_array(self.table)[: grid.blocks]


# --- layouts ------------------------------------------------------------------


def _merged(x):
    """`(B, H, classes, blocks, n, f) -> (B, H, classes * blocks, n, f)`."""
    batch, heads, classes, blocks, size, features = ops.shape(x)
    return ops.reshape(x, (batch, heads, classes * blocks, size, features))


def _padded(x, axis, before, after):
    """Adds zeros along an axis."""
    if all(isinstance(n, int) and n == 0 for n in (before, after)):
        return x
    widths = [[0, 0] for _ in x.shape]
    widths[axis] = [before, after]
    return pad(x, widths)


def _taken(number, block):
    """How far away a block is, and how many of its positions are taken."""
    if not number:
        return
    for away in range(1, -(-number // block) + 1):
        yield away, min(block, number - (away - 1) * block)

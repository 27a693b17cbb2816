"""Sparse attention in pieces: blocks of queries, each with a few keys.

A piece cuts queries `(B, H, T, f)` into G groups of r rows and gives each
group c columns: logits are `(B, H, G, r, c)`. What lies beyond the ends is
zero, in a mask False. A softmax over several pieces is exact: each has a
softmax of its own, and the log-sum-exps weigh one against the other.
"""

import numpy as np
from keras import ops

from keras_synth import masks
from keras_synth.softmax import FORBIDDEN, softmax


class Piece:
    """How one pattern is computed.

    Args:
        length: Integer or scalar tensor, `T`.
    """

    def __init__(self, length):
        self.length = length

    def rows(self, x):
        """`(B, H, T, f) -> (B, H, G, r, f)`."""
        raise NotImplementedError

    def columns(self, x):
        """`(B, H, T, f) -> (B, H, G, c, f)`."""
        raise NotImplementedError

    def restored(self, x):
        """`(B, H, G, r, f) -> (B, H, T, f)`, the inverse of `rows`."""
        raise NotImplementedError

    def positions(self, relative):
        """Positions of rows `(G, r, 1)` and of columns `(G, 1, c)`.

        Args:
            relative: Whether only differences matter; then G may be 1.
        """
        raise NotImplementedError


class Band(Piece):
    """Blocks of queries with the keys of their block and around it.

    Of each residue class of positions: all that are equal modulo `residues`.

    Args:
        length: Integer or scalar tensor, `T`.
        residues: Integer, how many classes.
        block: Integer, queries in a block; a whole class by default.
        before: Integer, keys before the block.
        after: Integer, keys after it.
        exact: Whether blocks must have this size however short a class is.
    """

    def __init__(
        self, length, residues, block=None, before=0, after=0, exact=False
    ):
        super().__init__(length)
        self.residues = residues
        size = -(-length // residues)
        if block is None or (isinstance(size, int) and size <= block):
            # One block: there is nothing around it.
            block = block if exact else size
            before = after = 0
        self.block, self.before, self.after = block, before, after
        self.blocks = -(-size // block)

    def rows(self, x):
        return _merged(self._split(x))

    def columns(self, x):
        x = self._split(x)
        x = _with_neighbours(x, self.block, self.before, self.after)
        return _merged(x)

    def _split(self, x):
        """`(B, H, T, f) -> (B, H, residues, blocks, block, f)`."""
        batch, heads, length, features = ops.shape(x)
        classes, blocks, block = self.residues, self.blocks, self.block
        x = _padded(x, 2, 0, classes * blocks * block - length)
        if classes == 1:
            return ops.reshape(x, (batch, heads, 1, blocks, block, features))
        x = ops.reshape(x, (batch, heads, blocks, block, classes, features))
        return ops.transpose(x, (0, 1, 4, 2, 3, 5))

    def restored(self, x):
        batch, heads, _, block, features = ops.shape(x)
        classes, blocks = self.residues, self.blocks
        if classes != 1:
            shape = batch, heads, classes, blocks, block, features
            x = ops.transpose(ops.reshape(x, shape), (0, 1, 3, 4, 2, 5))
        x = ops.reshape(x, (batch, heads, -1, features))
        return x[:, :, : self.length]

    def positions(self, relative):
        columns = self.before + self.block + self.after
        if relative:
            arange, first = _arange_of(columns), 0
        else:
            arange = ops.arange
            first = arange(self.blocks) * (self.block * self.residues)
            first = arange(self.residues)[:, None] + first
            first = ops.reshape(first, (-1, 1))
        rows = first + arange(self.block)[None] * self.residues
        around = (arange(columns) - self.before)[None] * self.residues
        return rows[:, :, None], (first + around)[:, None, :]


class Columns(Piece):
    """All queries with the first few keys.

    Args:
        length: Integer or scalar tensor, `T`.
        number: Integer, how many keys.
    """

    def __init__(self, length, number):
        super().__init__(length)
        self.number = number

    def rows(self, x):
        return x[:, :, None]

    def columns(self, x):
        return x[:, :, None, : self.number]

    def restored(self, x):
        return x[:, :, 0]

    def positions(self, relative):
        number = self.number
        if isinstance(self.length, int):
            number = min(number, self.length)
        else:
            number = ops.minimum(number, self.length)
        rows, columns = ops.arange(self.length), ops.arange(number)
        return rows[None, :, None], columns[None, None]


class Taken(Piece):
    """Blocks of queries with blocks of keys from a table.

    Args:
        length: Integer or scalar tensor, `T`.
        table: Integer array `(max, n)`, blocks for each block of rows; -1 is
            none.
        block: Integer, queries and keys in a block.
    """

    def __init__(self, length, table, block):
        super().__init__(length)
        self.block = block
        self.blocks = -(-length // block)
        self.number = table.shape[1]
        self._table = ops.convert_to_tensor(table)[: self.blocks]

    def rows(self, x):
        batch, heads, length, features = ops.shape(x)
        x = _padded(x, 2, 0, self.blocks * self.block - length)
        shape = batch, heads, self.blocks, self.block, features
        return ops.reshape(x, shape)

    def columns(self, x):
        x = self.rows(x)
        batch, heads, blocks, block, features = ops.shape(x)
        # One block of zeros stands for all that are not there.
        x = _padded(x, 2, 0, 1)
        there = (self._table >= 0) & (self._table < self.blocks)
        at = ops.where(there, self._table, self.blocks)
        x = ops.take(x, ops.reshape(at, (-1,)), axis=2)
        shape = batch, heads, blocks, self.number * block, features
        return ops.reshape(x, shape)

    def restored(self, x):
        batch, heads, _, _, features = ops.shape(x)
        x = ops.reshape(x, (batch, heads, -1, features))
        return x[:, :, : self.length]

    def positions(self, relative):
        within = ops.arange(self.block)
        first = ops.arange(self.blocks)[:, None] * self.block
        rows = first + within
        columns = self._table[:, :, None] * self.block + within
        columns = ops.reshape(columns, (-1, 1, self.number * self.block))
        return rows[:, :, None], columns


# --- attention ----------------------------------------------------------------


def attend(
    queries, keys, values, pattern, padding=None, causal=False, dropped=None
):
    """Returns `softmax(queries . keys, among what a pattern allows) values`.

    Rows of global tokens, which see everything, are left to `dense`.

    Args:
        queries: Tensor `(B, T, H, k)`, scaled.
        keys: Tensor `(B, T, H, k)`, finite.
        values: Tensor `(B, T, H, v)`, finite.
        pattern: `Pattern`.
        padding: Boolean tensor `(B, T)`, False for padded keys, or `None`.
        causal: Whether no position sees a later one.
        dropped: Function that drops and rescales weights, or `None`.

    Returns:
        Tensor `(B, T, H, v)`; zero where nothing is visible.
    """
    length = ops.shape(queries)[1]
    tensors = [_heads_first(x) for x in (queries, keys, values)]
    real = ops.ones((1, length), "int32") if padding is None else padding
    real = ops.cast(real, "int32")[:, None, :, None]  # (B or 1, 1, T, 1)
    earlier, found = None, []
    alone = len(pattern.patterns) == 1
    for part in pattern.patterns:
        piece = part.piece(length, causal)
        allowed = _allowed(piece, part, earlier, real, causal)
        found.append(_attended(piece, *tensors, allowed, dropped, alone))
        earlier = part if earlier is None else earlier | part
    context = found[0] if alone else _merge(found)
    return _heads_first(ops.cast(context, values.dtype))


def dense(queries, keys, values, allowed, dropped=None):
    """The same among given pairs.

    Args:
        queries: Tensor `(B, T, H, k)`, scaled.
        keys: Tensor `(B, S, H, k)`, finite.
        values: Tensor `(B, S, H, v)`, finite.
        allowed: Boolean tensor that broadcasts to `(B, H, T, S)`, or `None`.
        dropped: Function that drops and rescales weights, or `None`.

    Returns:
        Tensor `(B, T, H, v)`; zero where nothing is visible.
    """
    tensors = [_heads_first(x) for x in (queries, keys, values)]
    return _heads_first(_softmax_of(*tensors, allowed, dropped))


def _allowed(piece, pattern, earlier, real, causal):
    """Which pairs count in a piece: boolean `(B or 1, 1, G, r, c)`."""
    relative = pattern.relative and (earlier is None or earlier.relative)
    rows, columns = piece.positions(relative)
    allowed = pattern.allows(rows, columns)
    if earlier is not None:
        allowed = allowed & ~earlier.allows(rows, columns)
    if causal:
        allowed = allowed & (columns <= rows)
    real = ops.swapaxes(piece.columns(real), -1, -2)  # (B or 1, 1, G, 1, c)
    allowed = ops.convert_to_tensor(allowed)[None, None]
    return ops.logical_and(real > 0, allowed)


def _attended(piece, queries, keys, values, allowed, dropped, alone):
    """The context of a piece; with its log-sum-exp if it is not alone."""
    queries = piece.rows(queries)
    keys, values = piece.columns(keys), piece.columns(values)
    if alone:
        context = _softmax_of(queries, keys, values, allowed, dropped)
        return piece.restored(context)
    scores = _scores(queries, keys, allowed)
    weights = softmax(scores)
    weights = weights if dropped is None else dropped(weights)
    context = ops.matmul(ops.cast(weights, values.dtype), values)
    total = ops.logsumexp(scores, axis=-1, keepdims=True)
    return piece.restored(context), piece.restored(total)


def _softmax_of(queries, keys, values, allowed, dropped):
    weights = softmax(_scores(queries, keys, allowed))
    weights = weights if dropped is None else dropped(weights)
    context = ops.matmul(ops.cast(weights, values.dtype), values)
    if allowed is None:
        return context
    visible = ops.any(allowed, axis=-1, keepdims=True)
    return ops.where(visible, context, ops.zeros((), context.dtype))


def _scores(queries, keys, allowed):
    scores = ops.matmul(queries, ops.swapaxes(keys, -1, -2))
    scores = ops.cast(scores, "float32")
    if allowed is None:
        return scores
    return ops.where(allowed, scores, FORBIDDEN)


def _merge(found):
    """The context of several pieces, each with its log-sum-exp."""
    contexts, totals = zip(*found, strict=True)
    totals = ops.concatenate(totals, axis=-1)  # (B, H, T, pieces)
    shares = softmax(totals)
    shares = ops.where(totals > FORBIDDEN / 2, shares, 0.0)
    return sum(
        shares[..., i : i + 1] * ops.cast(context, "float32")
        for i, context in enumerate(contexts)
    )


# --- layouts ------------------------------------------------------------------


def _heads_first(x):
    return ops.transpose(x, (0, 2, 1, 3))


def _merged(x):
    """`(B, H, classes, blocks, n, f) -> (B, H, classes * blocks, n, f)`."""
    batch, heads, classes, blocks, size, features = ops.shape(x)
    return ops.reshape(x, (batch, heads, classes * blocks, size, features))


def _with_neighbours(x, block, before, after):
    """Adds to each block what lies around it.

    Args:
        x: Tensor `(B, H, classes, blocks, block, f)`.
        block: Integer, positions in a block.
        before: Integer, positions before a block.
        after: Integer, positions after it.

    Returns:
        Tensor `(B, H, classes, blocks, before + block + after, f)`.
    """
    blocks = ops.shape(x)[3]
    found = [x]
    for away, taken in _taken(before, block):
        part = _padded(x[:, :, :, :, block - taken :], 3, away, 0)
        found.insert(0, part[:, :, :, :blocks])
    for away, taken in _taken(after, block):
        part = _padded(x[:, :, :, :, :taken], 3, 0, away)
        found.append(part[:, :, :, away:])
    return found[0] if len(found) == 1 else ops.concatenate(found, axis=4)


def _taken(number, block):
    """How far away a block is, and how many of its positions are taken."""
    if not number:
        return
    for away in range(1, -(-number // block) + 1):
        yield away, min(block, number - (away - 1) * block)


def _padded(x, axis, before, after):
    if isinstance(before, int) and isinstance(after, int):
        if before == after == 0:
            return x
    widths = [[0, 0] for _ in x.shape]
    widths[axis] = [before, after]
    return ops.pad(x, widths)


def _arange_of(size):
    """NumPy's `arange` where a length is known, for small constants."""
    return np.arange if isinstance(size, int) else ops.arange

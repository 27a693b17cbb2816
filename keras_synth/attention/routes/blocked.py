"""The blocked route: patterns, in blocks of queries and the keys these see.

Queries, keys and biases are gathered block by block, so that of a pattern's
pairs alone there are logits, but for those that fill up blocks. Parts of a
pattern whose blocks are the same share them. Others have blocks of their own,
and the sums of their exponentials weigh one against the other, which is exact.
"""

import functools
import operator
from typing import Any, NamedTuple

import keras
from keras import ops

from keras_synth.attention.blocks import Grid
from keras_synth.attention.logits import Logits, Product
from keras_synth.attention.masks import AttentionMask, zero_padded_keys
from keras_synth.attention.normalizers import SOFTMAX
from keras_synth.attention.patterns import GlobalTokens, Window
from keras_synth.attention.routes.explicit import ExplicitRoute
from keras_synth.attention.routes.kernel_arguments import is_small
from keras_synth.attention.routes.route import Request, Route
from keras_synth.attention.softmax import FORBIDDEN

_EXPLICIT = ExplicitRoute()


class BlockedRoute(Route):
    """Attention of one sequence among the pairs that a pattern allows.

    Example:

    >>> from keras_synth.attend import attend
    >>> from keras_synth.logits import Logits
    >>> from keras_synth.masks import AttentionMask
    >>> from keras_synth.mixers.patterns import Window
    >>> q, k = keras.random.normal((2, 3, 50, 2, 4))
    >>> logits = Logits(queries=q, keys=k)
    >>> values = keras.random.normal((3, 50, 2, 4))
    >>> mask = AttentionMask(pattern=Window(2))
    >>> attend(logits, values, mask, route="blocked").shape
    (3, 50, 2, 4)
    """

    name = "blocked"
    normalizers = None
    reads_products = True

    def serves(self, request: Request) -> bool:
        """Of whole sequences, and of one query in a cache."""
        pattern, mask = _pattern(request), request.mask
        if pattern is None or not pattern.has_pieces:
            return False
        own = request.normalizer
        if len(pattern.patterns) > 1 and not (own.sums or own.elementwise):
            return False
        plain = not request.return_weights and not request.flash_attention
        step = request.of_one_query and mask.causal and request.dropout is None
        return plain and mask.pairs is None and (_begins(mask) or step)

    def cost(self, request: Request) -> float:
        """Next to nothing where tokens alone are compared.

        Biases are gathered number by number, where pieces of the streamed
        route, which knows windows, are slices of them. Where Python tells an
        accelerator each operation, small attention is as good as a whole.
        """
        if is_small(request) and request.normalizer == SOFTMAX:
            return 0.6
        if request.logits.bias is None and request.mask.pattern is not None:
            return 0.01
        length = request.source_length
        if not isinstance(length, int):
            return 0.25
        visited = sum(x.visited(length) for x in _pattern(request).patterns)
        return 0.8 * min(1.0, visited / max(1, length))

    def is_portable(self, request: Request) -> bool:
        return True

    def run(self, request: Request) -> Any:
        logits = zero_padded_keys(request.logits, request.mask)
        request = request._replace(logits=logits)
        if not _begins(request.mask):
            return _EXPLICIT.run(_of_one_query(request))
        if request.mask.causal:
            request = _without_later(request)
        context = _blocked(request)
        seeing = 0 if request.mask.causal else _rows_that_see_all(request)
        if not seeing:
            return context
        first = _EXPLICIT.run(_of_first_rows(request, seeing))
        return ops.concatenate([first, context[:, seeing:]], axis=1)


def _pattern(request):
    """The pattern of a request, of which a window is one; or `None`."""
    mask = request.mask
    if mask.pattern is not None or mask.window in (None, 1):
        return mask.pattern
    lengths = request.target_length, request.source_length
    square = isinstance(lengths[0], int) and lengths[0] == lengths[1]
    return Window(mask.window - 1) if square else None


def _begins(mask):
    """Whether the first query is the first token, of the whole sequence."""
    return isinstance(mask.start, int) and mask.start == 0


def _rows_that_see_all(request):
    """The number of first rows that are not limited by the pattern."""
    parts = _pattern(request).patterns
    numbers = [x.number for x in parts if isinstance(x, GlobalTokens)]
    return max(numbers, default=0)


# --- parts of a request -------------------------------------------------------


def _without_later(request):
    """Leaves out what lies behind the last query: room in a cache."""
    length = request.target_length
    if isinstance(length, int) and length == request.source_length:
        return request
    _, keys, bias = request.logits.written_out()
    mask = request.mask
    padding = None if mask.keys is None else mask.keys[:, :length]
    return request._replace(
        logits=request.logits._replace(
            keys=None if keys is None else keys[:, :length],
            bias=None if bias is None else bias[..., :length],
        ),
        values=request.values[:, :length],
        mask=mask._replace(keys=padding),
    )


def _of_first_rows(request, number):
    """Of the first rows, limited by no pattern."""
    if isinstance(request.target_length, int):
        number = min(number, request.target_length)
    queries, keys, bias = request.logits.written_out()
    if bias is not None and bias.shape[2] != 1:
        bias = bias[:, :, :number]
    if queries is not None:
        queries = queries[:, :number]
    return request._replace(
        logits=request.logits._replace(queries=queries, bias=bias, keys=keys),
        target_length=number
        if isinstance(request.target_length, int)
        else ops.minimum(number, request.target_length),
        mask=request.mask._replace(pattern=None),
    )


def _of_one_query(request):
    """Of the columns alone that one query in a cache may see."""
    mask, length = request.mask, request.source_length
    row = ops.reshape(ops.convert_to_tensor(mask.start, "int32"), (1,))
    limits = AttentionMask(causal=mask.causal, window=mask.window)
    chosen, counted, earlier = [], [], []
    for part in _pattern(request).patterns:
        own = ops.cast(part.columns(row[0], length), "int32")
        allowed = part.allows(row[0], own) & (own >= 0)
        allowed = allowed & limits.allows(row, own)[0]
        for other in earlier:
            allowed = allowed & ~other.allows(row[0], own)
        earlier.append(part)
        chosen.append(own)
        counted.append(allowed)
    at = ops.clip(ops.concatenate(chosen), 0, length - 1)
    allowed = ops.concatenate(counted)[None, None, None]
    if mask.keys is not None:
        real = ops.take(ops.cast(mask.keys, "int32"), at, axis=1) > 0
        allowed = ops.logical_and(allowed, real[:, None, None])
    _, keys, bias = request.logits.written_out()
    return request._replace(
        logits=request.logits._replace(
            keys=None if keys is None else ops.take(keys, at, axis=1),
            bias=None if bias is None else ops.take(bias, at, axis=3),
        ),
        values=ops.take(request.values, at, axis=1),
        mask=AttentionMask(pairs=allowed),
    )


# --- blocks -------------------------------------------------------------------


class _Blocks(NamedTuple):
    """What is computed on one grid.

    Fields:
        grid: `Grid`.
        logits: Float32 tensor `(B or 1, H, G, r, c)`, `FORBIDDEN` where a row
            does not see a column.
        values: Tensor `(B, H, G, c, v)`.
        allowed: Boolean tensor `(B or 1, 1, G, r, c)`, columns seen.
    """

    grid: Grid
    logits: Any
    values: Any
    allowed: Any

    def count(self):
        """How many columns a row sees: float32 `(B or 1, 1, G, r, 1)`."""
        seen = ops.cast(self.allowed, "float32")
        return ops.sum(seen, axis=-1, keepdims=True)


def _blocked(request):
    """The context `(B, T, H, v)`; zero where nothing is visible."""
    logits, values, mask = request.logits, request.values, request.mask
    logits = Logits(
        _heads_first(logits.queries), _heads_first(logits.keys), logits.bias
    )
    heads = _heads_first(values)
    real = ops.ones((1, request.target_length), "int32")
    real = real if mask.keys is None else ops.cast(mask.keys, "int32")
    real = real[:, None, :, None]  # (B or 1, 1, T, 1)
    earlier, found = None, []
    for grid, parts in _grids(_pattern(request), request):
        chosen, allowed = [], []
        for part, columns in parts:
            chosen.append(columns)
            allowed.append(_allowed(grid, columns, part, earlier, real, mask))
            earlier = part if earlier is None else earlier | part
        allowed = _joined(allowed)
        scores = _scores(grid, chosen, logits)
        # Adding costs PyTorch's CPUs a tenth of selecting, and nothing
        # backwards.
        scores = scores + ops.where(allowed, 0.0, FORBIDDEN)
        groups = ops.shape(scores)[2]
        own = _taken(grid, chosen, heads, groups)
        found.append(_Blocks(grid, scores, own, allowed))
    context = _weighed(found, request.normalizer, request.dropout)
    return _heads_first(ops.cast(context, values.dtype))


def _grids(pattern, request):
    """Pairs of a grid and the patterns computed on it, with their columns."""
    length, causal = request.target_length, request.mask.causal
    found, anywhere = [], []
    for part in pattern.patterns:
        grid, columns = part.piece(length, causal)
        if grid is None:
            anywhere.append((part, columns))
            continue
        same = [parts for other, parts in found if grid.same_as(other)]
        if same:
            same[0].append((part, columns))
        else:
            found.append((grid, [(part, columns)]))
    found = found or [(Grid(length), [])]
    found[0][1].extend(anywhere)
    return found


def _allowed(grid, columns, pattern, earlier, real, mask):
    """Which pairs count: boolean `(B or 1, 1, G, r, c)`."""
    relative = pattern.relative and (earlier is None or earlier.relative)
    i = grid.positions(relative)[:, :, None]
    j = columns.positions(grid, relative)[:, None]
    allowed = pattern.allows(i, j)
    if earlier is not None:
        allowed = allowed & ~earlier.allows(i, j)
    if mask.causal:
        allowed = allowed & (j <= i)
    if mask.window is not None:
        allowed = allowed & (abs(i - j) < mask.window)
    real = ops.swapaxes(columns.take(grid, real), -1, -2)
    allowed = ops.convert_to_tensor(allowed)[None, None]
    return ops.logical_and(real > 0, allowed)


def _scores(grid, chosen, logits):
    """Logits of the chosen columns: float32 `(B or 1, H, G, r, c)`."""
    queries, keys, bias = logits
    scores = None
    if queries is not None:
        queries = grid.rows(queries)
        groups = ops.shape(queries)[2]
        keys = ops.swapaxes(_taken(grid, chosen, keys, groups), -1, -2)
        scores = ops.cast(ops.matmul(queries, keys), "float32")
    if bias is None:
        return scores
    bias = ops.cast(_bias(grid, chosen, bias), "float32")
    return bias if scores is None else scores + bias


def _taken(grid, chosen, x, groups):
    """The columns of `(B, H, T, f)` for each group: `(B, H, G, c, f)`."""
    parts = [_for_groups(columns.take(grid, x), groups) for columns in chosen]
    return _joined(parts, axis=3)


def _for_groups(x, groups):
    if x.shape[2] != 1:
        return x
    batch, heads, _, columns, features = ops.shape(x)
    return ops.broadcast_to(x, (batch, heads, groups, columns, features))


def _joined(tensors, axis=-1):
    return tensors[0] if len(tensors) == 1 else ops.concatenate(tensors, axis)


# --- biases -------------------------------------------------------------------


def _bias(grid, chosen, bias):
    """A bias `(., H, T or 1, S)` of chosen columns: `(., H, G, 1 or r, c)`."""
    if isinstance(bias, Product):
        if bias.scales_a_table:
            own = _bias(grid, chosen, bias.tiled)
            return own * bias.repeated[:, :, None]
        if bias.shape[2] != 1:
            return _of_product(grid, _columns_at(grid, chosen), bias)
        bias = bias.written_out()
    if bias.shape[2] == 1:
        rows = ops.swapaxes(bias, 2, 3)  # (., H, S, 1)
        parts = [columns.take(grid, rows) for columns in chosen]
        # One of them has all groups, the others as many or one for all.
        most = [x for x in parts if x.shape[2] != 1] or parts
        parts = [_for_groups(x, ops.shape(most[0])[2]) for x in parts]
        return ops.swapaxes(_joined(parts, axis=3), -1, -2)
    return _of_table(grid, _columns_at(grid, chosen), bias)


def _columns_at(grid, chosen):
    """Positions of all chosen columns, within the sequence: `(G or 1, c)`."""
    found = [ops.convert_to_tensor(x.positions(grid)) for x in chosen]
    groups = ops.shape(grid.positions())[0]
    found = [
        x if len(found) == 1 else ops.broadcast_to(x, (groups, ops.shape(x)[1]))
        for x in found
    ]
    return ops.clip(_joined(found), 0, grid.length - 1)


def _of_table(grid, columns, table):
    """Entries of `(., H, T, S)`: `(., H, G, r, c)`."""
    batch, heads, length, width = ops.shape(table)
    rows = ops.clip(grid.positions(), 0, grid.length - 1)[:, :, None]
    at = ops.cast(rows * width + columns[:, None], "int32")  # (G, r, c)
    flat = ops.reshape(table, (batch, heads, length * width))
    found = ops.take(flat, ops.reshape(at, (-1,)), axis=2)
    return ops.reshape(found, (batch, heads, *ops.shape(at)))


def _of_product(grid, columns, bias):
    """Entries of a `Product`: its factors of a row, at each column's place."""
    width = bias.tiled.shape[-1]
    found = None
    for factor, at in (
        (bias.repeated, columns // width),
        (bias.tiled, columns % width),
    ):
        one = factor.shape[2] == 1
        rows = factor[:, :, None] if one else grid.rows(factor)
        own = _at(rows, at)
        found = own if found is None else found * own
    return found


def _at(rows, at):
    """Entries `at` `(G or 1, c)` of rows `(., H, G or 1, r, a)`."""
    hot = ops.one_hot(at, rows.shape[-1], dtype=rows.dtype)  # (G or 1, c, a)
    return ops.matmul(rows, ops.swapaxes(hot, -1, -2)[None, None])


# --- weights ------------------------------------------------------------------


def _weighed(found, normalizer, dropout):
    """The context `(B, H, T, v)` of all blocks."""
    if len(found) == 1:
        count = found[0].count() if normalizer.counts else None
        return _context_of(found[0], count, normalizer, dropout)
    if normalizer.sums:
        parts = [_sums(blocks, dropout) for blocks in found]
        return _merged(parts, normalizer.sink)
    counts = [blocks.grid.restored(blocks.count()) for blocks in found]
    total = functools.reduce(operator.add, counts)
    contexts = (
        _context_of(blocks, blocks.grid.rows(total), normalizer, dropout)
        for blocks in found
    )
    return functools.reduce(operator.add, contexts)


def _context_of(blocks, count, normalizer, dropout):
    """The context of one grid, `count` being of all that a row sees."""
    grid, logits, values, allowed = blocks
    least_one = None if count is None else ops.maximum(count, 1.0)
    weights = normalizer.weights(logits, least_one)
    weights = weights if dropout is None else dropout(weights)
    context = ops.matmul(ops.cast(weights, values.dtype), values)
    visible = ops.any(allowed, axis=-1, keepdims=True)
    context = ops.where(visible, context, ops.zeros((), context.dtype))
    return grid.restored(context)


def _sums(blocks, dropout):
    """Sums of exponentials, what was subtracted before, and their context."""
    grid, logits, values, _ = blocks
    top = ops.amax(ops.stop_gradient(logits), axis=-1, keepdims=True)
    # Where nothing is allowed all exponentials are zero.
    top = ops.maximum(top, FORBIDDEN / 2)
    weights = ops.exp(logits - top)
    total = ops.sum(weights, axis=-1, keepdims=True)
    weights = weights if dropout is None else dropout(weights)
    half = keras.backend.standardize_dtype(values.dtype) == "float16"
    if half:  # A sum of values might overflow.
        weights = weights / _positive(total)
    context = ops.matmul(ops.cast(weights, values.dtype), values)
    context = ops.cast(context, "float32")
    context = context * total if half else context
    return tuple(grid.restored(x) for x in (context, total, top))


def _merged(found, sink):
    """The context of several grids; a sink is one more exponential."""
    contexts, totals, tops = zip(*found, strict=True)
    highest = functools.reduce(ops.maximum, tops)
    if sink:
        highest = ops.maximum(highest, 0.0)
    shares = [ops.exp(top - highest) for top in tops]
    context, total = (
        sum(share * x for share, x in zip(shares, parts, strict=True))
        for parts in (contexts, totals)
    )
    total = total + ops.exp(-highest) if sink else _positive(total)
    return context / total


def _positive(total):
    return ops.where(total > 0, total, 1.0)


def _heads_first(x):
    return None if x is None else ops.transpose(x, (0, 2, 1, 3))

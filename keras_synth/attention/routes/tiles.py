"""The tiles route: groups of queries, and keys for each group.

With a pattern all groups are computed at once. Without a pattern every group
sees all columns, and groups are computed one after the other, so that their
weights fit into a CPU's cache, and again for the gradient. The idea is
FlashAttention's, with whole rows (Dao et al., 2022,
https://arxiv.org/abs/2205.14135).
"""

import functools
import itertools
from typing import Any

from keras import ops

from keras_synth._backend import execution, kernels
from keras_synth._backend.distributions import number_of_devices
from keras_synth._backend.loops import one_by_one, rematerialized
from keras_synth._backend.tensors import cast_like, heads_first
from keras_synth.attention.blocks import QueryBlocks
from keras_synth.attention.masks import both
from keras_synth.attention.normalizers import SOFTMAX
from keras_synth.attention.patterns import GlobalTokens, Pattern
from keras_synth.attention.routes import sizes
from keras_synth.attention.routes.explicit import ExplicitRoute
from keras_synth.attention.routes.pattern_tiles import (
    attend_by_plan,
    pattern_of,
    seen_by_one_query,
    visited,
)
from keras_synth.attention.routes.route import (
    Request,
    Route,
    is_small,
    number_of_weights,
)
from keras_synth.attention.routes.tile import (
    joined,
    tile_context,
    tile_scores,
)


class TilesRoute(Route):
    """Attention by groups of queries, with keys for each group.

    Example:

    >>> keras_synth.routes.get("tiles")
    <TilesRoute 'tiles'>
    """

    name = "tiles"
    normalizers = None

    def serves(self, request: Request) -> bool:
        """True for patterns of one sequence, or if loops are cheap."""
        if request.return_weights or request.flash_attention:
            return False
        if _has_plan(request):
            return True
        loops = execution.loops_over_slices(request.values)
        return loops and request.dropout is None

    def cost(self, request: Request) -> float:
        """Almost zero if a pattern's tokens are compared.

        It is more for biases, whose entries are gathered one by one. Without a
        pattern, large weights that stay in the cache take three quarters of the
        time.
        """
        if not _has_plan(request):
            return 0.75 if _is_worth_a_loop(request) else 1.5
        if is_small(request) and request.normalizer == SOFTMAX:
            return 0.6  # each operation is launched by Python
        if request.logits.bias is None and request.mask.pattern is not None:
            return 0.01
        lengths = request.target_length, request.source_length
        if not all(isinstance(length, int) for length in lengths):
            return 0.25
        return 0.8 * min(1.0, visited(request) / max(1, lengths[1]))

    def is_portable(self, request: Request) -> bool:
        lengths = request.target_length, request.source_length
        known = all(isinstance(length, int) for length in lengths)
        return known and _has_plan(request)

    def run(self, request: Request) -> Any:
        request = request.with_zero_keys()
        if not _has_plan(request):
            return attend_by_rows(request)
        if not _begins(request.mask):
            return ExplicitRoute().run(seen_by_one_query(request))
        if request.mask.causal and request.target_length is not (
            request.source_length
        ):
            # Columns after the last query are unused room in a cache.
            request = part(request, columns=slice(request.target_length))
        context = attend_by_plan(request)
        rows = 0 if request.mask.causal else _rows_that_see_all(request)
        if isinstance(rows, int) and not rows:
            return context
        mask = request.mask._replace(pattern=None)
        first = part(request._replace(mask=mask), rows=slice(rows))
        return ops.concatenate(
            [ExplicitRoute().run(first), context[:, rows:]], axis=1
        )


def _is_worth_a_loop(request):
    """Whether a loop over tiles is faster than all weights at once."""
    weights, bias = number_of_weights(request), request.logits.bias
    if not kernels.SLOW_LOOPS:
        return weights > 2 * sizes.TILE
    has_pairs = bias is not None and bias.shape[2] != 1
    return weights > sizes.SLOW_LOOP and not has_pairs


def _has_plan(request):
    """Whether a pattern defines the columns of groups of queries."""
    pattern, mask = pattern_of(request), request.mask
    if pattern is None or mask.pairs is not None:
        return False
    if any(type(x).piece is Pattern.piece for x in pattern.patterns):
        return False
    rows, columns = request.target_length, request.source_length
    if isinstance(rows, int) and isinstance(columns, int):
        is_square = rows == columns or (mask.causal and rows < columns)
        if not is_square:  # plans are for one sequence
            return False
    normalizer = request.normalizer
    if len(pattern.patterns) > 1 and not (
        normalizer.sums or normalizer.elementwise
    ):
        return False
    step = request.has_one_query and mask.causal and request.dropout is None
    return _begins(mask) or step


def _begins(mask):
    """Whether the first query is the first token of the sequence."""
    return isinstance(mask.start, int) and mask.start == 0


def _rows_that_see_all(request):
    """Returns the number of first rows that the pattern does not limit."""
    parts = pattern_of(request).patterns
    numbers = [x.number for x in parts if isinstance(x, GlobalTokens)]
    rows, length = max(numbers, default=0), request.target_length
    if ops.is_tensor(length):
        return ops.minimum(rows, length) if rows else 0
    return min(rows, length) if isinstance(length, int) else rows


# --- parts of a request -------------------------------------------------------


def part(request, rows=slice(None), columns=slice(None)):
    """Returns the request of some rows and columns, slices without a step."""
    logits, mask = request.logits, request.mask
    queries, keys, bias = logits.queries, logits.keys, logits.bias
    pairs, padding = mask.pairs, mask.keys
    target_length = request.target_length
    if rows != slice(None):
        target_length = rows.stop - (rows.start or 0)
    return request._replace(
        logits=logits._replace(
            queries=None if queries is None else queries[:, rows],
            keys=None if keys is None else keys[:, columns],
            bias=None if bias is None else _pairs_part(bias, rows, columns),
        ),
        values=request.values[:, columns],
        target_length=target_length,
        mask=mask._replace(
            keys=None if padding is None else padding[:, columns],
            pairs=None if pairs is None else _pairs_part(pairs, rows, columns),
        ),
    )


def _pairs_part(x, rows, columns):
    return x[..., columns] if x.shape[2] == 1 else x[:, :, rows, columns]


# --- all columns, one group after the other -----------------------------------


def attend_by_rows(request):
    """Returns the context `(B, T, H, v)`, zero without visible keys."""
    bands = _bands(request)
    request = request.with_pairs()
    return joined([_band(part(request, *band)) for band in bands], axis=1)


def _bands(request):
    """Returns pairs of slices: rows, and the columns that they can see."""
    mask, length = request.mask, request.target_length
    known = isinstance(mask.start, int) and number_of_weights(request)
    if not (mask.causal and known):
        return [(slice(None), slice(None))]
    number = sizes.CAUSAL_BANDS
    ends = [length * i // number for i in range(number + 1)]
    return [
        (slice(first, stop), slice(mask.start + stop))
        for first, stop in itertools.pairwise(ends)
        if first < stop
    ]


def _band(request):
    """Returns the context of some rows, `(B, T, H, v)`."""
    logits, values, mask = request.logits, request.values, request.mask
    rows = _rows_of_tile(request)
    blocks = QueryBlocks(request.target_length, block=rows)
    operands = {
        "queries": heads_first(logits.queries),
        "keys": heads_first(logits.keys),
        "bias": logits.bias,
        "pairs": mask.pairs,
        "padding": None if mask.keys is None else mask.keys[:, None, None],
        "values": heads_first(values),
        "count": request.count(),
    }
    grouped = ("queries", "bias", "pairs", "count")
    operands = {
        name: blocks.rows(x)
        if name in grouped and x.shape[2] != 1
        else x[:, :, None]
        for name, x in operands.items()
        if x is not None
    }
    if "count" in operands:  # rows that fill up the last tile see no keys
        operands["count"] = ops.maximum(operands["count"], 1.0)
    of_groups = rematerialized(functools.partial(_tile, request.normalizer))
    context = one_by_one(of_groups, operands, _axes(request))
    return heads_first(cast_like(blocks.restored(context), values))


def _rows_of_tile(request):
    length, size = request.target_length, number_of_weights(request)
    if not size:
        return length
    row, most = request.source_length, sizes.TILE
    if number_of_devices() > 1:
        # To cut an axis that devices share, each would need the other parts.
        row, most = size // length, sizes.TILE * number_of_devices()
        return min(length, max(sizes.FEWEST_ROWS, most // row))
    # A slightly larger head does not need more tiles.
    return length if length * row <= 2 * most else max(1, most // row)


def _axes(request):
    """Returns the axes of groups along which tiles are cut."""
    size, heads = number_of_weights(request), request.values.shape[2]
    if number_of_devices() > 1 or not size:
        return [2]
    axes = []
    if size > sizes.TILE:
        axes.append(1)
    if size // heads > sizes.TILE:
        axes.append(0)
    return [*axes, 2]


def _tile(normalizer, operands):
    """Returns the context `(B, H, G, r, v)` of groups that see all columns."""
    allowed = both(operands.get("pairs"), operands.get("padding"))
    terms = (operands.get(name) for name in ("queries", "keys", "bias"))
    scores = tile_scores(*terms, allowed)
    return tile_context(
        normalizer, scores, allowed, operands["values"], operands.get("count")
    )

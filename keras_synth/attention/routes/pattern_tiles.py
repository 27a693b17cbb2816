"""Tiles of a pattern: groups of queries and their columns.

Parts of a pattern with the same groups share their tiles. Contexts of different
tiles are combined by their sums of exponentials, which is exact.
"""

from keras import ops

from keras_synth._backend.tensors import (
    cast_like,
    from_array,
    heads_first,
    take,
)
from keras_synth.attention.blocks import QueryBlocks
from keras_synth.attention.masks import AttentionMask
from keras_synth.attention.patterns import Window
from keras_synth.attention.patterns.pattern import is_numpy
from keras_synth.attention.routes.tile import (
    combined,
    joined,
    tile_scores,
)


def pattern_of(request):
    """Returns the pattern or window of a request, or `None`."""
    mask = request.mask
    if mask.pattern is not None or mask.window in (None, 1):
        return mask.pattern
    lengths = request.target_length, request.source_length
    square = isinstance(lengths[0], int) and lengths[0] == lengths[1]
    return Window(mask.window - 1) if square else None


def attend_by_plan(request):
    """Returns the context `(B, T, H, v)`, zero without visible keys."""
    logits, values, mask = request.logits, request.values, request.mask
    queries, keys = heads_first(logits.queries), heads_first(logits.keys)
    heads = heads_first(values)
    is_token = ops.ones((1, request.target_length), "int32")
    is_token = is_token if mask.keys is None else ops.cast(mask.keys, "int32")
    is_token = is_token[:, None, :, None]  # (B or 1, 1, T, 1)
    earlier, tiles = None, []
    for blocks, parts in _plan(pattern_of(request), request):
        columns, allowed = [], []
        for part, own in parts:
            columns.append(own)
            allowed.append(_allowed(blocks, own, part, earlier, is_token, mask))
            earlier = part if earlier is None else earlier | part
        own_queries, own_keys, own_bias = None, None, None
        if queries is not None:
            own_queries = blocks.rows(queries)
            own_keys = _columns(blocks, columns, keys)
        if logits.bias is not None:
            own_bias = _bias_columns(blocks, columns, logits.bias)
        allowed = joined(allowed)
        scores = tile_scores(own_queries, own_keys, own_bias, allowed)
        tiles.append(
            (blocks, scores, allowed, _columns(blocks, columns, heads))
        )
    context = combined(tiles, request.normalizer, request.dropout)
    return heads_first(cast_like(context, values))


def visited(request):
    """Returns the number of columns for a row, an integer."""
    return sum(
        columns.number(blocks)
        for blocks, parts in _plan(pattern_of(request), request)
        for _, columns in parts
    )


def _plan(pattern, request):
    """Returns pairs of blocks and the patterns computed on them."""
    length, causal = request.target_length, request.mask.causal
    plan, anywhere = [], []
    for part in pattern.patterns:
        blocks, columns = part.piece(length, causal)
        if blocks is None:
            anywhere.append((part, columns))
            continue
        same = [parts for other, parts in plan if blocks.same_as(other)]
        if same:
            same[0].append((part, columns))
        else:
            plan.append((blocks, [(part, columns)]))
    plan = plan or [(QueryBlocks(length), [])]
    plan[0][1].extend(anywhere)
    return plan


def _allowed(blocks, columns, pattern, earlier, is_token, mask):
    """Returns which pairs are visible, boolean `(B or 1, 1, G, r, c)`."""
    relative = pattern.relative and (earlier is None or earlier.relative)
    rows = blocks.positions(relative)
    places = columns.positions(blocks, relative)
    allowed = _added(pattern, earlier, mask, rows, places)
    is_token = ops.swapaxes(columns.take(blocks, is_token), -1, -2) > 0
    if not relative:
        inside = (places >= 0) & (places < blocks.length)
        is_token = ops.logical_and(is_token, inside[:, None])
    if is_numpy(allowed):
        allowed = from_array(allowed)
    return ops.logical_and(is_token, allowed[None, None])


def _added(pattern, earlier, mask, rows, columns):
    """Which pairs a pattern adds to earlier ones, boolean `(..., r, c)`."""
    limits = AttentionMask(
        causal=mask.causal, window=mask.window, pattern=pattern
    )
    allowed = limits.allows(rows, columns)
    if earlier is None:
        return allowed
    seen = earlier.allows(rows[..., :, None], columns[..., None, :])
    return allowed & ~seen


def _columns(blocks, columns, x):
    """Returns columns of `(B, H, T, f)` for each group, `(B, H, G, c, f)`."""
    parts = [own.take(blocks, x) for own in columns]
    for i, part in enumerate(parts):
        if part.shape[2] == 1:
            batch, heads, _, *rest = ops.shape(part)
            shape = batch, heads, blocks.groups, *rest
            parts[i] = ops.broadcast_to(part, shape)
    return joined(parts, axis=3)


def _bias_columns(blocks, columns, bias):
    """Returns columns of `(., H, T or 1, S)`: `(., H, G, 1 or r, c)`."""
    if bias.shape[2] == 1:
        rows = ops.swapaxes(bias, 2, 3)  # (., H, S, 1)
        return ops.swapaxes(_columns(blocks, columns, rows), -1, -2)
    batch, heads, length, width = ops.shape(bias)
    last = blocks.length - 1
    places = [ops.convert_to_tensor(own.positions(blocks)) for own in columns]
    if len(places) > 1:
        groups = blocks.groups
        places = [
            ops.broadcast_to(x, (groups, ops.shape(x)[1])) for x in places
        ]
    places = ops.clip(joined(places), 0, last)  # (G or 1, c)
    rows = ops.clip(blocks.positions(), 0, last)[:, :, None]
    places = ops.cast(rows * width + places[:, None], "int32")  # (G, r, c)
    flat = ops.reshape(bias, (batch, heads, length * width))
    return take(flat, places, 2)


# --- one query ----------------------------------------------------------------


def seen_by_one_query(request):
    """Returns a request with only the columns that one query can see."""
    mask, length = request.mask, request.source_length
    row = ops.reshape(ops.convert_to_tensor(mask.start, "int32"), (1,))
    columns, allowed, earlier = [], [], None
    for part in pattern_of(request).patterns:
        own = ops.cast(part.columns(row[0], length), "int32")
        seen = _added(part, earlier, mask, row, own)[0]
        columns.append(own)
        allowed.append(ops.logical_and(seen, own >= 0))
        earlier = part if earlier is None else earlier | part
    columns = ops.clip(ops.concatenate(columns), 0, length - 1)
    allowed = ops.concatenate(allowed)[None, None, None]
    if mask.keys is not None:
        is_token = take(ops.cast(mask.keys, "int32"), columns, 1) > 0
        allowed = ops.logical_and(allowed, is_token[:, None, None])
    keys, bias = request.logits.keys, request.logits.bias
    return request._replace(
        logits=request.logits._replace(
            keys=None if keys is None else take(keys, columns, 1),
            bias=None if bias is None else take(bias, columns, 3),
        ),
        values=take(request.values, columns, 1),
        mask=AttentionMask(pairs=allowed),
    )

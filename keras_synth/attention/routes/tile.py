"""A tile: its logits `(B or 1, H, G, r, c)`, and its context.

It has G groups of r queries with c columns each.
"""

import functools

import keras
from keras import ops

from keras_synth._backend.tensors import cast_like, constant
from keras_synth.attention.logits import float32, within_float32
from keras_synth.attention.softmax import FORBIDDEN


def tile_scores(queries, keys, bias=None):
    """Returns the logits of a tile, float32 `(B or 1, H, G, r, c)`."""
    if queries is None:
        return float32(bias)
    queries, keys = within_float32(queries), within_float32(keys)
    scores = float32(ops.matmul(queries, ops.swapaxes(keys, -1, -2)))
    return scores if bias is None else scores + float32(bias)


def tile_context(normalizer, scores, allowed, values, count=None, dropout=None):
    """Returns the context of a tile, zero in rows without visible keys."""
    weights = normalizer.weights(_limited(scores, allowed), count)
    weights = weights if dropout is None else dropout(weights)
    context = ops.matmul(cast_like(weights, values), values)
    if allowed is None:
        return context
    visible = ops.any(allowed, axis=-1, keepdims=True)
    return ops.where(visible, context, ops.zeros((), context.dtype))


def _limited(scores, allowed):
    # On PyTorch's CPUs adding is ten times as fast as selecting.
    if allowed is None:
        return scores
    nothing, least = (constant(x, scores) for x in (0.0, FORBIDDEN))
    return scores + ops.where(allowed, nothing, least)


def combined(tiles, normalizer, dropout):
    """Returns the context `(B, H, T, v)` of all tiles."""
    if normalizer.sums and len(tiles) > 1:
        sums = [_sums(*tile, dropout) for tile in tiles]
        return _weighed(sums, normalizer.sink)
    count, contexts = None, []
    if normalizer.counts:  # visible keys of a row, (B or 1, 1, T, 1)
        first, *others = (
            blocks.restored(ops.sum(float32(allowed), axis=-1, keepdims=True))
            for blocks, _, allowed, _ in tiles
        )
        count = sum(others, first)
    for blocks, scores, allowed, values in tiles:
        own = None
        if count is not None:  # rows that pad a block see no keys
            own = ops.maximum(blocks.rows(count), 1.0)
        context = tile_context(
            normalizer, scores, allowed, values, own, dropout
        )
        contexts.append(blocks.restored(context))
    return sum(contexts[1:], contexts[0])


def _sums(blocks, scores, allowed, values, dropout):
    """Returns a tile's context and sum of exponentials, and their exponent."""
    scores = _limited(scores, allowed)
    top = ops.amax(ops.stop_gradient(scores), axis=-1, keepdims=True)
    # Without allowed pairs all exponentials are zero.
    top = ops.maximum(top, FORBIDDEN / 2)
    weights = ops.exp(scores - top)
    total = ops.sum(weights, axis=-1, keepdims=True)
    weights = weights if dropout is None else dropout(weights)
    is_float16 = keras.backend.standardize_dtype(values.dtype) == "float16"
    if is_float16:  # a sum of values can overflow
        weights = weights / _positive(total)
    context = float32(ops.matmul(cast_like(weights, values), values))
    context = context * total if is_float16 else context
    return tuple(blocks.restored(x) for x in (context, total, top))


def _weighed(sums, sink):
    """Returns the context of several tiles, and an optional sink."""
    contexts, totals, tops = zip(*sums, strict=True)
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


def joined(tensors, axis=-1):
    """Concatenates tensors; a single one does not change."""
    return tensors[0] if len(tensors) == 1 else ops.concatenate(tensors, axis)

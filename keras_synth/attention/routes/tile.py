"""A tile: its logits `(B or 1, H, G, r, c)`, and its context.

It has G groups of r queries with c columns each.
"""

from keras import ops

from keras_synth._backend.tensors import cast_like, constant
from keras_synth.attention.logits import float32, sum_of, within_float32
from keras_synth.attention.normalizers import SOFTMAX
from keras_synth.attention.softmax import FORBIDDEN, softmax


def tile_scores(queries, keys, bias=None, allowed=None):
    """Returns the logits of a tile, float32 `(B or 1, H, G, r, c)`."""
    if queries is None:
        scores = float32(bias)
    else:
        queries, keys = within_float32(queries), within_float32(keys)
        product = ops.matmul(queries, ops.swapaxes(keys, -1, -2))
        scores = sum_of(float32(product), bias)
    if allowed is None:
        return scores
    # On PyTorch's CPUs adding is ten times as fast as selecting.
    nothing, least = (constant(x, scores) for x in (0.0, FORBIDDEN))
    return scores + ops.where(allowed, nothing, least)


def tile_context(normalizer, scores, allowed, values, count=None, dropout=None):
    """Returns the context of a tile, zero in rows without visible keys."""
    weights = normalizer.weights(scores, count)
    weights = weights if dropout is None else dropout(weights)
    context = ops.matmul(cast_like(weights, values), values)
    if allowed is None:
        return context
    visible = ops.any(allowed, axis=-1, keepdims=True)
    return ops.where(visible, context, ops.zeros((), context.dtype))


def combined(tiles, normalizer, dropout):
    """Returns the context `(B, H, T, v)` of all tiles.

    A softmax over several tiles is the average of their softmaxes, weighted by
    the sums of exponentials.
    """
    shares, count = None, None
    if normalizer.sums and len(tiles) > 1:
        shares = _shares(tiles, normalizer.sink)
        normalizer = SOFTMAX
    if normalizer.counts:  # visible keys of a row, (B or 1, 1, T, 1)
        count = sum(
            blocks.restored(ops.sum(float32(allowed), axis=-1, keepdims=True))
            for blocks, _, allowed, _ in tiles
        )
    contexts = []
    for i, (blocks, scores, allowed, values) in enumerate(tiles):
        # Rows that pad a block see no keys.
        own = None if count is None else ops.maximum(blocks.rows(count), 1.0)
        context = blocks.restored(
            tile_context(normalizer, scores, allowed, values, own, dropout)
        )
        if shares is not None:
            context = float32(context) * shares[..., i : i + 1]
        contexts.append(context)
    return sum(contexts[1:], contexts[0])


def _shares(tiles, sink):
    """Returns the weight of each tile in a row, and of an optional sink."""
    totals = [
        blocks.restored(ops.logsumexp(scores, axis=-1, keepdims=True))
        for blocks, scores, _, _ in tiles
    ]
    if sink:
        totals.append(ops.zeros_like(totals[0]))
    return softmax(ops.concatenate(totals, axis=-1))


def joined(tensors, axis=-1):
    """Concatenates tensors; a single one does not change."""
    return tensors[0] if len(tensors) == 1 else ops.concatenate(tensors, axis)

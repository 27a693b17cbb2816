"""Sums over keys for attention by products of positive features.

`weight_ij = phi(q_i) . phi(k_j)`: what queries need of the source is
`sum_j phi(k_j) v_j^T` and `sum_j phi(k_j)`, computed once for all of them. Time
and memory grow with the length, not with its square. All sums are float32.

Features of keys may be given without a factor `exp(c_j)` that they have in
common. A row's weights are then scaled by the largest `c_j` among those that
the row sees: nothing overflows, and no token depends on later ones.
"""

from typing import NamedTuple

from keras import ops

from keras_synth._backend.tensors import pad
from keras_synth.attention.softmax import FORBIDDEN

# Tokens whose weights are written out, as a triangle. Fewer are more chunks
# with a state for each, more are more weights that the triangle forbids.
CHUNK = 128


class State(NamedTuple):
    """What later tokens need to know of earlier ones.

    Fields:
        sums: Float32 tensor `(B, H, f, v + 1)`, sums over keys of features
            times values, and in the last column of the features alone.
        logs: Float32 tensor `(B, H)`, the logarithm of a factor of the sums;
            `None` if that is 1.
    """

    sums: object
    logs: object = None


class Source(NamedTuple):
    """Keys and values, float32.

    Fields:
        features: Tensor `(B, H, ..., S, f)`, zero where padded.
        values: Tensor `(B, H, ..., S, v + 1)`, the last column being 1.
        logs: Tensor `(B, H, ..., S)`, logarithms `c_j` of a factor of the
            features, or `None`.
    """

    features: object
    values: object
    logs: object = None


def source_of(features, values, logs=None):
    """Returns the `Source` of tensors `(B, S, H, ...)`."""
    widths = [[0, 0], [0, 0], [0, 0], [0, 1]]
    values = pad(ops.cast(values, "float32"), widths, value=1.0)
    if logs is not None:
        logs = ops.transpose(logs, (0, 2, 1))
    return Source(heads_first(features), heads_first(values), logs)


def heads_first(x):
    """`(B, T, H, f) -> (B, H, T, f)`, float32; or the other way round."""
    return ops.transpose(ops.cast(x, "float32"), (0, 2, 1, 3))


def summed(source, state=None):
    """Returns the `State` after all of a source."""
    largest = None
    features = source.features
    if source.logs is not None:
        largest = ops.amax(source.logs, axis=-1, keepdims=True)
        features = features * ops.exp(source.logs - largest)[..., None]
        largest = largest[..., 0]
    sums = ops.matmul(ops.swapaxes(features, -1, -2), source.values)
    own = State(sums, largest)
    return own if state is None else _joined(state, own)


def _joined(state, other):
    if state.logs is None:
        return State(state.sums + other.sums)
    logs = ops.maximum(state.logs, other.logs)
    sums = sum(
        x.sums * ops.exp(x.logs - logs)[..., None, None] for x in (state, other)
    )
    return State(sums, logs)


def causal(queries, source, state):
    """Sums over the keys up to each query's own.

    Args:
        queries: Float32 tensor `(B, H, T, f)`, features.
        source: `Source` of any number of tokens.
        state: `State` of the tokens before.

    Returns:
        Tensor `(B, H, T, v + 1)`; and the `State` after all tokens, where
        there are as many of both.
    """
    length = ops.shape(queries)[2]
    size = min(length, CHUNK) if isinstance(length, int) else CHUNK
    whole = length + -length % size
    queries = _chunks(queries, size, whole)
    source = Source(
        _chunks(source.features, size, whole),
        _chunks(source.values, size, whole),
        None
        if source.logs is None
        else _chunks(source.logs[..., None], size, whole, FORBIDDEN)[..., 0],
    )
    before, after = _running(summed(source), state)
    found = _within(queries, source, before)
    shape = ops.shape(found)
    found = ops.reshape(found, (*shape[:2], shape[2] * size, shape[4]))
    return found[:, :, :length], after


def _chunks(x, size, whole, filler=0.0):
    """`(B, H, n, f) -> (B, H, whole / size, size, f)`, cut or filled up."""
    x = x[:, :, :whole]
    missing = whole - ops.shape(x)[2]
    if not (isinstance(missing, int) and missing == 0):
        widths = [[0, 0], [0, 0], [0, missing], [0, 0]]
        x = pad(x, widths, value=filler)
    batch, heads, _, width = ops.shape(x)
    return ops.reshape(x, (batch, heads, whole // size, size, width))


def _running(own, state):
    """The `State`s before each chunk, `(B, H, chunks, ...)`, and after all."""
    sums = ops.concatenate([state.sums[:, :, None], own.sums], axis=2)
    if own.logs is None:
        sums = ops.cumsum(sums, axis=2)
        return State(sums[:, :, :-1]), State(sums[:, :, -1])
    logs = ops.concatenate([state.logs[..., None], own.logs], axis=2)
    earlier = _earlier(ops.shape(logs)[2])
    largest, factors = _scaled(logs, earlier)
    sums = ops.einsum("bhrs,bhsfv->bhrfv", factors, sums)
    return (
        State(sums[:, :, :-1], largest[:, :, :-1]),
        State(sums[:, :, -1], largest[:, :, -1]),
    )


def _within(queries, source, before):
    """Sums over earlier chunks, and over the own one up to each row."""
    weights = ops.matmul(queries, ops.swapaxes(source.features, -1, -2))
    earlier = _earlier(weights.shape[-1])
    past = ops.matmul(queries, before.sums)
    if source.logs is None:
        weights = ops.where(earlier, weights, 0.0)
    else:
        largest, factors = _scaled(source.logs, earlier, before.logs[..., None])
        weights = weights * factors
        past = past * ops.exp(before.logs[..., None] - largest)[..., None]
    return past + ops.matmul(weights, source.values)


def _earlier(size):
    """Boolean `(size, size)`: which columns are no later than a row."""
    places = ops.arange(size)
    return places[:, None] >= places


def _scaled(logs, earlier, least=FORBIDDEN):
    """The largest logarithm up to each place, and all factors by it.

    Args:
        logs: Tensor `(..., n)`.
        earlier: Boolean tensor `(n, n)`.
        least: Tensor that broadcasts to `(..., n)`; none is smaller.

    Returns:
        Tensors `(..., n)` and `(..., n, n)`, the latter 0 where not earlier.
    """
    logs = ops.where(earlier, logs[..., None, :], FORBIDDEN)
    largest = ops.maximum(ops.amax(logs, axis=-1), least)
    factors = ops.exp(logs - largest[..., None])
    return largest, ops.where(earlier, factors, 0.0)

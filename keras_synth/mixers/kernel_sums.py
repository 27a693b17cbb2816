"""Sums over keys for attention by products of positive features.

With `weight_ij = phi(q_i) . phi(k_j)`, all queries need the same sums over the
source, `sum_j phi(k_j) v_j^T` and `sum_j phi(k_j)`, in float32.

The features of a key can omit a common factor `exp(c_j)`. The weights of a row
are then scaled by the largest `c_j` that the row sees, so that nothing
overflows and no token depends on later ones.

A state is a dictionary of float32 tensors: `"sums"`, `(B, H, f, v + 1)`, over
keys of features times values, and of the features in the last column; and
`"logs"`, `(B, H)`, the logarithm of a factor of the sums, if there is one.
"""

from typing import NamedTuple

from keras import ops

from keras_synth._backend.tensors import heads_first, indices, pad
from keras_synth.attention.softmax import FORBIDDEN

# Tokens per chunk. A chunk computes a square of weights and uses a triangle.
# Smaller chunks need more states; larger ones waste more weights.
CHUNK = 128


class Source(NamedTuple):
    """Keys and values, float32.

    Fields:
        features: Tensor `(B, H, ..., S, f)`, zero for padding.
        values: Tensor `(B, H, ..., S, v + 1)`, with a last column of 1.
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


def summed(source, state=None):
    """Returns the state after a source."""
    features, own = source.features, {}
    if source.logs is not None:
        largest = ops.amax(source.logs, axis=-1, keepdims=True)
        features = features * ops.exp(source.logs - largest)[..., None]
        own["logs"] = largest[..., 0]
    own["sums"] = ops.matmul(ops.swapaxes(features, -1, -2), source.values)
    return own if state is None else _joined(state, own)


def _joined(*states):
    if "logs" not in states[0]:
        return {"sums": sum(x["sums"] for x in states)}
    logs = ops.maximum(*(x["logs"] for x in states))
    sums = (x["sums"] * _factor(x["logs"] - logs) for x in states)
    return {"sums": sum(sums), "logs": logs}


def _factor(logs):
    return ops.exp(logs)[..., None, None]


def causal(queries, source, state):
    """Sums over the keys up to each query's own, `(B, H, T, v + 1)`.

    Queries are features `(B, H, T, f)`. Also returns the state after all
    tokens if queries and source have the same number of tokens.
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
    """`(B, H, n, f) -> (B, H, whole / size, size, f)`, cut or padded."""
    x = x[:, :, :whole]
    missing = whole - ops.shape(x)[2]
    if not (isinstance(missing, int) and missing == 0):
        widths = [[0, 0], [0, 0], [0, missing], [0, 0]]
        x = pad(x, widths, value=filler)
    batch, heads, _, width = ops.shape(x)
    return ops.reshape(x, (batch, heads, whole // size, size, width))


def _running(own, state):
    """The states before each chunk, `(B, H, chunks, ...)`, and at the end."""
    sums = ops.concatenate([state["sums"][:, :, None], own["sums"]], axis=2)
    if "logs" in own:
        logs = ops.concatenate([state["logs"][..., None], own["logs"]], axis=2)
        logs, factors = _scaled(logs, _earlier(ops.shape(logs)[2]))
        sums = ops.einsum("bhrs,bhsfv->bhrfv", factors, sums)
        sums = {"sums": sums, "logs": logs}
    else:
        sums = {"sums": ops.cumsum(sums, axis=2)}
    before = {name: x[:, :, :-1] for name, x in sums.items()}
    return before, {name: x[:, :, -1] for name, x in sums.items()}


def _within(queries, source, before):
    """Sums over earlier chunks, and over the same chunk up to each row."""
    weights = ops.matmul(queries, ops.swapaxes(source.features, -1, -2))
    earlier = _earlier(weights.shape[-1])
    past = ops.matmul(queries, before["sums"])
    if source.logs is None:
        weights = ops.where(earlier, weights, 0.0)
    else:
        logs = before["logs"][..., None]
        largest, factors = _scaled(source.logs, earlier, logs)
        weights = weights * factors
        past = past * ops.exp(logs - largest)[..., None]
    return past + ops.matmul(weights, source.values)


def _earlier(size):
    """Boolean `(size, size)`, True for columns up to the row."""
    places = indices(size)
    return places[:, None] >= places


def _scaled(logs, earlier, least=FORBIDDEN):
    """The largest logarithm up to each place, and the factors relative to it.

    From `(..., n)` it makes `(..., n)`, at least `least`, and `(..., n, n)`,
    zero for later places.
    """
    logs = ops.where(earlier, logs[..., None, :], FORBIDDEN)
    largest = ops.maximum(ops.amax(logs, axis=-1), least)
    factors = ops.exp(logs - largest[..., None])
    return largest, ops.where(earlier, factors, 0.0)

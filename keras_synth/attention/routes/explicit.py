"""The explicit route: all weights, `(B, H, T, S)`, at once."""

from typing import Any

from keras import ops

from keras_synth._backend import kernels
from keras_synth._backend.tensors import cast_like
from keras_synth.attention.logits import float32, within_float32
from keras_synth.attention.normalizers import normalized
from keras_synth.attention.routes.route import Request, Route


class ExplicitRoute(Route):
    """The formula, with which all other routes are compared.

    Example:

    >>> keras_synth.routes.get("explicit")
    <ExplicitRoute 'explicit'>
    """

    name = "explicit"
    normalizers = None

    def serves(self, request: Request) -> bool:
        return not request.flash_attention

    def cost(self, request: Request) -> float:
        return 1.0

    def is_portable(self, request: Request) -> bool:
        return True

    def run(self, request: Request) -> Any:
        request = request.with_pairs().with_zero_keys()
        logits, values, mask = request.logits, request.values, request.mask
        one = request.has_one_query and values.shape[1] is not None
        # (B or 1, H, T, S)
        scores = _query_scores(logits) if one else logits.materialize()
        weights = normalized(
            request.normalizer, scores, mask.materialize(), request.count()
        )
        if request.dropout is not None or request.return_weights:
            shape = ops.shape(values)[0], *ops.shape(weights)[1:]
            weights = ops.broadcast_to(weights, shape)
        kept = request.dropout(weights) if request.dropout else weights
        kept = cast_like(kept, values)
        if one:
            context = query_context(kept, values)
        else:
            context = ops.matmul(kept, ops.transpose(values, (0, 2, 1, 3)))
            context = ops.transpose(context, (0, 2, 1, 3))
        return (context, weights) if request.return_weights else context


# --- one query, as in a step of decoding --------------------------------------
#
# The least work is to read keys and values once, but a matrix product per head
# first copies them into another layout. Compilers can fuse a product and a sum
# into one loop. Without a compiler, one matrix product is for all heads: of
# features that are zero except for one head, or of the values of all heads,
# from which each head selects its own. This needs more arithmetic but no copy.


def _query_scores(logits):
    """The logits of one query, `(B or 1, H, 1, S)`."""
    queries, keys = logits.queries, logits.keys
    if queries is None or 1 in (queries.shape[0], keys.shape[0]):
        return logits.materialize()
    scores = _query_products(within_float32(queries), within_float32(keys))
    scores = float32(scores)
    return scores if logits.bias is None else scores + float32(logits.bias)


def _query_products(queries, keys):
    """`queries . keys`: `(B, 1, H, k), (B, S, H, k) -> (B, H, 1, S)`."""
    if kernels.FUSES_DOT_PRODUCTS:
        products = ops.sum(queries * keys, axis=-1)  # (B, S, H)
        return ops.transpose(products, (0, 2, 1))[:, :, None]
    length, heads, width = keys.shape[1:]
    own = ops.eye(heads, dtype=queries.dtype)[None, :, :, None] * queries
    own = ops.reshape(own, (-1, heads, heads * width))  # zero except one head
    columns = ops.reshape(keys, (-1, length, heads * width))
    products = ops.matmul(columns, ops.transpose(own, (0, 2, 1)))  # (B, S, H)
    return ops.transpose(products, (0, 2, 1))[:, :, None]


def query_context(weights, values):
    """`weights values`: `(B or 1, H, 1, S), (B, S, H, v) -> (B, 1, H, v)`."""
    # For a single sample XLA's loop is slow.
    if kernels.FUSES_OPERATIONS and values.shape[0] != 1:
        weights = ops.transpose(weights, (0, 3, 1, 2))  # (B or 1, S, H, 1)
        return ops.sum(weights * values, axis=1, keepdims=True)
    length, heads, width = values.shape[1:]
    columns = ops.reshape(values, (-1, length, heads * width))
    every = ops.matmul(weights[:, :, 0], columns)
    every = ops.reshape(every, (-1, heads, heads, width))
    own = ops.diagonal(every, axis1=1, axis2=2)  # (B, v, H)
    return ops.transpose(own, (0, 2, 1))[:, None]

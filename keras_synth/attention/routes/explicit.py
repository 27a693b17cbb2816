"""The explicit route: all weights, `(B, H, T, S)`, at once."""

from typing import Any

from keras import ops

from keras_synth._backend import kernels
from keras_synth._backend.tensors import cast_like
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
        weights = normalized(  # (B or 1, H, T, S)
            request.normalizer,
            logits.materialize(),
            mask.materialize(),
            request.count(),
        )
        if request.dropout is not None or request.return_weights:
            batch, _, heads, _ = ops.shape(values)
            rows, columns = request.target_length, ops.shape(weights)[3]
            shape = batch, heads, rows, columns
            weights = ops.broadcast_to(weights, shape)
        kept = request.dropout(weights) if request.dropout else weights
        kept = cast_like(kept, values)
        if request.has_one_query and values.shape[1] is not None:
            context = query_context(kept, values)
        else:
            context = ops.matmul(kept, ops.transpose(values, (0, 2, 1, 3)))
            context = ops.transpose(context, (0, 2, 1, 3))
        return (context, weights) if request.return_weights else context


def query_context(weights, values):
    """`weights values`: `(B or 1, H, 1, S), (B, S, H, v) -> (B, 1, H, v)`.

    As for the logits of one query, without copies: each head selects its own
    from one product with the values of all heads.
    """
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

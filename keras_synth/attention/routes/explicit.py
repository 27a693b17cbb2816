"""The explicit route: all weights, `(B, H, T, S)`, at once."""

from typing import Any

from keras import ops

from keras_synth.attention.masks import zero_padded_keys
from keras_synth.attention.normalizers import SOFTMAX
from keras_synth.attention.routes import single_query
from keras_synth.attention.routes.route import Request, Route
from keras_synth.attention.softmax import forbid, masked_softmax


class ExplicitRoute(Route):
    """The formula as it stands; the measure of all other routes.

    Example:

    >>> from keras_synth.attend import attend
    >>> from keras_synth.logits import Logits
    >>> logits = Logits(bias=keras.random.normal((1, 2, 5, 5)))
    >>> values = keras.random.normal((3, 5, 2, 4))
    >>> attend(logits, values, route="explicit").shape
    (3, 5, 2, 4)
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
        request = request.with_pairs()
        logits, values, mask = request.logits, request.values, request.mask
        logits = zero_padded_keys(logits, mask)
        one = request.of_one_query and values.shape[1] is not None
        # (B or 1, H, T, S)
        scores = _row(logits) if one else logits.materialize()
        weights = _weights(scores, mask.materialize(), request)
        if request.dropout is None and not request.return_weights and not one:
            weights = ops.cast(weights, values.dtype)
            values = ops.transpose(values, (0, 2, 1, 3))
            return ops.transpose(ops.matmul(weights, values), (0, 2, 1, 3))
        weights = ops.broadcast_to(
            weights, (ops.shape(values)[0], *ops.shape(weights)[1:])
        )
        dropped = weights
        if request.dropout is not None:
            dropped = request.dropout(weights)
        dropped = ops.cast(dropped, values.dtype)
        if one:
            context = single_query.context(dropped, values)
        else:
            context = ops.einsum("bhts,bshv->bthv", dropped, values)
        return (context, weights) if request.return_weights else context


def _weights(scores, allowed, request):
    """Weights `(B or 1, H, T, S)`, zero where not allowed."""
    if request.normalizer == SOFTMAX:
        return masked_softmax(scores, allowed)
    if allowed is not None:
        scores = forbid(scores, allowed)
    return request.normalizer.weights(scores, request.count())


def _row(logits):
    """The logits of one query, `(B or 1, H, 1, S)`."""
    queries, keys, bias = logits
    if queries is None or 1 in (queries.shape[0], keys.shape[0]):
        return logits.materialize()
    scores = ops.cast(single_query.scores(queries, keys), "float32")
    return scores if bias is None else scores + ops.cast(bias, "float32")

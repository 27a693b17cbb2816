"""`attend` turns logits, values and a mask into a context, by a route.

It also ensures that padding has no influence on any route.
"""

from keras import ops

from keras_synth import routes
from keras_synth.attention.logits import Weights
from keras_synth.attention.masks import AttentionMask, zero_padding
from keras_synth.attention.normalizers import SOFTMAX
from keras_synth.attention.routes.route import Request

__all__ = ["attend"]


def attend(
    logits,
    values,
    mask=None,
    *,
    target_length=None,
    dropout=None,
    return_weights=False,
    route=None,
    flash_attention=None,
    normalizer=SOFTMAX,
):
    """Returns `softmax(logits, masked) values`, the softmax in float32.

    A query row without visible keys has a zero context. Padding never affects
    other rows, even if it contains inf or NaN.

    Args:
        logits: `Logits` or `Weights`.
        values: Tensor `(B, S, H, v)`.
        mask: Optional `AttentionMask`.
        target_length: Integer or scalar tensor, `T`. Needed if the logits have
            one row for all queries.
        dropout: Optional function that drops and rescales normalized weights:
            `(B, H, T, S)` on the explicit route, one `(H, T, S)` table for the
            whole batch on the shared route.
        return_weights: Whether to also return the weights, before dropout.
        route: Optional name of a route, for tests and benchmarks. Defaults to
            the route of least cost.
        flash_attention: `True` demands the backend's flash kernel, `False`
            forbids it.
        normalizer: `Normalizer` of the logits; see
            `keras_synth.mixers.normalizers`.

    Returns:
        Tensor `(B, T, H, v)` in the dtype of `values`. With `return_weights` a
        tuple of it and the float32 weights `(B, H, T, S)`. Rows of a softmax
        sum to 1, or to 0 without visible keys.

    Raises:
        ValueError: If `route` is unknown or does not support these arguments.

    Example:

    >>> from keras_synth.attend import attend
    >>> from keras_synth.logits import Logits
    >>> q, k, values = keras.random.normal((3, 2, 50, 4, 16))
    >>> attend(Logits(q, k), values, route="explicit").shape
    (2, 50, 4, 16)
    """
    mask = AttentionMask() if mask is None else mask
    if target_length is None:
        target_length = logits.target_length
    request = Request(
        logits.with_rows(target_length),
        zero_padding(ops.convert_to_tensor(values), mask.keys),
        target_length,
        mask,
        dropout,
        return_weights,
        flash_attention,
        normalizer,
    )
    if isinstance(logits, Weights) and (
        route is not None or not routes.serving(request)
    ):
        request = request._replace(logits=logits.as_logits())
    result = routes.choose(request, route).run(request)
    if not return_weights:
        return zero_padding(result, mask.queries)
    context, weights = result
    if mask.queries is None:
        return result
    weights = ops.where(mask.queries[:, None, :, None], weights, 0.0)
    return zero_padding(context, mask.queries), weights

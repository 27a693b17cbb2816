"""Which routes there are for logits, values and a mask."""

from keras import ops

from keras_synth import routes
from keras_synth.masks import AttentionMask


def able(logits, values, mask=None):
    """Names of the routes that can serve, a list."""
    mask = AttentionMask() if mask is None else mask
    values = ops.convert_to_tensor(values)
    request = routes.Request(logits, values, logits.target_length, mask)
    return [route.name for route in routes.serving(request)]

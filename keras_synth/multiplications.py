"""How many multiplications a layer takes, by parts."""

import collections

PARTS = (
    "projections",
    "logits",
    "softmax",
    "mixing",
    "output",
    "feed-forward",
    "output layer",
)


def of_dense(layer, tokens):
    """Multiplications of a `Dense` or `EinsumDense` layer.

    Args:
        layer: The layer, or `None` for 0.
        tokens: Integer, how many vectors it is applied to.
    """
    if layer is None:
        return 0
    count = 1
    for size in layer.kernel.shape:
        count *= size
    return tokens * count


def added(*counts):
    """Adds up dictionaries of counts."""
    total = collections.Counter()
    for count in counts:
        total.update(count)
    return dict(total)

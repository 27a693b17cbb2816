"""How many multiplications a layer takes, by parts.

What each type of synthesizer and mixer takes, `mixers/costs.py` says.
"""

import collections
import functools

PARTS = (
    "projections",
    "logits",
    "softmax",
    "mixing",
    "output",
    "feed-forward",
    "output layer",
)


def _by_type(method, arguments="query_length, source_length"):
    """Returns a function of a layer and lengths, one for each type.

    Args:
        method: String, what a class implements that is not registered.
        arguments: String, those of the method.
    """

    @functools.singledispatch
    def count(layer, *lengths):
        raise ValueError(
            f"{type(layer).__name__} does not count its multiplications. "
            f"Implement `{method}({arguments})` there. Received: {layer.name}"
        )

    return count


of_synthesizer = _by_type(
    "multiplications", "query_length, source_length, pairs=None"
)
of_mixer = _by_type("multiplications")
of_projections = _by_type("projection_multiplications")
of_attend = _by_type("attend_multiplications")


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


def of_pairs(pairs, key_dim, value_dim):
    """Multiplications of weights that are products of features.

    Args:
        pairs: Integer, how many of a query and a key, of all heads.
        key_dim: Integer, features per head of queries and keys, `k`.
        value_dim: Integer, features per head of values, `v`.

    Returns:
        Dictionary: `"logits"`, `"softmax"`, a division for each weight, and
        `"mixing"`.
    """
    return {
        "logits": pairs * key_dim,
        "softmax": pairs,
        "mixing": pairs * value_dim,
    }


def pairs_within(window, query_length, source_length):
    """How many pairs of a query and a key are near each other.

    Args:
        window: Integer, `|i - j| < window`; `None` for all pairs.
        query_length: Integer, `T`.
        source_length: Integer, `S`.
    """
    if window is None:
        return query_length * source_length
    return sum(
        max(0, min(source_length, i + window) - max(0, i - window + 1))
        for i in range(query_length)
    )


def pairs_or_all(pairs, query_length, source_length):
    """A number of pairs, or that of all where it is `None`."""
    return query_length * source_length if pairs is None else pairs


def added(*counts):
    """Adds up dictionaries of counts."""
    total = collections.Counter()
    for count in counts:
        total.update(count)
    return dict(total)

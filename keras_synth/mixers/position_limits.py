"""Requirements of a pattern on sequences and caches."""

import numpy as np
from keras import ops

from keras_synth._backend.tensors import take
from keras_synth.attention import patterns
from keras_synth.attention.positions import shortest
from keras_synth.mixers.call import check_longest


class _Listed(patterns.Pattern):
    """Pairs in a weight `(N, N)`."""

    sees_itself = False

    def __init__(self, table):
        self.table = table

    def allows(self, rows, columns):
        size = self.table.shape[0]
        rows, columns = (ops.clip(x, 0, size - 1) for x in (rows, columns))
        flat = ops.reshape(ops.convert_to_tensor(self.table), (-1,))
        return take(flat, rows * size + columns, 0) > 0


def with_listed_pairs(layer, pattern):
    """Returns a pattern, with an array of pairs as a weight of the layer.

    Other patterns, which can be computed in blocks, do not change.
    """
    size = None if pattern is None else _listed_length(pattern)
    if size is None:
        return pattern
    at = np.arange(size)
    allowed = pattern.allows(at[:, None], at[None]).astype("uint8")
    # TensorFlow saves only variables that are attributes.
    layer.listed_pairs = table = layer.add_weight(
        name="pattern",
        shape=allowed.shape,
        dtype="uint8",
        initializer=lambda shape, dtype: ops.convert_to_tensor(allowed, dtype),
        trainable=False,
        autocast=False,
    )
    return _Listed(table)


def cached_reach(layer):
    """Returns the distance to the farthest token that a cache needs, or `None`.

    Tables and patterns of positions need all of them, because the last ones
    differ by sample.
    """
    pattern, synthesizer = layer.pattern, layer.synthesizer
    if layer.sliding_window is not None or not synthesizer.remembers_last:
        return None
    if pattern is None:
        return synthesizer.reach
    reach = shortest(synthesizer.reach, pattern.reach)
    return reach if pattern.relative else None


def check_pattern_lengths(pattern, query_length, source_length):
    """Raises if known lengths do not fit a pattern."""
    lengths = query_length, source_length
    known = all(isinstance(x, int) for x in lengths)
    if known and query_length != source_length:
        raise ValueError(
            "A pattern is for the positions of one sequence: query and source "
            "must have the same length. Leave out the pattern for "
            f"cross-attention. Received: {query_length} and {source_length} "
            f"tokens with pattern={pattern}"
        )
    drawn = [getattr(x, "max_length", None) for x in pattern.patterns]
    check_longest(query_length, shortest(_listed_length(pattern), *drawn))


def _listed_length(pattern):
    """The number of positions in arrays of pairs, or `None`."""
    sizes = [
        len(part.allowed)
        for part in pattern.patterns
        if isinstance(part, patterns.Pairs)
    ]
    return min(sizes, default=None)

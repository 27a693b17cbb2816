"""`PositionLimits`: the pattern of an attention layer."""

import math

import numpy as np
from keras import ops

from keras_synth.attention import patterns
from keras_synth.attention.positions import shortest
from keras_synth.mixers.call import check_longest
from keras_synth.types import WeightAxes


class _Listed(patterns.Pattern):
    """Pairs that a weight `(N, N)` lists."""

    sees_itself = False
    has_pieces = False

    def __init__(self, table):
        self.table = table

    def allows(self, rows, columns):
        size = self.table.shape[0]
        rows, columns = (ops.clip(x, 0, size - 1) for x in (rows, columns))
        flat = ops.reshape(ops.convert_to_tensor(self.table), (-1,))
        return ops.take(flat, rows * size + columns) > 0


class PositionLimits:
    """Which positions of a layer's sequence attend to which.

    A pattern that cannot be computed in blocks, one with an array of pairs, is
    kept as a weight of the layer.

    Args:
        pattern: What `patterns.get` takes, or `None`.
        max_length: Integer, the longest sequence in tokens, or `None`.
    """

    # Of the layer that it is built for.
    weight_axes: WeightAxes = {"pattern": ()}

    def __init__(self, pattern, max_length=None):
        self.pattern = None
        if pattern is not None:
            self.pattern = patterns.get(pattern).fitted(max_length)
        self.table = None

    def build(self, layer):
        """Adds the weight to a layer, if there is one."""
        if self._length() is None:
            return
        allowed = self._pairs()
        self.table = layer.add_weight(
            name="pattern",
            shape=allowed.shape,
            dtype="uint8",
            initializer=lambda shape, dtype: ops.convert_to_tensor(
                allowed, dtype
            ),
            trainable=False,
            autocast=False,
        )

    @property
    def in_force(self):
        """The pattern that calls are limited by, or `None`."""
        return self.pattern if self.table is None else _Listed(self.table)

    def of_cache(self, synthesizer):
        """The window that is all that caches hold, where no more is seen.

        Tables of positions would have to be read at other positions for each
        sample.
        """
        limits = [synthesizer.reach]
        if self.pattern is not None:
            limits.append(self.pattern.reach or math.inf)
        reach = shortest(*limits)
        if reach in (None, math.inf) or not synthesizer.remembers_last:
            return None
        return patterns.Window(reach)

    def _pairs(self):
        """All pairs, `(N, N)`, of as many positions as are listed."""
        at = np.arange(self._length())
        return self.pattern.allows(at[:, None], at[None]).astype("uint8")

    def _length(self):
        """The most positions, or `None`."""
        if self.pattern is None:
            return None
        sizes = [
            len(part.allowed)
            for part in self.pattern.patterns
            if isinstance(part, patterns.Pairs)
        ]
        return min(sizes, default=None)

    def check_longest(self, length):
        """Raises if a sequence or a cache is longer than the pattern."""
        if self.pattern is None:
            return
        drawn = [getattr(x, "max_length", None) for x in self.pattern.patterns]
        check_longest(length, shortest(self._length(), *drawn))

    def check_lengths(self, query_length, source_length):
        """Raises if lengths are known that do not fit."""
        if self.pattern is None:
            return
        lengths = query_length, source_length
        known = all(isinstance(x, int) for x in lengths)
        if known and query_length != source_length:
            raise ValueError(
                "A pattern is of the positions of one sequence: query and "
                "source must have as many tokens. Leave out the pattern for "
                f"cross-attention. Received: {query_length} and "
                f"{source_length} tokens with pattern={self.pattern}"
            )
        self.check_longest(query_length)

    def check_is_none(self):
        """Raises if there is a pattern: of a source without positions."""
        if self.pattern is not None:
            raise ValueError(
                "A pattern is of the positions of one sequence: a cache needs "
                "the first one, `start`. Leave out the pattern for "
                f"cross-attention. Received: start=None, {self.pattern}"
            )

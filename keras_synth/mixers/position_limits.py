"""`PositionLimits`: the pattern of an attention layer."""

import keras
import numpy as np
from keras import ops

from keras_synth.attention import masks, patterns
from keras_synth.attention.positions import window


class PositionLimits:
    """Which positions of a layer's sequence attend to which.

    A pattern that cannot be computed in blocks, one with an array of pairs, is
    kept as a weight of the layer.

    Args:
        pattern: What `patterns.get` takes, or `None`.
        max_length: Integer, the longest sequence in tokens, or `None`.
    """

    def __init__(self, pattern, max_length=None):
        self.pattern = None
        if pattern is not None:
            self.pattern = patterns.get(pattern).fitted(max_length)
        self.table = None

    def build(self, layer):
        """Adds the weight to a layer, if there is one."""
        if self.pattern is None or self.pattern.has_pieces:
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

    def check_lengths(self, query_length, source_length):
        """Raises if lengths are known that do not fit.

        Args:
            query_length: Integer, `T`; `None` or a tensor is not checked.
            source_length: Likewise, `S`.
        """
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
        most = self._length()
        if known and most is not None and query_length > most:
            raise ValueError(
                f"The pattern lists pairs of {most} positions. Pass a larger "
                f"array, or shorten the input. Received: {query_length} tokens"
            )

    def check_is_none(self):
        """Raises if there is a pattern: of a source without positions."""
        if self.pattern is not None:
            raise ValueError(
                "A pattern is of the positions of one sequence: a cache needs "
                "the first one, `start`. Leave out the pattern for "
                f"cross-attention. Received: start=None, {self.pattern}"
            )

    def limited(self, mask, target_length, source_length):
        """Returns an `AttentionMask` with the pattern in it.

        Args:
            mask: `AttentionMask`, whose `start` is the first row's position.
            target_length: Integer or scalar tensor, `T`.
            source_length: Integer or scalar tensor, `S`.
        """
        if self.table is None:
            return mask._replace(pattern=self.pattern)
        rows = window(self.table, 0, mask.start, target_length)
        pairs = window(rows, 1, 0, source_length)[None, None] > 0
        return mask._replace(pairs=masks.both(mask.pairs, pairs))

    def serialized(self):
        """The pattern's config, or `None`."""
        if self.pattern is None:
            return None
        return keras.saving.serialize_keras_object(self.pattern)

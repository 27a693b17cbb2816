"""Groups of heads with different synthesizers in one layer."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_synth.attention.logits import Logits, repeat_batch
from keras_synth.synthesizers.composite import (
    CompositeSynthesizer,
    checked_parts,
)
from keras_synth.types import Identifier


@keras.saving.register_keras_serializable(package="keras_synth")
class HeadGroupsSynthesizer(CompositeSynthesizer):
    """Gives each group of heads its own synthesizer ("heads").

    With `"heads(V=4, R=4)"` the first four heads compare tokens, and the other
    four attend by position. `"heads(4 * V + 4 * FR(rank=32))"` sets options of
    a group. Heads of R need no keys.

    Args:
        synthesizers: Sequence of synthesizers, in the order of their heads.
            Their default names are `"group_0"`, `"group_1"`, ... `H` is the sum
            of their `num_heads`.
        **kwargs: Arguments of `Synthesizer`.

    Call arguments: those of `Synthesizer.call`; `keys` is a tuple.

    Returns:
        `Logits`: bias `(B or 1, H, T, S)`. `SyntheticAttention` does not use
        it, because it attends group by group.

    Example:

    >>> layer = keras_synth.layers.SyntheticAttention(
    ...     num_heads=8, key_dim=16, synthesizer="heads(V=4, R=4)",
    ...     max_length=128)
    >>> layer(keras.random.normal((2, 100, 64))).shape
    (2, 100, 64)
    """

    place = "group"

    def __init__(
        self, synthesizers: Sequence[Identifier], **kwargs: Any
    ) -> None:
        parts = checked_parts(synthesizers, "A layer with groups of heads")
        shared = [part.num_key_value_heads for part in parts]
        if any(
            n not in (None, part.num_heads)
            for n, part in zip(shared, parts, strict=True)
        ):
            raise ValueError(
                "Groups of heads cannot share keys and values. Leave out "
                "`num_key_value_heads`, or use one synthesizer for all heads. "
                f"Received: num_key_value_heads={shared} of the groups"
            )
        num_heads = sum(part.num_heads for part in parts)
        super().__init__(num_heads, parts, **kwargs)
        self.key_dim = max(part.key_dim for part in parts)

    def head_groups(self):
        return tuple(self.synthesizers)

    def project_keys(self, source):
        """Returns a tuple of the keys of each group: tensors or `None`."""
        return tuple(group.project_keys(source) for group in self.head_groups())

    def call(self, query, keys=None, *, start=0, length=None):
        target_length, source_length = self.lengths(query, start, length)
        keys = keys or (None,) * len(self.head_groups())
        tables = [
            group.as_function(query)(
                query, keys=own, start=start, length=source_length
            )
            .with_rows(target_length)
            .materialize()
            for group, own in zip(self.head_groups(), keys, strict=True)
        ]
        if any(table.shape[0] != 1 for table in tables):
            batch = ops.shape(query)[0]
            tables = [
                repeat_batch(x, batch) if x.shape[0] == 1 else x for x in tables
            ]
        return Logits(bias=ops.concatenate(tables, axis=1))

"""Synthesizers that consist of others: their base, and groups of heads."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_synth._backend.policies import inherit_settings
from keras_synth.attention.logits import Logits
from keras_synth.synthesizers.synthesizer import (
    DEFAULT_NAME,
    Synthesizer,
    with_dtype,
)
from keras_synth.types import Identifier


class CompositeSynthesizer(Synthesizer):
    """The base of mixtures and groups of heads."""

    place = "part"  # with the index, the name of a part without a name

    def __init__(
        self, synthesizers: Sequence[Identifier], **kwargs: Any
    ) -> None:
        if "seed" in kwargs:
            raise ValueError(
                f"{type(self).__name__} draws no initial values itself. Pass a "
                "`seed` to each of its parts, or make it with "
                '`keras_synth.synthesizers.get("R+V", ..., seed=1)`. Received: '
                f"seed={kwargs['seed']!r}"
            )
        names = _names_of(synthesizers, self.place)
        super().__init__(self._heads_of(synthesizers), **kwargs)
        self.synthesizers = synthesizers
        self.reads_tokens = any(part.reads_tokens for part in synthesizers)
        self.needs_float32 = any(part.needs_float32 for part in synthesizers)
        for part in synthesizers:
            part.attach_to(self)
        # Last: after an error, the part of another layer must keep its name,
        # which is in the paths of that layer's weights.
        for part, name in zip(synthesizers, names, strict=True):
            part.name = name

    def _heads_of(self, parts):
        """The number of heads, `H`."""
        raise NotImplementedError

    def build(self, query_shape, source_shape=None):
        for part in self.synthesizers:
            if not part.built:
                part.build(query_shape, source_shape)
                inherit_settings(part)

    def check_lengths(self, target_length, source_length, start=0):
        for part in self.synthesizers:
            part.check_lengths(target_length, source_length, start)

    def get_config(self):
        config = super().get_config()
        del config["num_heads"]  # in the configs of the parts
        return config

    @classmethod
    def from_config(cls, config):
        dtype = config.get("dtype")
        parts = [
            keras.saving.deserialize_keras_object(with_dtype(part, dtype))
            for part in config["synthesizers"]
        ]
        return cls(**{**config, "synthesizers": parts})


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

    Call arguments: those of `Synthesizer.call`; `keys` is the result of
        `project_keys`.

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
        super().__init__(parts, **kwargs)
        self.key_dim = max(part.key_dim for part in parts)
        if any(part.num_key_value_heads for part in parts):
            self.num_key_value_heads = sum(
                part.num_key_value_heads or part.num_heads for part in parts
            )

    def _heads_of(self, parts):
        return sum(part.num_heads for part in parts)

    def head_groups(self):
        return tuple(self.synthesizers)

    def project_keys(self, source):
        """Returns the keys of each group, a tuple if there are several."""
        keys = tuple(group.project_keys(source) for group in self.synthesizers)
        return keys if len(keys) > 1 else keys[0]

    def call(self, query, keys=None, *, start=0, length=None):
        lengths, groups = self.lengths(query, start, length), self.synthesizers
        keys = keys if isinstance(keys, tuple) else [keys] * len(groups)
        tables = [
            group.as_function(query)(
                query, keys=own, start=start, length=lengths[1]
            ).materialize()
            for group, own in zip(groups, keys, strict=True)
        ]
        is_shared = all(table.shape[0] == 1 for table in tables)
        batch = 1 if is_shared else ops.shape(query)[0]
        tables = [
            ops.broadcast_to(table, (batch, group.num_heads, *lengths))
            for table, group in zip(tables, groups, strict=True)
        ]
        return Logits(bias=ops.concatenate(tables, axis=1))


def checked_parts(synthesizers, whole):
    """Returns the parts as a list, or raises if they do not fit `whole`."""
    if isinstance(synthesizers, (Synthesizer, str, dict)):
        synthesizers = [synthesizers]
    try:
        parts = list(synthesizers)
    except TypeError:
        parts = []
    if not parts or not all(isinstance(part, Synthesizer) for part in parts):
        raise ValueError(
            f"{whole} needs a sequence of one or more synthesizers. To make it "
            'from names, use `keras_synth.synthesizers.get("random + dense", '
            f"...)`. Received: synthesizers={synthesizers!r}"
        )
    if any(part.head_groups() != (part,) for part in parts):
        raise ValueError(
            f"{whole} cannot contain groups of heads. Mix within the groups: "
            '"heads(4 * mixture(D + V) + 4 * R)". Received: '
            f"synthesizers={synthesizers!r}"
        )
    if len({id(part) for part in parts}) < len(parts):
        raise ValueError(
            f"Each part of {whole.lower()} must be a different object. "
            f"Received: synthesizers={synthesizers!r}"
        )
    return parts


def _names_of(parts, place):
    """The names of the parts; those without a name get one from their place."""
    names = [
        f"{place}_{i}" if part.name == DEFAULT_NAME else part.name
        for i, part in enumerate(parts)
    ]
    if len(set(names)) < len(names):
        raise ValueError(
            "The parts of a synthesizer must have different names. Leave the "
            f"names out, or change them. Received: {names}"
        )
    return names

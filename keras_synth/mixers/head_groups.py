"""Attention group by group of heads, each with logits of its own."""

import itertools

from keras import ops

from keras_synth._backend.tensors import axis_size
from keras_synth.attention.attend import attend
from keras_synth.attention.logits import Logits
from keras_synth.attention.masks import zero_padded_columns


class HeadGroups:
    """The groups of heads of one attention layer; mostly there is one.

    Args:
        synthesizer: `Synthesizer`, whose `head_groups()` they are.
        value_dim: Integer, value features per head, `v`.

    Attributes:
        cache_sizes: Tuple with a pair for each group: its heads, and the
            features per head that decoding must remember of a token.
    """

    def __init__(self, synthesizer, value_dim):
        self._synthesizer = synthesizer
        self._groups = synthesizer.head_groups()
        self._value_dim = value_dim
        ends = itertools.accumulate(
            (group.num_heads for group in self._groups), initial=0
        )
        self._heads = [slice(*pair) for pair in itertools.pairwise(ends)]
        self.cache_sizes = tuple(
            (group.num_heads, group.key_dim + value_dim)
            for group in self._groups
        )

    def project(self, key, values):
        """Splits what attention reads of a source.

        Args:
            key: Tensor `(B, S, d)`.
            values: Tensor `(B, S, H, v)`.

        Returns:
            `(keys, values)`: a tuple of tensors `(B, S, h, k)`, or `None` where
            a group of h heads compares no pairs; and one of `(B, S, h, v)`.
        """
        keys = self._synthesizer.project_keys(key)
        if len(self._groups) == 1:
            return (keys,), (values,)
        return keys, tuple(values[:, :, heads] for heads in self._heads)

    def attend(self, query, keys, values, mask, bias=None, start=0, **options):
        """Returns what `attend` does, of all groups.

        Args:
            query: Tensor `(B, T, d)`.
            keys: Tuple, as `project` returns it.
            values: Tuple, as `project` returns it.
            mask: `AttentionMask`.
            bias: Tensor `(B or 1, H or 1, T, S)`, or `None`.
            start: Integer or scalar integer tensor, position of the first
                query token.
            **options: What `attend` takes beyond that.
        """
        bias = zero_padded_columns(bias, mask)
        target_length = axis_size(query, 1)
        found = []
        for group, heads, own_keys, own_values in zip(
            self._groups, self._heads, keys, values, strict=True
        ):
            logits = group.as_function(query)(
                query,
                keys=own_keys,
                start=start,
                length=axis_size(own_values, 1),
            )
            if bias is not None:
                own_bias = bias if bias.shape[1] == 1 else bias[:, heads]
                logits = logits + Logits(bias=ops.cast(own_bias, "float32"))
            attended = attend(
                logits,
                own_values,
                mask.of_heads(heads),
                target_length=target_length,
                **options,
            )
            found.append(attended)
        if len(found) == 1:
            return found[0]
        if not options.get("return_weights"):
            return ops.concatenate(found, axis=2)
        contexts, weights = zip(*found, strict=True)
        return ops.concatenate(contexts, 2), ops.concatenate(weights, 1)

    def to_cache(self, keys, values):
        """Returns a cache of what `project` returns, keys before values."""
        return self._whole(
            own_values
            if own_keys is None
            else ops.concatenate([own_keys, own_values], axis=-1)
            for own_keys, own_values in zip(keys, values, strict=True)
        )

    def from_cache(self, cache):
        """Returns the keys and values of a cache, as `project` does."""
        caches = cache if len(self._groups) > 1 else (cache,)
        keys, values = [], []
        for group, own in zip(self._groups, caches, strict=True):
            width = group.key_dim
            keys.append(own[..., :width] if width else None)
            values.append(own[..., width:])
        return tuple(keys), tuple(values)

    def _whole(self, caches):
        """A tuple of one for each group; of one group that alone."""
        caches = tuple(caches)
        return caches if len(caches) > 1 else caches[0]

"""Attention by groups of heads, each with its own logits."""

import itertools

from keras import ops

from keras_synth._backend.tensors import axis_size
from keras_synth.attend import attend
from keras_synth.attention.logits import Logits
from keras_synth.attention.masks import zero_hidden
from keras_synth.attention.patterns import Window
from keras_synth.attention.positions import shortest
from keras_synth.attention.projections import repeated_heads


class HeadGroups:
    """The groups of heads of an attention layer, usually one.

    `heads` are the slices of heads of the groups. `value_heads` is the number
    of heads of the values, G. `cache_shapes` is the shape of a cache without
    the batch, `(None, G, k + v)`, or a tuple with that of each group.
    `cache_dim` is the last axis of these shapes.
    """

    def __init__(self, synthesizer, value_dim, num_key_value_heads):
        self.value_heads = _heads_of_values(synthesizer, num_key_value_heads)
        self._synthesizer = synthesizer
        self._groups = synthesizer.head_groups()
        heads = [group.num_heads for group in self._groups]
        ends = itertools.accumulate(heads, initial=0)
        self.heads = [slice(*pair) for pair in itertools.pairwise(ends)]
        dims = [group.key_dim + value_dim for group in self._groups]
        self.cache_dim = self._whole(dims)
        if len(heads) == 1:
            heads = [self.value_heads]
        self.cache_shapes = self._whole(
            (None, *pair) for pair in zip(heads, dims, strict=True)
        )

    def project(self, key, values):
        """Returns the keys and values of a source, a tuple each.

        A group of h heads has keys `(B, S, h, k)`, or `None` if it compares no
        pairs, and values `(B, S, h, v)`. For a single group h is G.
        """
        keys = self._synthesizer.project_keys(key)
        if len(self._groups) == 1:
            width = 0 if keys is None else keys.shape[-1]
            if width != self._groups[0].key_dim:
                raise ValueError(
                    "`project_keys` must return keys (B, S, H, key_dim), or "
                    "None if `key_dim` is 0, its default. Received: "
                    f"key_dim={self._groups[0].key_dim} and {width} features "
                    f"from {type(self._synthesizer).__name__}.project_keys"
                )
            return (keys,), (values,)
        return keys, tuple(values[:, :, heads] for heads in self.heads)

    def masks(self, mask):
        """Returns the mask of each group, limited to its reach."""
        found = [mask]
        if len(self._groups) > 1:
            found = [mask.of_heads(heads) for heads in self.heads]
        return [
            own if group.reach is None else _within(own, group.reach)
            for group, own in zip(self._groups, found, strict=True)
        ]

    def check_reach_all(self, received):
        """Raises if a group has only logits of neighbours in one sequence."""
        for group in self._groups:
            if group.reach is not None:
                raise ValueError(
                    f"{type(group).__name__} has only logits of a token's "
                    "neighbours: query and source must be the same sequence. "
                    'For cross-attention use another synthesizer, such as "V" '
                    f'or "D". Received: {received}'
                )

    def attend(self, query, keys, values, mask, bias=None, **options):
        """Returns the result of `attend` for all groups.

        Keys and values are those of `project`.
        """
        target_length = axis_size(query, 1)
        found = []
        for group, heads, own_keys, own_values, own_mask in zip(
            self._groups,
            self.heads,
            keys,
            values,
            self.masks(mask),
            strict=True,
        ):
            logits = group.as_function(query)(
                query,
                keys=own_keys,
                start=mask.start,
                length=axis_size(own_values, 1),
            )
            has_keys = own_keys is not None and logits.bias is not None
            if has_keys and logits.bias.shape[0] == query.shape[0]:
                # The bias can be computed from keys, including padding.
                cleaned = zero_hidden(logits.bias, own_mask)
                logits = logits._replace(bias=cleaned)
            if bias is not None:
                own_bias = bias if bias.shape[1] == 1 else bias[:, heads]
                own_bias = zero_hidden(own_bias, own_mask, target_length)
                logits = logits + Logits(bias=ops.cast(own_bias, "float32"))
            attended = attend(
                logits,
                repeated_heads(own_values, group.num_heads),
                own_mask,
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
        """Returns a cache of the result of `project`, keys before values."""
        return self._whole(
            own_values
            if own_keys is None
            else ops.concatenate([own_keys, own_values], axis=-1)
            for own_keys, own_values in zip(keys, values, strict=True)
        )

    def from_cache(self, cache):
        """Returns the keys and values of a cache, in the form of `project`."""
        caches = cache if len(self._groups) > 1 else (cache,)
        keys, values = [], []
        for group, own in zip(self._groups, caches, strict=True):
            width = group.key_dim
            keys.append(own[..., :width] if width else None)
            values.append(own[..., width:])
        return tuple(keys), tuple(values)

    def _whole(self, parts):
        """A tuple with one entry per group, or the entry of a single group."""
        parts = tuple(parts)
        return parts if len(parts) > 1 else parts[0]


def _heads_of_values(synthesizer, num_key_value_heads):
    """The number of heads of the values, or raises."""
    num_heads = synthesizer.num_heads
    of_keys = synthesizer.num_key_value_heads
    if of_keys is None and synthesizer.key_dim:
        of_keys = num_heads
    wanted = num_key_value_heads or of_keys or num_heads
    if wanted != num_heads and len(synthesizer.head_groups()) > 1:
        raise ValueError(
            "Groups of heads cannot share keys and values. Leave out "
            "`num_key_value_heads`, or use one synthesizer for all heads. "
            f"Received: num_key_value_heads={wanted} of {num_heads} heads"
        )
    if of_keys not in (None, wanted):
        raise ValueError(
            "Keys and values must have the same number of heads, and only "
            '"V" can have fewer keys than queries. Set `num_key_value_heads` '
            "of the layer, with a synthesizer that compares no pairs or "
            f'contains only "V". Received: num_key_value_heads={wanted}, and '
            f"{of_keys} heads of keys of {synthesizer!r}"
        )
    return wanted


def _within(mask, reach):
    """A mask that also excludes tokens farther away."""
    if mask.pattern is None:
        return mask._replace(pattern=Window(reach))
    return mask._replace(window=shortest(mask.window, reach + 1))

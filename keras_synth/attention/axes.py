"""Attention along any axes."""

import math

import numpy as np
from keras import ops

from keras_synth._backend.checks import may_be_equal


class AttentionAxes:
    """The axes of `(B, ..., d)` along which tokens attend to each other.

    `flatten` merges the attended axes, in their given order, into one axis of
    tokens, and the others into the batch: `(B', T, d)`. `unflatten` is its
    inverse.

    Args:
        axes: Sequence of integers, counted from the end if negative; `None` for
            all axes except batch and features.
        rank: Integer, rank of the tensors, including batch and features.

    Raises:
        ValueError: If an axis is repeated, or not between batch and features.
    """

    def __init__(self, axes, rank):
        every = tuple(range(1, rank - 1))
        self.rank = rank
        own = every if axes is None else axes
        self.attended = tuple(a if a >= 0 else rank + a for a in own)
        different = {*self.attended}
        if len(different) < len(own) or not different <= {*every}:
            raise ValueError(
                "`attention_axes` must be different axes between batch and "
                f"features: for tensors of rank {rank}, some of {every}. "
                f"Received: attention_axes={axes}"
            )
        self.others = tuple(a for a in every if a not in self.attended)
        self._order = (0, *self.others, *self.attended)
        self._trivial = every == (1,)

    def length(self, shape):
        """The number of tokens, or `None`."""
        sizes = [shape[a] for a in self.attended]
        return None if None in sizes else math.prod(sizes)

    def flatten_shape(self, shape):
        """The static shape `(B', T, d)` of `flatten`'s result."""
        outer = [shape[a] for a in (0, *self.others)]
        batch = None if None in outer else math.prod(outer)
        return (batch, self.length(shape), *shape[self.rank - 1 :])

    def flatten(self, x):
        """`(B, ..., *rest) -> (B', T, *rest)`."""
        if self._trivial:
            return x
        rest = range(self.rank - 1, len(x.shape))
        x = ops.transpose(x, (*self._order, *rest))
        return self._merged(x)

    def flatten_all(self, *tensors):
        """Flattens tensors, each different one only once."""
        flat = {id(x): self.flatten(x) for x in tensors}
        return tuple(flat[id(x)] for x in tensors)

    def unflatten(self, x, like):
        """`(B', T, *rest) -> (B, ..., *rest)`, with the sizes of `like`."""
        if self._trivial:
            return x
        sizes = ops.shape(like)
        sizes = [sizes[a] for a in self._order]
        x = ops.reshape(x, (*sizes, *ops.shape(x)[2:]))
        places = np.argsort(self._order).tolist()
        return ops.transpose(x, (*places, *range(len(sizes), len(x.shape))))

    def flatten_padding(self, name, mask, x):
        """Flattens a padding mask of `x`, or `None`, to `(B', T)`.

        It has all axes of `x` except the features, or the batch and the
        attended axes in their order.
        """
        if mask is None:
            return None
        shape = tuple(mask.shape)
        if may_be_equal(shape, tuple(x.shape[:-1])):
            return self.flatten(mask)
        short = (x.shape[0], *(x.shape[a] for a in self.attended))
        if not may_be_equal(shape, short):
            also = f" or {short}" if self.others else ""
            raise ValueError(
                f"`{name}` must have the shape of its tensor without features, "
                f"{tuple(x.shape[:-1])}{also}. Received: {name}.shape={shape}"
            )
        sizes = ops.shape(x)
        mask = ops.convert_to_tensor(mask)
        mask = mask[(slice(None), *(None,) * len(self.others))]
        mask = ops.broadcast_to(mask, [sizes[a] for a in self._order])
        return self._merged(mask)

    def _merged(self, x):
        """Merges the axes of `(B, *others, *attended, *rest)`."""
        sizes, outer = ops.shape(x), 1 + len(self.others)
        batch, length = sizes[:outer], sizes[outer : self.rank - 1]
        rest = sizes[self.rank - 1 :]
        return ops.reshape(x, (math.prod(batch), math.prod(length), *rest))

    # --- pairs of tokens ------------------------------------------------------

    def scores_shape(self, query_shape, value_shape, num_heads):
        """The shape of attention scores, `(B, *others, H, *T, *S)`."""
        return (
            *(query_shape[a] for a in (0, *self.others)),
            num_heads,
            *(query_shape[a] for a in self.attended),
            *(value_shape[a] for a in self.attended),
        )

    def unflatten_scores(self, scores, query, value):
        """`(B', H, T, S) -> (B, *others, H, *T, *S)`."""
        if self._trivial:
            return scores
        shapes = ops.shape(query), ops.shape(value)
        return ops.reshape(scores, self.scores_shape(*shapes, scores.shape[1]))

    def flatten_pairs(self, name, x, query, value, num_heads):
        """Flattens a mask or bias to `(B' or 1, H or 1, T or 1, S)`.

        `x` ends in the query's and the source's attended axes, `(*T, *S)`.
        Before them a mask can have the first axes of `(B, *others)`, or all of
        `(B, *others, H)`, as in Keras. A bias broadcasts like an array. An axis
        can be 1. `None` stays `None`.
        """
        if x is None:
            return None
        x = ops.convert_to_tensor(x)
        shape = self.scores_shape(query.shape, value.shape, num_heads)
        given, sizes = tuple(x.shape), ops.shape(x)
        pairs = 2 * len(self.attended)
        first = 0 if name == "attention_bias" else max(0, len(sizes) - pairs)
        ones = (1,) * max(0, len(shape) - len(sizes))
        x = ops.reshape(x, (*sizes[:first], *ones, *sizes[first:]))
        if len(x.shape) != len(shape) or not all(
            None in pair or pair[0] in (1, pair[1])
            for pair in zip(x.shape, shape, strict=True)
        ):
            raise ValueError(
                f"`{name}` must broadcast to the scores, {shape}: batch, "
                "heads, query and source. A mask can omit the axis of heads, "
                f"or of heads and batch. Received: {name}.shape={given}"
            )
        sizes = self.scores_shape(ops.shape(query), ops.shape(value), num_heads)
        source = len(shape) - len(self.attended)  # first of the source's axes
        first = source - len(self.attended)  # of the query's
        target, merged = [], []
        bounds = (0, first - 1, first, source, len(shape))
        for group in map(slice, bounds, bounds[1:]):
            # Merged axes and the source's axes, along which weights are
            # normalised, must have their full size.
            ones = all(size == 1 for size in x.shape[group])
            is_one = ones and group.start != source
            target += [1] * len(x.shape[group]) if is_one else sizes[group]
            merged.append(1 if is_one else math.prod(sizes[group]))
        return ops.reshape(ops.broadcast_to(x, target), merged)

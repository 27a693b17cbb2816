"""`WindowCache`: the last tokens, where no query sees farther back."""

from keras import ops

from keras_synth.attention import masks
from keras_synth.attention.masks import AttentionMask


class WindowCache:
    """Keys and values of the last real tokens, with their positions.

    Args:
        pattern: `Pattern` whose `reach` is known: tokens to each side.
        size: Tuple of integers, the heads and the features per head that are
            remembered of a token.
    """

    def __init__(self, pattern, size):
        self._pattern, self._size = pattern, size

    def make(self, batch_size, dtype):
        """Returns an empty cache; a position of -1 is no token."""
        shape = (batch_size, self._pattern.reach)
        return {
            "tokens": ops.zeros((*shape, *self._size), dtype),
            "positions": ops.full(shape, -1, "int32"),
        }

    def check(self, cache):
        """Raises unless `make` may have made it."""
        shapes = {}
        if isinstance(cache, dict):
            shapes = {name: tuple(x.shape[1:]) for name, x in cache.items()}
        reach = self._pattern.reach
        expected = {"tokens": (reach, *self._size), "positions": (reach,)}
        if shapes != expected:
            raise ValueError(
                "The cache must be this layer's, as its `make_cache` makes it: "
                f"a dictionary of tensors (batch, ...) with {expected}. "
                f"Received: {shapes or cache}"
            )

    def check_places(self, **given):
        """Raises if something refers to places of a cache: there are none."""
        for name, x in given.items():
            if x is not None:
                raise ValueError(
                    "A cache of the last tokens has no places that "
                    f"`{name}` could refer to. Leave it out, or call the layer "
                    f"with whole sequences. Received: {name}.shape="
                    f"{tuple(x.shape)}"
                )

    def extended(self, cache, tokens, mask):
        """Returns a cache with further tokens behind its own.

        Args:
            cache: As `make` or `latest` returns it.
            tokens: Tensor `(B, T, H, k)`.
            mask: `AttentionMask` with their padding and the first position.
        """
        tokens = masks.zero_padding(tokens, mask.keys)
        here = ops.arange(ops.shape(tokens)[1])[None] + mask.start
        positions = ops.broadcast_to(here, ops.shape(tokens)[:2])
        if mask.keys is not None:
            positions = ops.where(mask.keys, positions, -1)
        new = {"tokens": tokens, "positions": positions}
        return {
            name: ops.concatenate([x, ops.cast(new[name], x.dtype)], axis=1)
            for name, x in cache.items()
        }

    def seen(self, cache, length, mask):
        """Returns the `AttentionMask` of the last tokens over all in a cache.

        Args:
            cache: As `extended` returns it.
            length: Integer or scalar tensor, how many of the last tokens.
            mask: `AttentionMask` with the position of the first of these.
        """
        rows = (ops.arange(length)[None] + mask.start)[:, :, None]  # (1, T, 1)
        columns = cache["positions"][:, None]  # (B, 1, n)
        allowed = (columns >= 0) & self._pattern.allows(rows, columns)
        if mask.causal:
            allowed = allowed & (columns <= rows)
        return AttentionMask(pairs=allowed[:, None], start=mask.start)

    def latest(self, cache):
        """Returns the cache without tokens that none to come will see."""
        positions, at = ops.top_k(cache["positions"], self._pattern.reach)
        at = ops.cast(at, "int32")[:, :, None, None]
        tokens = ops.take_along_axis(cache["tokens"], at, axis=1)
        return {"tokens": tokens, "positions": positions}

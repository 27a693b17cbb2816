"""`Neighbours`, the base of mixers of each token's neighbours."""

from keras import ops

from keras_synth._backend.tensors import pad
from keras_synth.attention import masks
from keras_synth.mixers import last_tokens
from keras_synth.types import Mixin


class Neighbours(Mixin):
    """Base class of mixers of `width` tokens around each token, or up to it.

    Subclasses derive from it and `SelfMixer`, in this order. They set `width`,
    and implement `_projected` and `_mixed`.

    Token i sees `i - (width - 1) // 2 ... i + width // 2`, or in the causal
    form `i - width + 1 ... i`.
    """

    supports_causal_mask = True
    overwrites_cache = False  # the state contains only the last tokens
    width = 1
    _features: int | None = None  # set by `build`

    def build(self, query_shape, value_shape=None, key_shape=None):
        self._check_rank(query_shape)
        self._features = query_shape[-1]
        self.built = True

    def _projected(self, x, padding_mask):
        """The projected tokens `(B, T, d)`, zero for padding."""
        return masks.zero_padding(x, padding_mask)

    def _mixed(self, x, around, is_token, padding_mask, training=None):
        """Mixes projected tokens `x` with their neighbours.

        `around` is `x` with the neighbours of the first and the last token,
        `(B, T + width - 1, d)`. `is_token` are integers, 0 for padding and
        beyond the borders.
        """
        raise NotImplementedError

    def mix(self, x, padding_mask=None, causal=False, training=None):
        before = self.width - 1 if causal else (self.width - 1) // 2
        sides = [[0, 0], [before, self.width - 1 - before]]
        x = self._projected(x, padding_mask)
        is_token = pad(last_tokens.as_integers(padding_mask, x), sides)
        around = pad(x, [*sides, [0, 0]])
        return self._mixed(x, around, is_token, padding_mask, training)

    def _cache_shapes(self, start=0):
        return last_tokens.shapes(self.width - 1, (self._features,))

    def make_cache(self, batch_size, length):
        """Returns the state before the first token, of any `length`.

        Returns:
            Dictionary of `"tokens"`, the last `width - 1` projected tokens
            `(B, width - 1, d)`, and their `"positions"`, integers
            `(B, width - 1)`, -1 without a token. (For a width of 1 it has one
            token, without effect.)
        """
        return last_tokens.without_tokens(
            super().make_cache(batch_size, length)
        )

    def _call_cached(self, call, cache, start):
        mask = call.mask
        x = ops.cast(call.query, self.compute_dtype)
        x = self._projected(x, mask.keys)
        around, is_token, cache = last_tokens.joined(
            cache, x, mask, self.width - 1
        )
        return self._mixed(x, around, is_token, mask.keys), cache

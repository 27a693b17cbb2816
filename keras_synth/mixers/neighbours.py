"""Mixers of each token's neighbours: their base, and pooling."""

from typing import Any

import keras
from keras import ops

from keras_synth._backend.checks import check_positive
from keras_synth._backend.tensors import pad
from keras_synth.attention import masks
from keras_synth.mixers import last_tokens
from keras_synth.mixers.self_mixer import SelfMixer


class Neighbours(SelfMixer):
    """Base class of mixers of `width` tokens around each token, or up to it.

    Subclasses set `width`, and implement `_projected` and `_mixed`.

    Token i sees `i - (width - 1) // 2 ... i + width // 2`, or in the causal
    form `i - width + 1 ... i`.
    """

    supports_causal_mask = True
    overwrites_cache = False  # the state contains only the last tokens
    width = 1

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


@keras.saving.register_keras_serializable(package="keras_synth")
class PoolingMixer(Neighbours):
    """Averages neighbours, like PoolFormer ("pooling").

    `y_i = mean_j x_j - x_i` over the tokens j from `i - (size - 1) // 2` to
    `i + size // 2`, or in the causal form from `i - size + 1` to `i`. The block
    around the mixer adds `x_i` again. There are no weights or heads. Time is
    O(T size d).

    The average excludes padding and positions beyond the borders. Outputs of
    padding are zero.

    Args:
        size: Integer, number of tokens to average.
        **kwargs: Keyword arguments of `keras.layers.Layer`.

    Call arguments and output: see `SelfMixer`.

    Raises:
        ValueError: If `size` is not a positive integer.

    Example:

    >>> mixer = keras_synth.mixers.PoolingMixer(size=3)
    >>> mixer(keras.random.normal((2, 100, 64))).shape
    (2, 100, 64)

    References:
        - [Yu et al., 2022](https://arxiv.org/abs/2111.11418)
    """

    def __init__(self, size: int = 3, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.size = self.width = check_positive("size", size)

    def _mixed(self, x, around, is_token, padding_mask, training=None):
        around = ops.cast(around, "float32")
        total = sum(last_tokens.windows(around, self.size))
        count = sum(last_tokens.windows(is_token, self.size))
        count = ops.cast(ops.maximum(count, 1), "float32")[..., None]
        mean = total / count
        pooled = ops.cast(mean - ops.cast(x, "float32"), x.dtype)
        return masks.zero_padding(pooled, padding_mask)

"""Pooling: the average of the neighbours instead of attention."""

from typing import Any

import keras
from keras import ops

from keras_synth._backend.checks import check_positive
from keras_synth._backend.configs import Configured
from keras_synth._backend.tensors import pad
from keras_synth.attention import masks
from keras_synth.mixers import last_tokens
from keras_synth.mixers.self_mixer import SelfMixer


@keras.saving.register_keras_serializable(package="keras_synth")
class PoolingMixer(Configured, SelfMixer):
    """Averages neighbours, as PoolFormer ("pooling").

    `y_i = mean_j x_j - x_i` over the tokens j around i, i among them: the
    block around the mixer adds `x_i` again. It has no weights, no heads and
    no dropout, and serves sequences of any length. Work is O(T size d).

    Token i sees `i - (size - 1) // 2 ... i + size // 2`, in the causal form
    `i - size + 1 ... i`. What lies beyond the borders, and padding, is neither
    summed nor counted; padded tokens get zeros. (The paper pools pictures,
    with squares of 3 by 3; a sequence has one axis.)

    Args:
        size: Integer, tokens that are averaged.
        **kwargs: Keyword arguments of `keras.layers.Layer`.

    Call arguments: see `SelfMixer`.

    Returns:
        Tensor `(B, T, d)`.

    Raises:
        ValueError: If `size` is not a positive integer.

    Example:

    >>> mixer = keras_synth.mixers.PoolingMixer(size=3)
    >>> mixer(keras.random.normal((2, 100, 64))).shape
    (2, 100, 64)

    References:
        - [Yu et al., 2022](https://arxiv.org/abs/2111.11418)
    """

    supports_causal_mask = True
    overwrites_cache = False  # the state holds only the last tokens

    def __init__(self, size: int = 3, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.size = check_positive("size", size)
        self._features: int | None = None  # of a token, once it is built

    def build(self, query_shape, value_shape=None, key_shape=None):
        self._check_rank(query_shape)
        self._features = query_shape[-1]
        self.built = True

    def mix(self, x, padding_mask=None, causal=False, training=None):
        ahead = self.size - 1 if causal else (self.size - 1) // 2
        sides = [[0, 0], [ahead, self.size - 1 - ahead]]
        x = masks.zero_padding(x, padding_mask)
        real = last_tokens.as_integers(padding_mask, x)
        pooled = self._pooled(x, pad(x, [*sides, [0, 0]]), pad(real, sides))
        return masks.zero_padding(pooled, padding_mask)

    def _pooled(self, x, around, real):
        """Averages, and takes the token away; arguments as of a convolution."""
        around = ops.cast(around, "float32")
        total = sum(last_tokens.windows(around, self.size))
        count = sum(last_tokens.windows(real, self.size))
        count = ops.cast(ops.maximum(count, 1), "float32")[..., None]
        return ops.cast(total / count - ops.cast(x, "float32"), x.dtype)

    def make_cache(self, batch_size, length):
        """Returns the state before the first token, of any `length`.

        Returns:
            Dictionary of `"tokens"`, the last `size - 1`, and `"positions"`,
            as of `LightConvolution`.
        """
        self._check_built()
        return last_tokens.empty(
            batch_size, self.size - 1, (self._features,), self.compute_dtype
        )

    def _cache_places(self, cache, start):
        return None

    def _call_cached(self, call, cache, start):
        query, mask = call.query, call.mask
        x = ops.cast(query, self.compute_dtype)
        x = masks.zero_padding(x, mask.keys)
        around, real, cache = last_tokens.joined(cache, x, mask, self.size - 1)
        pooled = self._pooled(x, around, real)
        return masks.zero_padding(pooled, mask.keys), cache

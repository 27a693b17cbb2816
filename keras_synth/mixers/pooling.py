"""Pooling: the average of each token's neighbours."""

from typing import Any

import keras
from keras import ops

from keras_synth._backend.checks import check_positive
from keras_synth.attention import masks
from keras_synth.mixers import last_tokens
from keras_synth.mixers.neighbours import Neighbours
from keras_synth.mixers.self_mixer import SelfMixer


@keras.saving.register_keras_serializable(package="keras_synth")
class PoolingMixer(Neighbours, SelfMixer):
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

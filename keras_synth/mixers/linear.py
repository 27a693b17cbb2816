"""Attention with the feature map of the Linear Transformer."""

from typing import Any

import keras
from keras import ops

from keras_synth.mixers.kernel_attention import KernelMixer
from keras_synth.mixers.multi_head import MultiHeadMixer


@keras.saving.register_keras_serializable(package="keras_synth")
class LinearAttention(KernelMixer, MultiHeadMixer):  # type: ignore[misc]
    """Attention with a state of constant size ("linear").

    With `phi(x) = elu(x) + 1`, per head,

        y_i = sum_j (phi(q_i) . phi(k_j)) v_j / (sum_j phi(q_i) . phi(k_j) + e)

    over the tokens visible to i, with `e = 1e-6`. All queries share
    `sum_j phi(k_j) v_j^T`: O(T) time and memory. In the causal form each chunk
    of tokens continues the sum of the previous one. The decoding cache is only
    this sum, `(B, H, k, v)`.

    As in the authors' code, queries are not scaled by `1 / sqrt(k)`. Only
    padding and causal masks are supported. Attention masks, biases and scores
    are not.

    Args:
        num_heads: Integer, `H`.
        key_dim: Integer, features per head of queries and keys, `k`.
        **kwargs: Keyword arguments of `MultiHeadMixer`. `dropout` is the
            fraction of source tokens to omit from the sum of values in
            training. All queries of a head omit the same tokens.

    Call arguments and output: see `MultiHeadMixer`.

    Example:

    >>> mixer = keras_synth.mixers.LinearAttention(num_heads=4, key_dim=16)
    >>> mixer(keras.random.normal((2, 100, 64)), use_causal_mask=True).shape
    (2, 100, 64)

    References:
        - [Katharopoulos et al., 2020](https://arxiv.org/abs/2006.16236)
    """

    def __init__(self, num_heads: int, key_dim: int, **kwargs: Any) -> None:
        super().__init__(num_heads, key_dim, **kwargs)
        self.num_features = self.key_dim

    def feature_map(self, queries, keys, training=None):
        return _positive(queries), _positive(keys), None


def _positive(x):
    return ops.elu(ops.cast(x, "float32")) + 1.0

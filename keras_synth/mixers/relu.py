"""Attention with a ReLU in the place of the softmax."""

import keras

from keras_synth.attention import normalizers
from keras_synth.mixers.pair_mixer import PairMixer


@keras.saving.register_keras_serializable(package="keras_synth")
class ReLUAttention(PairMixer):
    """Attention with a ReLU in the place of the softmax ("relu").

    `y_i = (1 / n_i) sum_j relu(q_i . k_j / sqrt(k) + bias_ij) v_j` per head,
    over the `n_i` tokens that i may see. The paper divides by the length of
    the sequence; here what is hidden by padding, causal and attention masks
    does not count, so that the same tokens have the same output in a longer
    batch and when decoding.

    Weights are not negative, but do not sum to 1: each is at most as large as
    its logit. A row may have no weight at all. It is
    `SyntheticAttention(synthesizer="V", normalizer="relu")` with weights at
    the paths of `MultiHeadMixer`.

    Args:
        num_heads: Integer, `H`.
        key_dim: Integer, features per head of queries and keys, `k`.
        **kwargs: Keyword arguments of `MultiHeadMixer`.

    Call arguments: see `MultiHeadMixer`.

    Returns:
        Tensor `(B, T, d)`; with `return_attention_scores` a tuple of it and
        the weights `(B, H, T, S)`, `relu(...) / n_i`.

    Example:

    >>> mixer = keras_synth.mixers.ReLUAttention(num_heads=4, key_dim=16)
    >>> mixer(keras.random.normal((2, 100, 64)), use_causal_mask=True).shape
    (2, 100, 64)

    References:
        - [Wortsman et al., 2023](https://arxiv.org/abs/2309.08586)
    """

    normalizer = normalizers.ReLU()

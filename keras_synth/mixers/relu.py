"""Attention with a ReLU in the place of the softmax."""

import keras
from keras import ops

from keras_synth.attention.logits import Logits
from keras_synth.attention.multiplications import of_pairs
from keras_synth.mixers.multi_head import MultiHeadMixer
from keras_synth.types import Tensor


@keras.saving.register_keras_serializable(package="keras_synth")
class ReLUAttention(MultiHeadMixer):
    """Attention with a ReLU in the place of the softmax ("relu").

    `y_i = (1 / n_i) sum_j relu(q_i . k_j / sqrt(k) + bias_ij) v_j` per head,
    over the `n_i` tokens that i may see. The paper divides by the length of
    the sequence; here what is hidden by padding, causal and attention masks
    does not count, so that the same tokens have the same output in a longer
    batch and when decoding.

    Weights are not negative, but do not sum to 1: each is at most as large as
    its logit. A row may have no weight at all. `(B, H, T, S)` weights are
    held, as of attention with returned scores.

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

    supports_attention_mask = True
    supports_attention_bias = True
    supports_attention_scores = True

    def attend(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        mask: Tensor,
        *,
        bias: Tensor | None = None,
        training: bool | None = None,
        return_weights: bool = False,
    ) -> Tensor:
        logits = Logits(queries * self.key_dim**-0.5, keys).materialize()
        if bias is not None:
            logits = logits + ops.cast(bias, "float32")
        lengths = ops.shape(queries)[1], ops.shape(keys)[1]
        visible = mask.written_out(*lengths).materialize()
        weights = _averaging(ops.relu(logits), visible, lengths[1])
        kept = ops.cast(self.dropped(weights, training), values.dtype)
        context = ops.einsum("bhts,bshv->bthv", kept, values)
        return (context, weights) if return_weights else context

    def attend_multiplications(
        self, query_length: int, source_length: int
    ) -> dict[str, int]:
        # The division by `n_i` of each weight is in the softmax's place.
        pairs = self.num_heads * query_length * source_length
        return of_pairs(pairs, self.key_dim, self.value_dim)


def _averaging(weights, visible, length):
    """Divides weights by the number of keys that their row sees.

    Args:
        weights: Float32 tensor `(B, H, T, S)`.
        visible: Boolean tensor that broadcasts to it, all columns being there,
            or `None`.
        length: Integer or scalar tensor, `S`.

    Returns:
        Tensor `(B, H, T, S)`, 0 where not visible.
    """
    if visible is None:
        return weights / ops.cast(ops.maximum(length, 1), "float32")
    count = ops.sum(ops.cast(visible, "float32"), axis=-1, keepdims=True)
    return ops.where(visible, weights / ops.maximum(count, 1.0), 0.0)

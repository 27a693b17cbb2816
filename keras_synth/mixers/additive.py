"""Attention that compares tokens by a small network: additive attention."""

from typing import Any

import keras
from keras import ops

from keras_synth._backend.distributions import MODEL
from keras_synth._backend.seeds import seeded
from keras_synth.attention.logits import Logits
from keras_synth.mixers.pair_mixer import PairMixer
from keras_synth.synthesizers.additive import pair_logits
from keras_synth.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_synth")
class AdditiveAttention(PairMixer):
    """Compares each pair of tokens by a hidden layer ("additive").

    `S_ij = sum_f w_f tanh(q_if + k_jf)` per head, then the softmax: q and k
    are projections of the query and of the source, w is `(H, k)`. With one
    head and tokens in the place of projections it is
    `keras.layers.AdditiveAttention`.

    The logits are those of `AdditiveSynthesizer`, which can be mixed with
    others, with weights at the paths of `MultiHeadMixer`.

    Args:
        num_heads: Integer, `H`.
        key_dim: Integer, features per head of the hidden layer, `k`.
        **kwargs: Keyword arguments of `MultiHeadMixer`. w starts as the
            kernels do.

    Call arguments: see `MultiHeadMixer`.

    Returns:
        Tensor `(B, T, d)`; with `return_attention_scores` a tuple of it and
        the weights `(B, H, T, S)`, float32, before dropout.

    Example:

    >>> mixer = keras_synth.mixers.AdditiveAttention(num_heads=4, key_dim=16)
    >>> mixer(keras.random.normal((2, 100, 64)), use_causal_mask=True).shape
    (2, 100, 64)

    References:
        - [Bahdanau et al., 2015](https://arxiv.org/abs/1409.0473)
    """

    weight_axes = {"scale": (MODEL,)}

    def __init__(self, num_heads: int, key_dim: int, **kwargs: Any) -> None:
        super().__init__(num_heads, key_dim, **kwargs)
        self.scale = None

    def build(
        self,
        query_shape: Shape,
        value_shape: Shape | None = None,
        key_shape: Shape | None = None,
    ) -> None:
        options = self._projections.options
        initializer = options["kernel_initializer"]
        if hasattr(initializer, "clone"):
            initializer = initializer.clone()
        self.scale = self.add_weight(
            name="scale",
            shape=(self.num_heads, self.key_dim),
            initializer=seeded(initializer, self.seed, "scale"),
            regularizer=options["kernel_regularizer"],
            constraint=options["kernel_constraint"],
            autocast=False,
        )
        super().build(query_shape, value_shape, key_shape)

    def logits(self, queries: Tensor, keys: Tensor) -> Logits:
        scale = ops.convert_to_tensor(self.scale)
        return Logits(bias=pair_logits(queries, keys, scale))

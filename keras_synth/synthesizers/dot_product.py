"""Dot-product logits, the paper's "vanilla" variant."""

from typing import Any

import keras

from keras_synth._backend.checks import check_boolean, check_positive
from keras_synth.attention.logits import Logits
from keras_synth.attention.projections import Projections, axes_of_heads
from keras_synth.synthesizers.synthesizer import Synthesizer
from keras_synth.types import Tensor


@keras.saving.register_keras_serializable(package="keras_synth")
class DotProductSynthesizer(Synthesizer):
    """Compares each query token with each source token ("V").

    This is scaled dot-product attention:
    `S = (x Wq + bq) . (y Wk + bk) / sqrt(k)` for the query x and the source y.
    The projections have the names, layout and initial values of
    `keras.layers.MultiHeadAttention`.

    With `fixed=True` the projections stay at their random initial values
    ("frozen-QK").

    Args:
        num_heads: Integer, `H`.
        key_dim: Integer, features per head, `k`.
        use_bias: Whether the projections have a bias.
        fixed: Whether the projections are never trained, even if `trainable` is
            set on the layer or on a model around it.
        **kwargs: Options of the projections as in
            `keras.layers.MultiHeadAttention` (`kernel_initializer`,
            `bias_initializer`, `kernel_regularizer`, `bias_regularizer`,
            `activity_regularizer`, `kernel_constraint`, `bias_constraint`),
            and arguments of `Synthesizer`.

    Call arguments, in addition to those of `Synthesizer.call`:
        queries: Optional tensor `(B, T, H, k)`, the result of
            `project_queries`.

    Returns:
        `Logits`: queries `(B, T, H, k)`, keys `(B, S, H, k)`.

    Example:

    >>> layer = keras_synth.layers.SyntheticAttention(
    ...     4, 16, synthesizer="dot_product")
    >>> layer(keras.random.normal((2, 10, 64))).shape
    (2, 10, 64)

    References:
        - [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762)
        - [Dong et al., 2025](https://arxiv.org/abs/2506.01115), for fixed
          projections
    """

    weight_axes = axes_of_heads("query", "key")
    remembers_last = True

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        use_bias: bool = True,
        fixed: bool = False,
        **kwargs: Any,
    ) -> None:
        self.fixed = check_boolean("fixed", fixed)
        self._projections = Projections.taken_from(kwargs, use_bias, self.fixed)
        super().__init__(num_heads, **kwargs)
        self.key_dim = check_positive("key_dim", key_dim)
        self.query, self.key = (
            self._projections.split_heads(
                self.num_heads, self.key_dim, name, self.dtype_policy
            )
            for name in ("query", "key")
        )

    def build(self, query_shape, source_shape=None):
        self.query.build(query_shape)
        self.key.build(query_shape if source_shape is None else source_shape)
        self.built = True

    def project_keys(self, source):
        return self.key(source)

    def project_queries(self, query: Tensor) -> Tensor:
        """`(B, T, d) -> (B, T, H, k)`, before scaling."""
        return self.query(query)

    def call(self, query, keys=None, queries=None, *, start=0, length=None):
        if keys is None:
            raise ValueError(
                "Dot-product logits need keys. Pass "
                "keys=synthesizer.project_keys(source). Received: keys=None"
            )
        if queries is None:
            queries = self.project_queries(query)
        return Logits(queries * self.key_dim**-0.5, keys)

"""Attention that compares tokens by a small network: additive attention."""

from typing import Any

import keras
from keras import ops

from keras_synth._backend import loops
from keras_synth._backend.gradients import with_gradient
from keras_synth._backend.seeds import seeded
from keras_synth.attention.attend import attend
from keras_synth.attention.logits import Logits
from keras_synth.attention.multiplications import of_pairs
from keras_synth.mixers.multi_head import MultiHeadMixer
from keras_synth.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_synth")
class AdditiveAttention(MultiHeadMixer):
    """Compares each pair of tokens by a hidden layer ("additive").

    `S_ij = sum_f w_f tanh(q_if + k_jf)` per head, then the softmax: q and k
    are projections of the query and of the source, w is `(H, k)`. With one
    head and tokens in the place of projections it is
    `keras.layers.AdditiveAttention`.

    The logits `(B, H, T, S)` are summed up one feature at a time, and once
    more for their gradient: `(B, T, S, H, k)` never exists.

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

    supports_attention_mask = True
    supports_attention_bias = True
    supports_attention_scores = True

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
        scale = ops.convert_to_tensor(self.scale)
        logits = Logits(bias=pair_logits(queries, keys, scale))
        if bias is not None:
            logits = logits + Logits(bias=bias)
        return attend(
            logits,
            values,
            mask,
            dropout=self._active_dropout(training),
            return_weights=return_weights,
        )

    def attend_multiplications(
        self, query_length: int, source_length: int
    ) -> dict[str, int]:
        # A product with w for each feature; tanh takes none.
        pairs = self.num_heads * query_length * source_length
        return of_pairs(pairs, self.key_dim, self.value_dim)


def pair_logits(queries, keys, scale):
    """Returns `sum_f scale_f tanh(queries_f + keys_f)`.

    Args:
        queries: Tensor `(B, T, H, k)`.
        keys: Tensor `(B, S, H, k)`.
        scale: Float32 tensor `(H, k)`.

    Returns:
        Float32 tensor `(B, H, T, S)`.
    """
    # One feature is then a slice that lies in one piece.
    queries, keys = (
        ops.transpose(ops.cast(x, "float32"), (3, 0, 2, 1))
        for x in (queries, keys)
    )
    scale = ops.transpose(scale)[:, None, :, None, None]
    return with_gradient(_summed, _gradient)(queries, keys, scale)


def _summed(queries, keys, scale):
    """Sums over features, which come first: `(k, B, H, T)` and so on."""

    def add(feature, state):
        own = _pairs(queries, keys, feature)
        return (state[0] + ops.take(scale, feature, axis=0) * own,)

    _, batch, heads, rows = ops.shape(queries)
    nothing = ops.zeros((batch, heads, rows, ops.shape(keys)[3]), "float32")
    return loops.repeat(queries.shape[0], add, (nothing,))[0]


def _gradient(upstream, _, queries, keys, scale):
    """Gradients by queries, keys and scale, one feature after the other."""

    def put(feature, state):
        own = _pairs(queries, keys, feature)
        slopes = upstream * ops.take(scale, feature, axis=0)
        slopes = slopes * (1.0 - ops.square(own))
        found = (
            ops.sum(slopes, axis=3),
            ops.sum(slopes, axis=2),
            ops.sum(upstream * own, axis=(0, 2, 3))[None, :, None, None],
        )
        return tuple(
            loops.put(x, [feature] + [0] * (len(x.shape) - 1), part[None])
            for x, part in zip(state, found, strict=True)
        )

    nothing = tuple(ops.zeros_like(x) for x in (queries, keys, scale))
    return loops.repeat(queries.shape[0], put, nothing)


def _pairs(queries, keys, feature):
    """`tanh(q + k)` of one feature, for all pairs: `(B, H, T, S)`."""
    own, other = (ops.take(x, feature, axis=0) for x in (queries, keys))
    return ops.tanh(own[..., :, None] + other[..., None, :])

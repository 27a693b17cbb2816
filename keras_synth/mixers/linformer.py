"""Linformer: attention to a few weighted sums of keys and values."""

from typing import Any

import keras
from keras import ops

from keras_synth._backend.checks import check_positive
from keras_synth._backend.distributions import MODEL, copied
from keras_synth._backend.seeds import add_table, normal_unless
from keras_synth.attention.positions import window
from keras_synth.mixers.bounded import check_at_most
from keras_synth.mixers.multi_head import MultiHeadMixer
from keras_synth.types import Identifier

SHARE = ("none", "heads", "key_value")


@keras.saving.register_keras_serializable(package="keras_synth")
class LinformerAttention(MultiHeadMixer):
    """Projects keys and values along the length ("linformer").

    `softmax(Q (E K)^T / sqrt(k)) (F V)` per head, with trainable tables E and
    F, `(rank, max_length)`. Each query attends to `rank` weighted sums of keys
    instead of S keys: O(T rank) time and memory.

    A source of `S <= max_length` tokens uses the first S columns of E and F.
    Padding has no influence. There is no causal form, because each sum contains
    all tokens. Attention masks, biases and scores are not supported, because
    there are no logits of pairs.

    The initial distribution of E and F is `N(0, 1 / max_length)`, so that sums
    over `max_length` keys have the variance of a key. (With the
    `U(+-1 / sqrt(rank))` of the PyTorch package the initial softmax is sharp.)

    Args:
        num_heads: Integer, `H`.
        key_dim: Integer, features per head of queries and keys, `k`.
        max_length: Integer, the longest source, in tokens.
        rank: Integer, number of sums, at most `max_length`. By default 128, the
            paper's choice for 512 tokens, or `max_length` if that is less.
        share: `"heads"`: all heads share one E and one F, without loss in the
            paper; `"none"`: each head has its own; `"key_value"`: one table is
            E and F of all heads.
        projection_initializer: Initializer of E and F.
        **kwargs: Keyword arguments of `MultiHeadMixer`.

    Call arguments and output: see `MultiHeadMixer`.

    Raises:
        ValueError: If `rank` exceeds `max_length`, or a source does.

    Example:

    >>> mixer = keras_synth.mixers.LinformerAttention(
    ...     num_heads=4, key_dim=16, max_length=128, rank=32)
    >>> mixer(keras.random.normal((2, 100, 64))).shape
    (2, 100, 64)

    References:
        - [Wang et al., 2020](https://arxiv.org/abs/2006.04768)
    """

    supports_causal_mask = False
    weight_axes = {"E": (MODEL,), "F": (MODEL,)}

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        max_length: int,
        rank: int | None = None,
        share: str = "heads",
        projection_initializer: Identifier | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_heads, key_dim, **kwargs)
        self.max_length = check_positive("max_length", max_length)
        self.rank = check_at_most("rank", rank, 128, self.max_length)
        if share not in SHARE:
            raise ValueError(
                f"`share` must be one of {SHARE}. Received: share={share!r}"
            )
        self.share = share
        self.projection_initializer = normal_unless(
            projection_initializer, self.max_length**-0.5
        )
        self.E = self.F = None

    def _build_projections(self, query_shape, value_shape, key_shape):
        self.E = self._add_table("E")
        if self.share != "key_value":
            self.F = self._add_table("F")
        super()._build_projections(query_shape, value_shape, key_shape)

    def _add_table(self, name):
        heads = self.num_heads if self.share == "none" else 1
        # A layout map would cut the axis that all heads share.
        with copied(when=heads == 1):
            shape = (heads, self.rank, self.max_length)
            return add_table(self, name, shape, self.projection_initializer)

    def _check_lengths(self, query_length, source_length):
        # The query can have any length.
        super()._check_lengths(source_length, source_length)

    def attend(self, queries, keys, values, mask, *, training=None):
        of_values = self.E if self.F is None else self.F
        keys = self._projected(self.E, keys)
        values = self._projected(of_values, values)
        return self._softmax_attention(queries, keys, values, None, training)

    def _projected(self, table, x):
        """`(B, S, H, k) -> (B, rank, H, k)`."""
        table = window(table, 2, 0, ops.shape(x)[1])
        table = ops.cast(table, x.dtype)
        if self.share != "none":
            return ops.einsum("rs,bshk->brhk", table[0], x)
        return ops.einsum("hrs,bshk->brhk", table, x)

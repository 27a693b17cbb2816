"""Sinkhorn attention: to a block and to the one sorted to it."""

from typing import Any

import keras
from keras import ops

from keras_synth._backend.checks import check_above_zero, check_positive
from keras_synth._backend.distributions import MODEL
from keras_synth._backend.seeds import add_table, normal_unless
from keras_synth._backend.tensors import product
from keras_synth.attention.normalizers import SOFTMAX
from keras_synth.attention.positions import window
from keras_synth.attention.routes.tile import tile_context, tile_scores
from keras_synth.attention.softmax import FORBIDDEN
from keras_synth.mixers.bounded import (
    BoundedMixer,
    check_at_most,
    cut_into_blocks,
    join_blocks,
)
from keras_synth.types import Identifier, Tensor

# A place of a sorted block is empty below this fraction of real tokens.
LEAST_SHARE = 1e-6


@keras.saving.register_keras_serializable(package="keras_synth")
class SinkhornAttention(BoundedMixer):
    """Attends to a token's own block and to one sorted to it ("sinkhorn").

    The sequence is cut into blocks. Per head, where `z_i` is the mean query of
    block i,

        P = sinkhorn(z_i . W_j / temperature),   W (N / block_size, k)

    is a matrix of blocks by blocks whose rows and columns sum to 1: the
    exponentials of the logits, with columns and rows normalised in turn
    `iterations` times. A token attends to the keys of its block and to the
    sorted keys `P K`, with one softmax of `q . k / sqrt(k)`. Time is
    O(T block_size + T^2 / block_size).

    Padding has no influence: a sorted key is the average of the real keys at
    its place, and its weight is multiplied by their fraction in P. There is no
    causal form, because columns of P are normalised over all blocks. Attention
    masks, biases and scores are not supported. (In the paper, training adds
    Gumbel noise to the logits, and z is a sum of embeddings.)

    Args:
        num_heads: Integer, `H`.
        key_dim: Integer, features per head of queries and keys, `k`.
        max_length: Integer, the longest sequence, in tokens, `N`.
        block_size: Integer, tokens in a block; by default 64, or `max_length`
            if that is less.
        iterations: Integer, number of normalisations of P.
        temperature: Float. The lower it is, the closer P is to a permutation.
        sort_initializer: Initializer of W; by default a normal distribution of
            standard deviation `1 / sqrt(k)`.
        **kwargs: Keyword arguments of `MultiHeadMixer`.

    Call arguments and output: see `MultiHeadMixer`, for one sequence.

    Raises:
        ValueError: If `block_size` or a sequence exceeds `max_length`, or
            `temperature` is not positive.

    Example:

    >>> mixer = keras_synth.mixers.SinkhornAttention(
    ...     num_heads=4, key_dim=16, max_length=128, block_size=16)
    >>> mixer(keras.random.normal((2, 100, 64))).shape
    (2, 100, 64)

    References:
        - [Tay et al., 2020](https://arxiv.org/abs/2002.11296)
    """

    weight_axes = {"sort_kernel": (MODEL,)}

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        max_length: int,
        block_size: int | None = None,
        iterations: int = 8,
        temperature: float = 0.75,
        sort_initializer: Identifier | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_heads, key_dim, max_length, **kwargs)
        self.block_size = self._block = check_at_most(
            "block_size", block_size, 64, self.max_length
        )
        self.iterations = check_positive("iterations", iterations)
        self.temperature = check_above_zero("temperature", temperature)
        self.sort_initializer = normal_unless(
            sort_initializer, self.key_dim**-0.5
        )
        self.sort_kernel = None

    def _build_projections(self, query_shape, value_shape, key_shape):
        super()._build_projections(query_shape, value_shape, key_shape)
        blocks = -(-self.max_length // self.block_size)
        self.sort_kernel = add_table(
            self,
            "sort_kernel",
            (self.num_heads, self.key_dim, blocks),
            self.sort_initializer,
        )

    def _mixed(self, training, is_token, *tensors):
        is_token = ops.cast(is_token[:, None, :, None], "float32")
        is_token, queries, keys, values = (
            cut_into_blocks(x, self.block_size) for x in (is_token, *tensors)
        )
        P = self.sorting(queries, is_token)  # (B, H, n, n)
        shares = _sorted(P, is_token)  # (B, H, n, c, 1)
        keys, values = (
            ops.concatenate([x, _averages(P, x, shares)], axis=3)
            for x in (keys, values)
        )
        shares = ops.concatenate(
            [ops.broadcast_to(is_token, ops.shape(shares)), shares], axis=3
        )
        shares = ops.swapaxes(shares, -1, -2)  # (B, H, n, 1, 2 c)
        bias = ops.log(ops.maximum(shares, LEAST_SHARE))
        seen = shares > LEAST_SHARE
        scores = tile_scores(queries * self.key_dim**-0.5, keys, bias, seen)
        dropout = self._active_dropout(training)
        context = tile_context(SOFTMAX, scores, seen, values, dropout=dropout)
        return join_blocks(context)

    def sorting(self, queries: Tensor, is_token: Tensor) -> Tensor:
        """Returns P, float32 `(B, H, n, n)`.

        Rows and columns of blocks without real tokens are zero.

        Args:
            queries: Tensor `(B, H, n, c, k)`, n blocks of c tokens, zero for
                padding.
            is_token: Float32 tensor `(B or 1, 1, n, c, 1)`, 0 for padding.
        """
        count = ops.sum(is_token, axis=3)  # (B, 1, n, 1)
        means = ops.sum(ops.cast(queries, "float32"), axis=3)
        means = means / ops.maximum(count, 1.0)
        blocks = ops.shape(queries)[2]
        kernel = window(self.sort_kernel, 2, 0, blocks)
        kernel = ops.cast(kernel, "float32")
        logits = ops.einsum("bhnk,hkm->bhnm", means, kernel) / self.temperature
        there = count > 0
        pairs = there & ops.swapaxes(there, -1, -2)  # (B, 1, n, n)
        for _ in range(self.iterations):
            for axis in (-2, -1):  # rows at last
                among = ops.where(pairs, logits, FORBIDDEN)
                sums = ops.logsumexp(among, axis=axis, keepdims=True)
                logits = logits - ops.where(pairs, sums, 0.0)
        found = ops.exp(ops.where(pairs, logits, 0.0))
        return ops.where(pairs, found, 0.0)


def _sorted(P, x):
    """`P x` of blocks `(B or 1, H or 1, n, c, f)`, in float32."""
    x = ops.cast(x, "float32")
    batch, heads = ops.shape(P)[:2]
    _, _, number, size, features = ops.shape(x)
    flat = ops.reshape(x, (*ops.shape(x)[:2], number, size * features))
    found = product(P, flat)
    return ops.reshape(found, (batch, heads, number, size, features))


def _averages(P, x, shares):
    """Sorted blocks without padding, in the dtype of `x`."""
    found = _sorted(P, x) / ops.maximum(shares, LEAST_SHARE)
    return ops.cast(found, x.dtype)

"""Routing Transformer: attention within clusters of similar tokens."""

import math
from typing import Any

import keras
from keras import ops

from keras_synth._backend.checks import check_rate
from keras_synth._backend.distributions import MODEL
from keras_synth._backend.seeds import add_table, seeded
from keras_synth.attention.normalizers import SOFTMAX
from keras_synth.attention.routes.tile import tile_context, tile_scores
from keras_synth.attention.softmax import FORBIDDEN
from keras_synth.mixers.bounded import (
    FIXED,
    BoundedMixer,
    check_at_most,
    take_tokens,
    unit,
)

# Cosines are rounded to multiples of 1 / PRECISION, above rounding errors.
PRECISION = 2.0**16


@keras.saving.register_keras_serializable(package="keras_synth")
class RoutingAttention(BoundedMixer):
    """Compares tokens in the same cluster ("routing").

    Each head has `clusters` centroids of unit length. A cluster contains the w
    queries and the w keys whose directions are nearest to its centroid, where w
    is `max_length / clusters`, rounded up. Within a cluster the weights are
    `softmax(q . k / sqrt(k))`. A query in several clusters gets the average of
    their results, and a query in none gets zero. Time and memory are
    O(T w + T clusters), plus sorting; about `sqrt(T)` clusters are best.

    Centroids are not trained by gradients. A training step moves each centroid
    towards the mean direction of the queries and keys nearest to it,
    `c = decay c + (1 - decay) mean`, normalized to length 1. It does not move
    if there are none, or if the layer is frozen. (The paper adds sums instead
    of means.)

    Padding has no influence. There is no causal form, because clusters depend
    on all tokens. Attention masks, biases and scores are not supported. Cosines
    are rounded to 2^-16, and among equally near tokens the first are chosen.
    The choice has no gradient.

    Args:
        num_heads: Integer, `H`.
        key_dim: Integer, features per head of queries and keys, `k`.
        max_length: Integer, the longest sequence, in tokens.
        clusters: Integer, clusters per head, at most `max_length`; by default
            its square root, rounded.
        decay: Float, weight of the old centroid in a step.
        **kwargs: Keyword arguments of `MultiHeadMixer`.

    Call arguments and output: see `MultiHeadMixer`, for one sequence.

    Raises:
        ValueError: If `clusters` or a sequence exceeds `max_length`.

    Example:

    >>> mixer = keras_synth.mixers.RoutingAttention(
    ...     num_heads=4, key_dim=16, max_length=128, clusters=8)
    >>> mixer(keras.random.normal((2, 100, 64))).shape
    (2, 100, 64)

    References:
        - [Roy et al., 2021](https://arxiv.org/abs/2003.05997)
    """

    weight_axes = {"centroids": (MODEL,)}

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        max_length: int,
        clusters: int | None = None,
        decay: float = 0.999,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_heads, key_dim, max_length, **kwargs)
        default = round(math.sqrt(self.max_length))
        self.clusters = check_at_most(
            "clusters", clusters, default, self.max_length
        )
        self._block = self.cluster_size  # so that no cluster lacks tokens
        self.decay = check_rate("decay", decay)
        self.centroids = None

    @property
    def cluster_size(self) -> int:
        """Integer, number of queries and of keys in a cluster, `w`."""
        return -(-self.max_length // self.clusters)

    def _build_projections(self, query_shape, value_shape, key_shape):
        super()._build_projections(query_shape, value_shape, key_shape)
        normal = keras.initializers.RandomNormal(stddev=1.0)
        normal = seeded(normal, self.seed, "centroids")
        self.centroids = add_table(
            self,
            "centroids",
            (self.num_heads, self.clusters, self.key_dim),
            lambda shape, dtype: unit(normal(shape, dtype)),
            **FIXED,
        )

    def _mixed(self, training, is_token, queries, keys, values):
        size = self.cluster_size
        of_queries, of_keys = (
            self._cosines(x, is_token) for x in (queries, keys)
        )
        if training and self.trainable:
            self._move(queries, keys, is_token)
        order = ops.argsort(-of_queries, axis=-1)  # (B, H, clusters, L)
        # Devices sort only their own samples; for `top_k` they send all.
        of_keys = ops.argsort(-of_keys, axis=-1)[..., :size]
        shape = (*ops.shape(keys)[:3], 1)
        is_token = ops.broadcast_to(is_token[:, None, :, None], shape)
        seen = ops.swapaxes(self._chosen(is_token, of_keys), -1, -2) > 0
        scores = tile_scores(
            self._chosen(queries, order[..., :size]) * self.key_dim**-0.5,
            self._chosen(keys, of_keys),
            allowed=seen,
        )
        values = self._chosen(values, of_keys)
        dropout = self._active_dropout(training)
        context = tile_context(SOFTMAX, scores, seen, values, dropout=dropout)
        return ops.where(is_token > 0, self._averaged(context, order), 0.0)

    def _cosines(self, x, is_token):
        """Rounded cosines of centroids and tokens, `(B, H, clusters, L)`."""
        directions = ops.stop_gradient(unit(x))
        cosines = ops.einsum("bhlk,hck->bhcl", directions, self.centroids)
        # Equally near tokens are then in their own order, not that of rounding.
        cosines = ops.round(cosines * PRECISION) / PRECISION
        return ops.where(is_token[:, None, None] > 0, cosines, FORBIDDEN)

    def _chosen(self, x, places):
        """Tokens `(B, H, L, f)` at places `(B, H, clusters, w)`."""
        batch, heads, clusters, size = ops.shape(places)
        flat = ops.reshape(places, (batch, heads, clusters * size))
        shape = batch, heads, clusters, size, x.shape[-1]
        return ops.reshape(take_tokens(x, flat), shape)

    def _averaged(self, context, order):
        """The average result of each query's clusters, `(B, H, L, v)`."""
        size = self.cluster_size
        places = ops.cast(ops.argsort(order, axis=-1), "int32")
        inside = ops.cast(places < size, "float32")[..., None]
        places = ops.minimum(places, size - 1)[..., None]
        found = ops.take_along_axis(context, places, axis=3)
        total = ops.sum(ops.cast(found, "float32") * inside, axis=2)
        return total / ops.maximum(ops.sum(inside, axis=2), 1.0)

    def _move(self, queries, keys, is_token):
        """Moves centroids towards the tokens nearest to them."""
        x = ops.concatenate([queries, keys], axis=2)
        x = ops.stop_gradient(unit(x))
        centroids = ops.convert_to_tensor(self.centroids)
        nearest = ops.argmax(ops.einsum("bhlk,hck->bhlc", x, centroids), -1)
        hot = ops.one_hot(nearest, self.clusters, dtype="float32")
        both = ops.concatenate([is_token, is_token], axis=1)
        hot = hot * ops.cast(both, "float32")[:, None, :, None]
        count = ops.sum(hot, axis=(0, 2))[..., None]  # (H, clusters, 1)
        mean = ops.einsum("bhlc,bhlk->hck", hot, x) / ops.maximum(count, 1.0)
        moved = self.decay * centroids + (1.0 - self.decay) * mean
        self.centroids.assign(ops.where(count > 0, unit(moved), centroids))

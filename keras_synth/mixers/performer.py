"""Performer: random features that estimate the softmax."""

import math
from typing import Any

import keras
from keras import ops

from keras_synth._backend.checks import check_optional
from keras_synth._backend.seeds import add_table, derived, seeded
from keras_synth.mixers.bounded import FIXED
from keras_synth.mixers.linear import KernelMixer

# Added to each feature so that no row's weights vanish; the largest is 1.
FLOOR = 1e-6
# A number this close to the largest, relative to it, can replace it.
NEARLY = 1e-5


@keras.saving.register_keras_serializable(package="keras_synth")
class PerformerAttention(KernelMixer):
    """Estimates softmax attention in linear time ("performer").

    `exp(q . k / sqrt(k))` is the mean, over random directions w, of
    `phi_w(q) phi_w(k)`, `phi_w(x) = exp(w . x' - |x'|^2 / 2)` with
    `x' = x / k^(1/4)`. The layer averages over m directions, shared by all
    heads: rows of orthogonal matrices, scaled to the norms of normal vectors.
    As in `LinearAttention`, time is O(T), and the decoding cache is a state of
    constant size, `(B, H, m, v)`.

    Features are divided by the largest of them before 1e-6 is added. The
    divisor of a query cancels. The divisor of a key is multiplied back,
    relative to the largest that a row sees, so that nothing overflows and no
    row depends on later keys. (The authors' code scales by the largest of all
    keys.)

    Attention masks, biases and scores are not supported.

    Args:
        num_heads: Integer, `H`.
        key_dim: Integer, features per head of queries and keys, `k`.
        features: Integer, number of directions, `m`; by default `k ln k`
            rounded down, but at least k. The error is proportional to
            `1 / sqrt(m)`.
        redraw_interval: Integer, training steps between new draws of the
            directions; `None` to keep the first ones. Directions and the number
            of steps are saved with the weights. A layer that is not `trainable`
            keeps its directions.
        **kwargs: Keyword arguments of `LinearAttention`.

    Call arguments and output: see `MultiHeadMixer`.

    Example:

    >>> mixer = keras_synth.mixers.PerformerAttention(
    ...     num_heads=4, key_dim=16, features=64)
    >>> mixer(keras.random.normal((2, 100, 64)), use_causal_mask=True).shape
    (2, 100, 64)

    References:
        - [Choromanski et al., 2021](https://arxiv.org/abs/2009.14794)
    """

    scaled = True
    # A row's weights sum to more than 1e-6; this only prevents 0 / 0.
    epsilon = 1e-12
    weight_axes = {"projection": ()}

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        features: int | None = None,
        redraw_interval: int = 1000,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_heads, key_dim, **kwargs)
        self.features = check_optional("features", features)
        width = self.key_dim
        self.num_features = features or max(width, int(width * math.log(width)))
        self.redraw_interval = check_optional(
            "redraw_interval", redraw_interval
        )
        self.projection = self.steps = self._draws = None

    def build(self, query_shape, value_shape=None, key_shape=None):
        first = keras.initializers.RandomNormal(stddev=1.0)
        first = seeded(first, self.seed, "projection")
        self.projection = add_table(
            self,
            "projection",
            (self.num_features, self.key_dim),
            lambda shape, dtype: directions(
                first(self._noise_shape, dtype), self.num_features
            ),
            **FIXED,
        )
        if self.redraw_interval is not None:
            self._draws = keras.random.SeedGenerator(
                derived(self.seed, "projection"), name="draws"
            )
            self.steps = self.add_weight(
                name="steps",
                shape=(),
                initializer="zeros",
                dtype="int32",
                trainable=False,
            )
        super().build(query_shape, value_shape, key_shape)

    @property
    def _noise_shape(self):
        blocks = -(-self.num_features // self.key_dim)
        return 2, blocks, self.key_dim, self.key_dim

    def feature_map(self, queries, keys, training=None):
        projection = ops.convert_to_tensor(self.projection)
        # `training` last: in a `keras.RematScope` on JAX it can be traced.
        if self.redraw_interval is not None and self.trainable and training:
            projection = self._after_step(projection)
        queries = ops.cast(queries, "float32") * self.key_dim**-0.25
        keys = ops.cast(keys, "float32") * self.key_dim**-0.25
        of_queries = _along(queries, projection)
        norms = ops.sum(ops.square(keys), axis=-1, keepdims=True)
        of_keys = _along(keys, projection) - norms / 2
        logs = _largest(of_keys)
        of_queries = ops.exp(of_queries - _largest(of_queries)) + FLOOR
        return of_queries, ops.exp(of_keys - logs) + FLOOR, logs[..., 0]

    def _after_step(self, projection):
        """Counts a step and returns its directions, which can be new."""
        due = self.steps >= self.redraw_interval
        noise = keras.random.normal(
            self._noise_shape, dtype="float32", seed=self._draws
        )
        projection = ops.cond(
            due,
            lambda: directions(noise, self.num_features),
            # Not the weight itself, which a later step can change.
            lambda: ops.copy(projection),
        )
        self.projection.assign(projection)
        self.steps.assign(ops.where(due, 1, self.steps + 1))
        return projection


def directions(noise, number):
    """Returns directions `(number, k)`, orthogonal in blocks of k.

    Each is distributed like a normal vector. `noise` is a normal tensor
    `(2, blocks, k, k)`.
    """
    columns, triangle = ops.qr(noise[0])
    # LAPACK's choice of signs makes some entries never positive.
    signs = ops.diagonal(triangle, axis1=-2, axis2=-1)
    columns = ops.where(signs[..., None, :] < 0, -columns, columns)
    rows = ops.swapaxes(columns, -1, -2)
    norms = ops.sqrt(ops.sum(ops.square(noise[1]), axis=-1, keepdims=True))
    return ops.reshape(rows * norms, (-1, noise.shape[-1]))[:number]


def _along(x, projection):
    """`(B, T, H, k) -> (B, T, H, m)`."""
    return ops.matmul(x, ops.transpose(projection))


def _largest(x):
    """The largest of the last axis up to `NEARLY`, `(..., 1)`.

    It has a gradient, because it does not cancel after the floor is added. The
    gradient is that of the entry at a place, because compilers that compute `x`
    twice may find no entry equal to the maximum. The place is a search among
    integers, because for floats on JAX Keras' `argmax` uses sign bits, which
    ONNX Runtime does not support.
    """
    largest = ops.stop_gradient(ops.amax(x, axis=-1, keepdims=True))
    near = x >= largest - NEARLY * (1.0 + ops.abs(largest))
    places = ops.argmax(ops.cast(near, "int32"), axis=-1, keepdims=True)
    entry = ops.take_along_axis(x, places, axis=-1)
    # Its value can be far enough below the largest for `exp` to overflow.
    return largest + (entry - ops.stop_gradient(entry))

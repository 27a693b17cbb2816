"""Attention by random features that estimate the softmax: FAVOR+."""

import math
from typing import Any

import keras
from keras import ops

from keras_synth._backend.checks import check_optional
from keras_synth._backend.seeds import add_table, derived, seeded
from keras_synth.mixers.bounded import FIXED
from keras_synth.mixers.kernel_attention import KernelMixer
from keras_synth.mixers.multi_head import MultiHeadMixer

# Added to each feature, whose largest is 1, so that no row's weights vanish.
FLOOR = 1e-6
# A number this near to the largest, relative to it, will do in its stead.
NEARLY = 1e-5


@keras.saving.register_keras_serializable(package="keras_synth")
class PerformerAttention(KernelMixer, MultiHeadMixer):  # type: ignore[misc]
    """Estimates softmax attention in linear time ("performer").

    `exp(q . k / sqrt(k))` is the mean, over random directions w, of
    `phi_w(q) phi_w(k)`, `phi_w(x) = exp(w . x' - |x'|^2 / 2)` with
    `x' = x / k^(1/4)`. Here m directions, which all heads share, stand for all:
    the rows of orthogonal matrices, scaled to the norms of normal vectors.
    Weights are combined as in `LinearAttention`: O(T), with a state of
    constant size when decoding, `(B, H, m, v)`.

    Features are divided by their largest before 1e-6 is added to each. The
    factor of a query cancels; that of a key is put back relative to the
    largest that a row sees: nothing overflows, and no row depends on later
    keys. (The authors' code scales by the largest of all keys.)

    There are no logits to add a bias to, no scores, and no attention masks
    but padding and the causal one.

    Args:
        num_heads: Integer, `H`.
        key_dim: Integer, features per head of queries and keys, `k`.
        features: Integer, the directions, `m`; by default `k ln k` rounded
            down, but at least k. The error falls with `1 / sqrt(m)`.
        redraw_interval: Integer, steps of training after which the directions
            are drawn anew; `None` to keep the first ones. They are saved with
            the weights, as is the number of steps. A layer that is not
            `trainable` keeps them.
        **kwargs: Keyword arguments of `MultiHeadMixer`. `dropout` is the share
            of source tokens to leave out of the sum of values in training,
            drawn for each head and for all queries at once.

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
    # A row's weights sum to more than 1e-6: this only keeps 0 / 0 away.
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
        # `training` last: in a `keras.RematScope` on JAX it may be traced.
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
        """Counts a step; returns the directions for it, which may be new."""
        due = self.steps >= self.redraw_interval
        noise = keras.random.normal(
            self._noise_shape, dtype="float32", seed=self._draws
        )
        projection = ops.cond(
            due,
            lambda: directions(noise, self.num_features),
            # Not the weight itself, which a later step may write to.
            lambda: ops.copy(projection),
        )
        self.projection.assign(projection)
        self.steps.assign(ops.where(due, 1, self.steps + 1))
        return projection


def directions(noise, number):
    """Returns directions `(number, k)`, orthogonal in blocks of k.

    Each is distributed like a normal vector.

    Args:
        noise: Normal tensor `(2, blocks, k, k)`.
        number: Integer, at most `blocks * k`.
    """
    columns, triangle = ops.qr(noise[0])
    # LAPACK chooses the signs so that some entries are never positive.
    signs = ops.diagonal(triangle, axis1=-2, axis2=-1)
    columns = ops.where(signs[..., None, :] < 0, -columns, columns)
    rows = ops.swapaxes(columns, -1, -2)
    norms = ops.sqrt(ops.sum(ops.square(noise[1]), axis=-1, keepdims=True))
    return ops.reshape(rows * norms, (-1, noise.shape[-1]))[:number]


def _along(x, projection):
    """`(B, T, H, k) -> (B, T, H, m)`."""
    return ops.matmul(x, ops.transpose(projection))


def _largest(x):
    """The largest of the last axis but for `NEARLY`, `(..., 1)`.

    It is not a constant, since it does not cancel where the floor is added. Its
    gradient is that of a place, since compilers that compute `x` twice need
    not find an entry that is equal to the maximum. The place is looked for
    among integers: of floats, Keras' `argmax` asks for the bits of signs on
    JAX, which ONNX Runtime cannot give.
    """
    largest = ops.stop_gradient(ops.amax(x, axis=-1, keepdims=True))
    near = x >= largest - NEARLY * (1.0 + ops.abs(largest))
    places = ops.argmax(ops.cast(near, "int32"), axis=-1, keepdims=True)
    entry = ops.take_along_axis(x, places, axis=-1)
    # Its value may lie below the largest by more than `exp` can bear.
    return largest + (entry - ops.stop_gradient(entry))

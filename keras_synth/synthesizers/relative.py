"""Logits from the distance of two tokens, for any length."""

import math
from typing import Any

import keras
from keras import ops

from keras_synth._backend.checks import check_boolean, check_positive
from keras_synth._backend.distributions import MODEL
from keras_synth._backend.seeds import normal_unless
from keras_synth._backend.tensors import indices, take
from keras_synth.attention.logits import Logits
from keras_synth.synthesizers.random import INITIAL_STDDEV
from keras_synth.synthesizers.synthesizer import Synthesizer
from keras_synth.types import Identifier, Tensor


class DistanceSynthesizer(Synthesizer):
    """Attends by distance only: `S[i, j] = w(j - i)`, per head."""

    reads_tokens = False

    def weigh(self, distances: Tensor) -> Tensor:
        """The logits `(H, n)` of integer distances `j - i`, `(n,)`.

        The query token is i, the source token j.
        """
        raise NotImplementedError

    def call(self, query, keys=None, *, start=0, length=None):
        rows, columns = self.lengths(query, start, length)
        # From the last row to the first, and one more at both ends.
        distances = indices(rows + columns + 1) - rows - start
        table = _toeplitz(self.weigh(distances), rows, columns)
        return Logits(bias=table, needs_float32=self.needs_float32)


def _toeplitz(diagonals, rows, columns):
    """Returns the table `(1, H, T, S)` of diagonals `(H, T + S + 1)`.

    Rows of length n + 1 are flattened, and rows of length n are read from the
    result. This shifts each row by one without gathering entries.
    """
    if not (isinstance(rows, int) or ops.is_tensor(rows)):
        # Exports of JAX and PyTorch cannot slice by products of open lengths.
        i, j = (indices(x) for x in (rows, columns))
        return take(diagonals, j - i[:, None] + rows, 1)[None]
    heads, count = diagonals.shape[0], rows + columns
    repeated = ops.broadcast_to(diagonals[:, None], (heads, rows, count + 1))
    flat = ops.reshape(repeated, (heads, rows * (count + 1)))
    shifted = ops.reshape(flat[:, : rows * count], (heads, rows, count))
    return shifted[None, :, :, rows:]


@keras.saving.register_keras_serializable(package="keras_synth")
class RelativeSynthesizer(DistanceSynthesizer):
    """One trainable number per head and distance ("relative").

    `S[i, j] = w[clip(j - i, -m, m)]`: like Random's table, but dependent only
    on the distance.

    Args:
        num_heads: Integer, `H`.
        max_distance: Integer, `m`, in tokens.
        initializer: Initializer of the numbers, by default a normal
            distribution with standard deviation 0.1.
        regularizer: Optional regularizer of the numbers.
        **kwargs: Arguments of `Synthesizer`.

    Returns:
        `Logits`: bias `(1, H, T, S)`.

    Example:

    >>> layer = keras_synth.layers.SyntheticAttention(
    ...     4, 16, synthesizer="relative(max_distance=8)")
    >>> layer(keras.random.normal((2, 10, 64))).shape
    (2, 10, 64)

    References:
        - [Shaw et al., 2018](https://arxiv.org/abs/1803.02155), for clipped
          distances
        - [Tay et al., 2021](https://arxiv.org/abs/2005.00743), for tables of
          positions
    """

    weight_axes = {"distances": (MODEL,)}
    last_weights = ("distances",)

    def __init__(
        self,
        num_heads: int,
        max_distance: int = 128,
        initializer: Identifier | None = None,
        regularizer: Identifier | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_heads, **kwargs)
        self.max_distance = check_positive("max_distance", max_distance)
        self.initializer = normal_unless(initializer, INITIAL_STDDEV)
        self.regularizer = keras.regularizers.get(regularizer)
        self.distances = None

    def build(self, query_shape, source_shape=None):
        self.distances = self.add_table(
            "distances",
            (self.num_heads, 2 * self.max_distance + 1),
            self.initializer,
            regularizer=self.regularizer,
        )

    def weigh(self, distances):
        most = self.max_distance
        places = ops.clip(distances, -most, most) + most
        return take(ops.convert_to_tensor(self.distances), places, 1)


@keras.saving.register_keras_serializable(package="keras_synth")
class AlibiSynthesizer(DistanceSynthesizer):
    """Attention with linear biases ("alibi"), for `"alibi + V"`.

    `S[i, j] = -m |i - j|` with the slopes m `2^(-8/H), 2^(-16/H), ..., 2^-8` if
    H is a power of two. Otherwise the slopes are interpolated as in the
    authors' code. In a sum it is a bias, which is not scaled by an alpha.

    Args:
        num_heads: Integer, `H`.
        trainable: Whether the slopes are learned, as a weight `log m`. (In the
            paper, learned slopes extrapolated less well.)
        **kwargs: Arguments of `Synthesizer`.

    Returns:
        `Logits`: bias `(1, H, T, S)`.

    Example:

    >>> layer = keras_synth.layers.SyntheticAttention(
    ...     4, 16, synthesizer="alibi + V")
    >>> layer(keras.random.normal((2, 10, 64))).shape
    (2, 10, 64)

    References:
        - [Press et al., 2022](https://arxiv.org/abs/2108.12409)
    """

    is_bias = True
    needs_float32 = True
    weight_axes = {"log_slopes": (MODEL,)}

    def __init__(
        self, num_heads: int, trainable: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(num_heads, **kwargs)
        self.learns_slopes = check_boolean("trainable", trainable)
        self.log_slopes = None

    def build(self, query_shape, source_shape=None):
        if self.learns_slopes:
            self.log_slopes = self.add_table(
                "log_slopes",
                (self.num_heads,),
                lambda shape, dtype: ops.log(
                    ops.convert_to_tensor(_slopes(self.num_heads), dtype)
                ),
            )

    def get_config(self):
        # Keras' `trainable` is also false for a frozen layer.
        config = {"learns_slopes": self.learns_slopes}
        return {**super().get_config(), **config}

    @classmethod
    def from_config(cls, config):
        own = {"learns_slopes": False, "trainable": True, **config}
        learned, trainable = own.pop("learns_slopes"), own.pop("trainable")
        made = super().from_config({**own, "trainable": learned})
        made.trainable = trainable
        return made

    def weigh(self, distances):
        if self.log_slopes is None:
            slopes = ops.convert_to_tensor(_slopes(self.num_heads), "float32")
        else:
            slopes = ops.exp(ops.cast(self.log_slopes, "float32"))
        return -slopes[:, None] * ops.cast(ops.abs(distances), "float32")


def _slopes(num_heads):
    """ALiBi's slopes; beyond a power of two, every other one of the next."""
    power = 2 ** int(math.log2(num_heads))
    slopes = [2.0 ** (-8.0 * i / power) for i in range(1, power + 1)]
    finer = [2.0 ** (-4.0 * i / power) for i in range(1, 2 * power + 1, 2)]
    return slopes + finer[: num_heads - power]


@keras.saving.register_keras_serializable(package="keras_synth")
class T5RelativeSynthesizer(DistanceSynthesizer):
    """T5's relative positions ("t5_relative"), for `"t5_relative + V"`.

    `S[i, j] = w[bucket(j - i)]`, one trainable number per head and bucket. Each
    short distance has its own bucket. The width of other buckets grows
    logarithmically. In a sum it is a bias, which is not scaled by an alpha.

    Args:
        num_heads: Integer, `H`.
        num_buckets: Integer, at least 4, and even if `bidirectional`.
        max_distance: Integer, in tokens. All longer distances share a bucket.
        bidirectional: Whether earlier and later tokens each have half of the
            buckets, as in T5's encoder. Otherwise all later tokens share the
            bucket of distance 0, as in T5's decoder.
        initializer: Initializer of the numbers.
        **kwargs: Arguments of `Synthesizer`.

    Returns:
        `Logits`: bias `(1, H, T, S)`.

    Example:

    >>> layer = keras_synth.layers.SyntheticAttention(
    ...     4, 16, synthesizer="t5_relative(num_buckets=16) + V")
    >>> layer(keras.random.normal((2, 10, 64))).shape
    (2, 10, 64)

    References:
        - [Raffel et al., 2020](https://arxiv.org/abs/1910.10683)
    """

    is_bias = True
    weight_axes = {"relative_attention_bias": (None, MODEL)}
    last_weights = ("relative_attention_bias",)

    def __init__(
        self,
        num_heads: int,
        num_buckets: int = 32,
        max_distance: int = 128,
        bidirectional: bool = True,
        initializer: Identifier = "glorot_uniform",
        **kwargs: Any,
    ) -> None:
        super().__init__(num_heads, **kwargs)
        self.num_buckets = check_positive("num_buckets", num_buckets)
        self.max_distance = check_positive("max_distance", max_distance)
        self.bidirectional = check_boolean("bidirectional", bidirectional)
        one_side = self.num_buckets // (2 if self.bidirectional else 1)
        uneven = self.bidirectional and self.num_buckets % 2
        if uneven or one_side < 2 or self.max_distance <= one_side // 2:
            raise ValueError(
                "`num_buckets` must be at least 2 per direction, and even if "
                "there are two directions. `max_distance` must be larger than "
                "half of the buckets of one direction. Received: "
                f"num_buckets={num_buckets}, max_distance={max_distance}, "
                f"bidirectional={bidirectional}"
            )
        self.initializer = keras.initializers.get(initializer)
        self.relative_attention_bias = None

    def build(self, query_shape, source_shape=None):
        self.relative_attention_bias = self.add_table(
            "relative_attention_bias",
            (self.num_buckets, self.num_heads),  # T5's layout
            self.initializer,
        )

    def weigh(self, distances):
        table = ops.convert_to_tensor(self.relative_attention_bias)
        return ops.transpose(ops.take(table, self._buckets(distances), axis=0))

    def _buckets(self, distances):
        buckets, first = self.num_buckets, 0
        if self.bidirectional:
            buckets //= 2
            first = buckets * ops.cast(distances > 0, "int32")
            steps = ops.abs(distances)
        else:
            steps = ops.maximum(-distances, 0)
        exact = buckets // 2
        far = ops.cast(ops.maximum(steps, exact), "float32")
        scale = (buckets - exact) / math.log(self.max_distance / exact)
        far = exact + ops.cast(ops.log(far / exact) * scale, "int32")
        far = ops.minimum(far, buckets - 1)
        steps = ops.cast(steps, "int32")
        return first + ops.where(steps < exact, steps, far)

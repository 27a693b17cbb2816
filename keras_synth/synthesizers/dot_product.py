"""Dot-product logits, the paper's "vanilla" variant."""

from typing import Any

import keras
from keras import ops

from keras_synth._backend.checks import (
    check_above_zero,
    check_boolean,
    check_optional,
    check_positive,
)
from keras_synth._backend.tensors import axis_size, cast_like, indices
from keras_synth.attention.logits import Logits, float32
from keras_synth.attention.projections import (
    Projections,
    axes_of_heads,
    check_divides_heads,
    repeated_heads,
)
from keras_synth.synthesizers.synthesizer import Synthesizer
from keras_synth.types import Tensor


class PairSynthesizer(Synthesizer):
    """The base of synthesizers that compare a query with a key."""

    weight_axes = axes_of_heads("query", "key")

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        use_bias: bool = True,
        fixed: bool = False,
        **kwargs: Any,
    ) -> None:
        self.fixed = check_boolean("fixed", fixed)
        self._projections = Projections(kwargs, use_bias, self.fixed)
        super().__init__(num_heads, **kwargs)
        self.key_dim = check_positive("key_dim", key_dim)
        heads = self.num_heads, self.num_key_value_heads or self.num_heads
        self.query, self.key = (
            self._projections.split_heads(
                number, self.key_dim, name, self.dtype_policy
            )
            for number, name in zip(heads, ("query", "key"), strict=True)
        )

    def build(self, query_shape, source_shape=None):
        self.query.build(query_shape)
        self.key.build(query_shape if source_shape is None else source_shape)

    def project_keys(self, source):
        return self.key(source)


@keras.saving.register_keras_serializable(package="keras_synth")
class DotProductSynthesizer(PairSynthesizer):
    """Compares each query token with each source token ("V").

    This is scaled dot-product attention:
    `S = (x Wq + bq) . (y Wk + bk) / sqrt(k)` for the query x and the source y.
    The projections have the names, layout and initial values of
    `keras.layers.MultiHeadAttention`.

    With `num_key_value_heads` (`G` below) several heads compare with the same
    keys, as in `keras.layers.GroupQueryAttention`: head h uses keys
    `h // (H / G)`. The layer's values then also have `G` heads.

    With `rotary=True` queries and keys are rotated by their positions. Features
    f and f + r/2, of r rotated features, turn by the angle
    `i m^(-2f/r)` at position i, where m is `rotary_max_wavelength`. The logits
    then depend on distances, for sequences of any length. Caches contain the
    keys before the rotation.

    Args:
        num_heads: Integer, `H`.
        key_dim: Integer, features per head, `k`.
        use_bias: Whether the projections have a bias.
        fixed: Whether the projections keep their initial values ("frozen-QK"),
            even if `trainable` is set on the layer or on a model around it.
        num_key_value_heads: Optional integer, `G`, which divides `H`.
        rotary: Whether queries and keys are rotated.
        rotary_max_wavelength: Float, `m`.
        rotary_percentage: Float, the share of the features that are rotated, at
            most 1. `r = int(k * rotary_percentage)` must be even.
        **kwargs: Options of the projections as in
            `keras.layers.MultiHeadAttention` (`kernel_initializer`,
            `bias_initializer`, `kernel_regularizer`, `bias_regularizer`,
            `activity_regularizer`, `kernel_constraint`, `bias_constraint`),
            and arguments of `Synthesizer`.

    Call arguments, in addition to those of `Synthesizer.call`:
        queries: Optional tensor `(B, T, H, k)`, the projected query.

    Returns:
        `Logits`: queries `(B, T, H, k)`, keys `(B, S, H, k)`.

    Example:

    >>> layer = keras_synth.layers.SyntheticAttention(
    ...     4, 16, synthesizer="dot_product")
    >>> layer(keras.random.normal((2, 10, 64))).shape
    (2, 10, 64)
    >>> layer = keras_synth.layers.SyntheticAttention(
    ...     4, 16, synthesizer="V(rotary=True, num_key_value_heads=2)")
    >>> layer(keras.random.normal((2, 10, 64))).shape
    (2, 10, 64)

    References:
        - [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762)
        - [Dong et al., 2025](https://arxiv.org/abs/2506.01115), for fixed
          projections
        - [Ainslie et al., 2023](https://arxiv.org/abs/2305.13245), for shared
          keys and values
        - [Su et al., 2021](https://arxiv.org/abs/2104.09864), for rotations
    """

    remembers_last = True

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        use_bias: bool = True,
        fixed: bool = False,
        num_key_value_heads: int | None = None,
        rotary: bool = False,
        rotary_max_wavelength: float = 10_000.0,
        rotary_percentage: float = 1.0,
        **kwargs: Any,
    ) -> None:
        self.num_key_value_heads = check_optional(
            "num_key_value_heads", num_key_value_heads
        )
        super().__init__(num_heads, key_dim, use_bias, fixed, **kwargs)
        check_divides_heads(self.num_heads, self.num_key_value_heads)
        self.rotary = check_boolean("rotary", rotary)
        self.rotary_max_wavelength = check_above_zero(
            "rotary_max_wavelength", rotary_max_wavelength
        )
        self.rotary_percentage = check_above_zero(
            "rotary_percentage", rotary_percentage
        )
        own = self.rotary_max_wavelength, self.rotary_percentage
        if not self.rotary and own != (10_000.0, 1.0):
            raise ValueError(
                "`rotary_max_wavelength` and `rotary_percentage` need "
                'rotary=True, as in "V(rotary=True, rotary_percentage=0.5)". '
                f"Received: rotary={rotary}, "
                f"rotary_max_wavelength={rotary_max_wavelength}, "
                f"rotary_percentage={rotary_percentage}"
            )
        self.rotary_dim = int(self.key_dim * self.rotary_percentage)
        if self.rotary and (
            self.rotary_percentage > 1
            or self.rotary_dim < 2
            or self.rotary_dim % 2
        ):
            raise ValueError(
                "Rotary positions turn pairs of features: int(key_dim * "
                "rotary_percentage) must be an even number from 2 to key_dim. "
                f"Received: key_dim={key_dim}, "
                f"rotary_percentage={rotary_percentage}"
            )

    def call(self, query, keys=None, queries=None, *, start=0, length=None):
        if keys is None:
            raise ValueError(
                "Dot-product logits need keys. Pass "
                "keys=synthesizer.project_keys(source). Received: keys=None"
            )
        if queries is None:
            queries = self.query(query)
        if self.rotary:
            places = indices(axis_size(query, 1))
            queries = self.rotate(queries, places + start)
            places = indices(axis_size(keys, 1))
            keys = self.rotate(keys, places)
        keys = repeated_heads(keys, self.num_heads)
        if keys.dtype != queries.dtype:  # by a policy of only one of them
            keys = cast_like(keys, queries)
        return Logits(queries * self.key_dim**-0.5, keys)

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        """Rotates queries or keys `(B, T, H, k)`.

        Positions are `(T,)` or `(B, T)`.
        """
        angles = rotation(
            positions, self.rotary_dim, self.rotary_max_wavelength
        )
        return rotated(ops.convert_to_tensor(x), *angles)


def rotation(positions, width, max_wavelength):
    """Returns cosines and sines of the angles of positions.

    These are `(T,)` or `(B, T)`, the results float32 `(T, 1, width / 2)` or
    `(B, T, 1, width / 2)`.
    """
    speeds = [float(max_wavelength) ** (-i / width) for i in range(0, width, 2)]
    positions = ops.cast(positions, "float32")[..., None, None]
    angles = positions * ops.convert_to_tensor(speeds, "float32")
    return ops.cos(angles), ops.sin(angles)


def rotated(x, cos, sin):
    """Rotates pairs of features, f with f + width / 2, of `(B, T, H, k)`.

    Features from `width` on stay unchanged, and so does the dtype.
    """
    half = cos.shape[-1]
    a, b = float32(x[..., :half]), float32(x[..., half : 2 * half])
    parts = [ops.cast(a * cos - b * sin, x.dtype)]
    parts += [ops.cast(b * cos + a * sin, x.dtype)]
    if 2 * half < x.shape[-1]:
        parts += [x[..., 2 * half :]]
    return ops.concatenate(parts, axis=-1)

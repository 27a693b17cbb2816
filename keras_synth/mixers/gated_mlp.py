"""gMLP's spatial gating unit."""

from typing import Any

import keras
from keras import ops

from keras_synth._backend.checks import (
    check_above_zero,
    check_positive,
    check_seed,
)
from keras_synth._backend.distributions import DATA, MODEL
from keras_synth._backend.policies import assign_policies
from keras_synth._backend.seeds import add_table
from keras_synth.attention import masks
from keras_synth.attention.projections import Projections, axes_of_heads
from keras_synth.mixers.length_mixer import along, updated
from keras_synth.mixers.self_mixer import SelfMixer
from keras_synth.types import Identifier


@keras.saving.register_keras_serializable(package="keras_synth")
class GatedMLP(SelfMixer):
    """Gates tokens by a linear map along the length, as gMLP ("gmlp").

    `u, v = split(act(x A + a))`, `y = (u * (W norm(v) + b)) C + c`: `W` is
    `(max_length, max_length)`, `b` has an entry per position, norm is a layer
    normalisation of the gating half, and u and v have `e = ffn_dim / 2`
    features. At the start W is near zero, `U(-0.001 / n, 0.001 / n)` with n
    for `max_length`, and b is one: tokens pass as they are.

    A sequence of T tokens uses the first T rows and columns of W, in the causal
    form its lower triangle. Padding counts as zeros after the normalisation;
    padded tokens get `c`. The paper's optional tiny attention is left out, and
    so is the normalisation of x before: blocks have one.

    Args:
        max_length: Integer, longest sequence, in tokens.
        ffn_dim: Integer, width of u and v together, even; `2 d` by default.
            (The paper's is `6 d`, in blocks without a feed-forward network.)
        activation: Activation before the split.
        layer_norm_epsilon: Float, epsilon of the normalisation.
        use_bias: Whether the two dense layers have biases, a and c.
        spatial_initializer: Initializer of W; by default the one above.
        seed: Optional integer, seed of the initial values.
        **kwargs: Initializers, regularizers and constraints of the dense
            layers, as of `MultiHeadMixer`, and keyword arguments of
            `keras.layers.Layer`.

    Call arguments and output: see `SelfMixer`.

    Raises:
        ValueError: If an argument is out of range, or the sequence is longer
            than `max_length`.

    Example:

    >>> mixer = keras_synth.mixers.GatedMLP(max_length=128)
    >>> mixer(keras.random.normal((2, 100, 64))).shape
    (2, 100, 64)

    References:
        - [Liu et al., 2021](https://arxiv.org/abs/2105.08050)
    """

    supports_causal_mask = True
    weight_axes = {
        **axes_of_heads("value"),
        "W": (None, MODEL),
        "output/kernel": (MODEL, DATA),
    }

    def __init__(
        self,
        max_length: int,
        ffn_dim: int | None = None,
        activation: Identifier = "gelu",
        layer_norm_epsilon: float = 1e-5,
        use_bias: bool = True,
        spatial_initializer: Identifier | None = None,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        projections = Projections.taken_from(kwargs, use_bias, seed=seed)
        super().__init__(**kwargs)
        self._projections = projections
        self.max_length = check_positive("max_length", max_length)
        self.seed = check_seed("seed", seed)
        if ffn_dim is not None and check_positive("ffn_dim", ffn_dim) % 2:
            raise ValueError(
                "`ffn_dim` must be even: one half gates the other. "
                f"Received: ffn_dim={ffn_dim}"
            )
        self.ffn_dim = ffn_dim
        self.activation = keras.activations.get(activation)
        self.layer_norm_epsilon = check_above_zero(
            "layer_norm_epsilon", layer_norm_epsilon
        )
        self.use_bias = self._projections.use_bias
        if spatial_initializer is None:
            limit = 1e-3 / self.max_length
            spatial_initializer = keras.initializers.RandomUniform(
                -limit, limit
            )
        self.spatial_initializer = keras.initializers.get(spatial_initializer)
        self.value: keras.Layer = None
        self.norm: keras.Layer = None
        self.output_dense: keras.Layer = None
        self.W = self.b = None
        self._gated: int | None = None  # features, once it is built

    def build(self, query_shape, value_shape=None, key_shape=None):
        self._check_rank(query_shape)
        dim = query_shape[-1]
        self._gated = (self.ffn_dim or 2 * dim) // 2
        gated_shape = (*query_shape[:-1], self._gated)
        dtype = self.dtype_policy
        self.value = self._projections.dense(
            2 * self._gated, "value", dtype, self.activation
        )
        self.value.build(query_shape)
        self.norm = keras.layers.LayerNormalization(
            epsilon=self.layer_norm_epsilon, dtype=dtype, name="norm"
        )
        self.norm.build(gated_shape)
        length = self.max_length
        self.W = add_table(
            self, "W", (length, length), self.spatial_initializer
        )
        self.b = add_table(self, "b", (length,), keras.initializers.Ones())
        self.output_dense = self._projections.dense(dim, "output", dtype)
        self.output_dense.build(gated_shape)
        assign_policies(self)
        self.built = True

    def mix(self, x, padding_mask=None, causal=False, training=None):
        length = ops.shape(x)[1]
        u, v = self._halves(x, padding_mask)
        gate = along(self.W, self.b, v, length, causal)
        return self._gated_output(u, gate, padding_mask)

    def _halves(self, x, padding_mask):
        """What passes and what gates it, `(B, T, e)`; zero for padding."""
        x = self.value(masks.zero_padding(x, padding_mask))
        u, v = ops.split(x, 2, axis=-1)
        return u, masks.zero_padding(self.norm(v), padding_mask)

    def _gated_output(self, u, gate, padding_mask):
        return self.output_dense(masks.zero_padding(u * gate, padding_mask))

    def _cache_shapes(self, start=0):
        return (None, self._gated)  # of normalised v

    def _call_cached(self, call, cache, start):
        real = masks.present_padding(call.mask.keys, call.query, start)
        x = ops.cast(call.query, self.compute_dtype)
        u, v = self._halves(x, real)
        cache = updated(cache, v, start)
        seen = masks.zero_padding(cache, call.mask.keys)
        rows = ops.shape(x)[1]
        gate = along(self.W, self.b, seen, rows, causal=True, start=start)
        return self._gated_output(u, gate, real), cache

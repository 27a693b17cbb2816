"""MLPs along the length: MLP-Mixer and gMLP."""

from typing import Any

import keras
from keras import ops

from keras_synth._backend.checks import (
    check_above_zero,
    check_boolean,
    check_positive,
    check_seed,
)
from keras_synth._backend.distributions import DATA, MODEL
from keras_synth._backend.policies import inherit_settings
from keras_synth._backend.seeds import add_table
from keras_synth._backend.tensors import indices
from keras_synth.attention import masks
from keras_synth.attention.positions import window
from keras_synth.attention.projections import Projections, axes_of_heads
from keras_synth.mixers.call import written
from keras_synth.mixers.self_mixer import SelfMixer
from keras_synth.types import Identifier


@keras.saving.register_keras_serializable(package="keras_synth")
class MLPMixer(SelfMixer):
    """Mixes tokens by an MLP along the length, like MLP-Mixer ("mlp_mixer").

    `y = W2 act(W1 x + b1) + b2` for each of the d features. `W1` is
    `(hidden_dim, max_length)`, `W2` is `(max_length, hidden_dim)`, and the
    biases have an entry per row. A sequence of T tokens uses the first T
    columns of W1 and the first T rows of W2. Padding counts as zeros, and
    outputs of padding are zero.

    In the causal form, which is not in the paper, unit i sees tokens up to i,
    and output i sees units up to i. Both matrices are lower triangular, and
    `hidden_dim` must equal `max_length`. When decoding, padding must be masked
    in its own step, because hidden units cannot forget it.

    Args:
        max_length: Integer, longest sequence, in tokens.
        hidden_dim: Integer, hidden units, the paper's D_S; `max_length` by
            default.
        activation: Activation of the hidden units.
        use_bias: Whether the layers have biases, b1 and b2.
        kernel_initializer: Initializer of W1 and W2.
        bias_initializer: Initializer of b1 and b2.
        seed: Optional integer, seed of the initial values.
        **kwargs: Keyword arguments of `keras.layers.Layer`.

    Call arguments and output: see `SelfMixer`.

    Raises:
        ValueError: If an argument is out of range, the sequence is longer than
            `max_length`, or a causal mask is not supported.

    Example:

    >>> mixer = keras_synth.mixers.MLPMixer(max_length=128)
    >>> mixer(keras.random.normal((2, 100, 64))).shape
    (2, 100, 64)

    References:
        - [Tolstikhin et al., 2021](https://arxiv.org/abs/2105.01601)
    """

    supports_causal_mask = True
    weight_axes = {"W1": (None, MODEL), "W2": (MODEL,), "b1": (MODEL,)}

    def __init__(
        self,
        max_length: int,
        hidden_dim: int | None = None,
        activation: Identifier = "gelu",
        use_bias: bool = True,
        kernel_initializer: Identifier = "glorot_uniform",
        bias_initializer: Identifier = "zeros",
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.max_length = check_positive("max_length", max_length)
        self.seed = check_seed("seed", seed)
        self.hidden_dim = check_positive(
            "hidden_dim", max_length if hidden_dim is None else hidden_dim
        )
        self.supports_causal_mask = self.hidden_dim == self.max_length
        self.activation = keras.activations.get(activation)
        self.use_bias = check_boolean("use_bias", use_bias)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.W1 = self.W2 = self.b1 = self.b2 = None

    def build(self, query_shape, value_shape=None, key_shape=None):
        super().build(query_shape)
        shape = self.hidden_dim, self.max_length
        kernels, biases = self.kernel_initializer, self.bias_initializer
        self.W1 = add_table(self, "W1", shape, kernels)
        self.W2 = add_table(self, "W2", shape[::-1], kernels)
        if self.use_bias:
            self.b1 = add_table(self, "b1", shape[:1], biases)
            self.b2 = add_table(self, "b2", shape[1:], biases)

    def _check_supported(self, arguments, cached=False):
        if arguments.get("use_causal_mask") and not self.supports_causal_mask:
            raise ValueError(
                "An MLPMixer supports causal masks only if `hidden_dim` equals "
                "`max_length`. Leave `hidden_dim` out. Received: "
                f"hidden_dim={self.hidden_dim}, max_length={self.max_length}"
            )
        super()._check_supported(arguments, cached)

    def mix(self, x, padding_mask=None, causal=False, training=None):
        length = ops.shape(x)[1]
        x = masks.zero_padding(x, padding_mask)
        units = length if causal else self.hidden_dim
        hidden = self._hidden(x, units, causal)
        y = _along(self.W2, self.b2, hidden, length, causal)
        return masks.zero_padding(y, padding_mask)

    def _hidden(self, x, units, causal, start=0):
        """Hidden units `(B, units, d)` of tokens `(B, S, d)`."""
        return self.activation(
            _along(self.W1, self.b1, x, units, causal, start)
        )

    def _cache_shapes(self, start=0):
        return dict.fromkeys(("tokens", "hidden"), (None, self._features))

    def _call_cached(self, call, cache, start):
        # A token must be masked in its own step, because hidden units cannot
        # forget it.
        real = masks.present_padding(call.mask.keys, call.query, start)
        x = ops.cast(call.query, self.compute_dtype)
        x, length = masks.zero_padding(x, real), ops.shape(x)[1]
        tokens = written(cache["tokens"], x, start)
        new = self._hidden(tokens, length, True, start)
        hidden = written(cache["hidden"], new, start)
        y = _along(self.W2, self.b2, hidden, length, True, start)
        cache = {"tokens": tokens, "hidden": hidden}
        return masks.zero_padding(y, real), cache


@keras.saving.register_keras_serializable(package="keras_synth")
class GatedMLP(SelfMixer):
    """Gates tokens by a linear map along the length, like gMLP ("gmlp").

    `u, v = split(act(x A + a))`, `y = (u * (W norm(v) + b)) C + c`, where norm
    is a layer normalisation, and u and v have `e = ffn_dim / 2` features. `W`
    is `(max_length, max_length)`, and `b` has an entry per position. Initially
    W is near zero, `U(-0.001 / n, 0.001 / n)` with n = `max_length`, and b is
    one, so that tokens are not mixed.

    A sequence of T tokens uses the first T rows and columns of W, and in the
    causal form their lower triangle. After the normalisation padding counts as
    zeros, and outputs of padding are `c`. The layer omits the paper's optional
    tiny attention, and the normalisation of x, which is in the block.

    Args:
        max_length: Integer, longest sequence, in tokens.
        ffn_dim: Even integer, width of u and v together; `2 d` by default. (In
            the paper, `6 d` in blocks without a feed-forward network.)
        activation: Activation before the split.
        layer_norm_epsilon: Float, epsilon of the normalisation.
        use_bias: Whether the two dense layers have biases, a and c.
        spatial_initializer: Initializer of W; by default as above.
        seed: Optional integer, seed of the initial values.
        **kwargs: Initializers, regularizers and constraints of the dense
            layers, as for `MultiHeadMixer`, and keyword arguments of
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
        projections = Projections(kwargs, use_bias, seed=seed)
        super().__init__(**kwargs)
        self._projections = projections
        self.max_length = check_positive("max_length", max_length)
        self.seed = check_seed("seed", seed)
        if ffn_dim is not None and check_positive("ffn_dim", ffn_dim) % 2:
            raise ValueError(
                "`ffn_dim` must be even, because one half gates the other. "
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
        self._gated: int | None = None  # set by `build`

    def build(self, query_shape, value_shape=None, key_shape=None):
        super().build(query_shape)
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
        inherit_settings(self)

    def mix(self, x, padding_mask=None, causal=False, training=None):
        length = ops.shape(x)[1]
        u, v = self._halves(x, padding_mask)
        gate = _along(self.W, self.b, v, length, causal)
        return self._gated_output(u, gate, padding_mask)

    def _halves(self, x, padding_mask):
        """The halves u and normalised v, `(B, T, e)`; v is zero for padding."""
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
        cache = written(cache, v, start)
        seen = masks.zero_padding(cache, call.mask.keys)
        rows = ops.shape(x)[1]
        gate = _along(self.W, self.b, seen, rows, causal=True, start=start)
        return self._gated_output(u, gate, real), cache


def _along(matrix, bias, x, rows, causal=False, start=0):
    """Multiplies `(B, S, d)` along the length, and adds a bias.

    It uses the first S columns of the matrix, and its rows from `start` on. If
    `causal`, row i ends at column i.
    """
    columns = ops.shape(x)[1]
    matrix = window(matrix, 0, start, rows)
    matrix = window(matrix, 1, 0, columns)
    if causal:
        places = indices(columns)
        seen = places <= start + indices(rows)[:, None]
        matrix = ops.where(seen, matrix, ops.zeros_like(matrix))
    y = ops.matmul(ops.cast(matrix, x.dtype), x)
    if bias is None:
        return y
    bias = ops.cast(window(bias, 0, start, rows), x.dtype)
    return y + bias[:, None]

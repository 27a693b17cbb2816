"""LightConv and DynamicConv: convolutions whose kernels are softmaxes."""

from typing import Any

import keras
from keras import ops

from keras_synth._backend.checks import (
    check_boolean,
    check_positive,
    check_rate,
    check_seed,
)
from keras_synth._backend.distributions import DATA, MODEL
from keras_synth._backend.policies import inherit_settings
from keras_synth._backend.seeds import add_table
from keras_synth.attention import masks
from keras_synth.attention.normalizers import SOFTMAX, normalized
from keras_synth.attention.projections import Projections, axes_of_heads
from keras_synth.attention.softmax import softmax
from keras_synth.mixers import last_tokens
from keras_synth.mixers.neighbours import Neighbours

BORDERS = ("zero", "renormalize")


class Convolution(Neighbours):
    """Base class of depthwise convolutions whose kernels are softmaxes.

    Subclasses implement `_build_kernel` and `_logits`, which returns the logits
    of the taps.
    """

    weight_axes = {**axes_of_heads("value"), "output/kernel": (MODEL, DATA)}
    _noise_shape: tuple[int | None, ...] | None = None  # of dropout

    def __init__(
        self,
        num_heads: int,
        width: int = 7,
        dropout: float = 0.0,
        use_bias: bool = True,
        use_glu: bool = True,
        border: str = "zero",
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        projections = Projections(kwargs, use_bias, seed=seed)
        super().__init__(**kwargs)
        self._projections = projections
        self.num_heads = check_positive("num_heads", num_heads)
        self.width = check_positive("width", width)
        self.dropout = check_rate("dropout", dropout)
        self.use_bias = self._projections.use_bias
        self.use_glu = check_boolean("use_glu", use_glu)
        if border not in BORDERS:
            raise ValueError(
                f"`border` must be one of {BORDERS}. Received: border="
                f"{border!r}"
            )
        self.border = border
        self.seed = check_seed("seed", seed)
        self.value: keras.Layer = None
        self.output_dense: keras.Layer = None
        self._dropout = None

    def build(self, query_shape, value_shape=None, key_shape=None):
        super().build(query_shape)
        dim = query_shape[-1]
        if dim % self.num_heads:
            raise ValueError(
                "`num_heads` must divide the number of features, so that "
                "channels share kernels evenly. Received: "
                f"num_heads={self.num_heads}, features={dim}"
            )
        self.value = self._dense(dim * (1 + self.use_glu), "value")
        self.value.build(query_shape)
        self._build_kernel(query_shape)
        self.output_dense = self._dense(dim, "output")
        self.output_dense.build(query_shape)
        if self.dropout:
            self._dropout = keras.layers.Dropout(
                self.dropout,
                noise_shape=self._noise_shape,
                seed=self.seed,
                dtype=self.dtype_policy,
                name="dropout",
            )
        inherit_settings(self)

    def _dense(self, width, name, use_bias=True):
        return self._projections.dense(
            width, name, self.dtype_policy, use_bias=use_bias
        )

    def _projected(self, x, padding_mask):
        # Twice: before the projection, because NaN would reach its gradients;
        # after it, because its bias makes padding nonzero.
        x = self.value(masks.zero_padding(x, padding_mask))
        if self.use_glu:
            x, gate = ops.split(x, 2, axis=-1)
            x = x * ops.sigmoid(gate)
        return masks.zero_padding(x, padding_mask)

    def _mixed(self, x, around, is_token, padding_mask, training=None):
        weights = self._weights(x, is_token)
        if self._dropout is not None and training:
            # Not with the layer, which would cast float32 weights.
            weights = self._dropout.call(weights, training=True)
        context = _convolve(around, weights)
        return self.output_dense(ops.cast(context, self.compute_dtype))

    def _weights(self, x, is_token):
        """The kernels, `(B or 1, T or 1, H, width)`, in float32."""
        logits = ops.cast(self._logits(x), "float32")
        if self.border == "zero":
            return softmax(logits)
        taps = last_tokens.windows(is_token, self.width)
        taps = ops.stack(taps, axis=-1)
        return normalized(SOFTMAX, logits, (taps > 0)[:, :, None])


def _convolve(x, weights):
    """Sums the tokens under the taps, each times its weight, in float32.

    Slice by slice, without memory for their products. XLA fuses the slices into
    one loop, which is several times faster than its depthwise convolutions.
    """
    heads, width = weights.shape[2:]
    batch, length = ops.shape(x)[:2]
    features = x.shape[-1]
    shape = (batch, length, heads, features // heads)
    slices = last_tokens.windows(
        ops.reshape(ops.cast(x, "float32"), shape), width
    )
    total = sum(x * weights[..., t, None] for t, x in enumerate(slices))
    return ops.reshape(total, (batch, length - (width - 1), features))


@keras.saving.register_keras_serializable(package="keras_synth")
class LightConvolution(Convolution):
    """Convolves with a learned kernel per head, like LightConv ("light_conv").

    `c_i = sum_t softmax(W)_t x'_(i - a + t)` per channel, with
    `x' = (x A) * sigmoid(x B)` and t = 0 ... width - 1. `W` is `(H, width)`:
    the `d / H` channels of a head share a kernel. A linear layer follows. Time
    is O(T width d).

    The kernel is centred: `a = (width - 1) // 2`. In the causal form it ends at
    the token: `a = width - 1`, as in the authors' code. Padding and positions
    beyond the borders count as zeros.

    Args:
        num_heads: Integer, number of kernels, `H`, a divisor of `d`.
        width: Integer, taps of a kernel, in tokens. The paper's layers have 3
            to 31.
        dropout: Float, fraction of the taps to drop in training, after the
            softmax (DropConnect). All tokens and samples drop the same taps.
        use_bias: Whether the linear layers have biases.
        use_glu: Whether `x' = (x A) * sigmoid(x B)`, or `x' = x A`.
        border: `"zero"`, as in the paper: taps beyond the border or on padding
            are lost, and the others sum to less than one. Or `"renormalize"`:
            the softmax is over the taps on tokens.
        seed: Optional integer, seed of initial values and dropout.
        **kwargs: Initializers, regularizers and constraints of the linear
            layers, as for `MultiHeadMixer`, and keyword arguments of
            `keras.layers.Layer`. `kernel_initializer` also applies to W.

    Call arguments and output: see `SelfMixer`. `use_causal_mask` shifts the
    kernel.

    Raises:
        ValueError: If an argument is out of range, or `num_heads` does not
            divide `d`.

    Example:

    >>> mixer = keras_synth.mixers.LightConvolution(num_heads=4, width=7)
    >>> mixer(keras.random.normal((2, 100, 64))).shape
    (2, 100, 64)

    References:
        - [Wu et al., 2019](https://arxiv.org/abs/1901.10430)
    """

    weight_axes = {"kernel": (MODEL,)}
    _noise_shape = (1, 1, None, None)

    def _build_kernel(self, query_shape):
        initializer = self._projections.options["kernel_initializer"]
        shape = (self.num_heads, self.width)
        self.kernel = add_table(self, "kernel", shape, initializer)

    def _logits(self, x):
        return ops.convert_to_tensor(self.kernel)[None, None]


@keras.saving.register_keras_serializable(package="keras_synth")
class DynamicConvolution(Convolution):
    """Convolves with a kernel that each token predicts ("dynamic_conv").

    `c_i = sum_t softmax(x'_i W)_t x'_(i - a + t)` per channel, as in
    `LightConvolution`. `W` is `(d, H * width)`, without bias. Time is
    O(T width d), and the kernels are a tensor `(B, T, H, width)`.

    Args:
        num_heads: Integer, kernels per token, `H`, a divisor of `d`.
        width: Integer, taps of a kernel, in tokens.
        dropout: Float, fraction of the taps to drop in training, drawn for each
            token.
        **kwargs: Arguments of `LightConvolution`.

    Call arguments, output and errors: see `LightConvolution`.

    Example:

    >>> mixer = keras_synth.mixers.DynamicConvolution(num_heads=4, width=7)
    >>> mixer(keras.random.normal((2, 100, 64))).shape
    (2, 100, 64)

    References:
        - [Wu et al., 2019](https://arxiv.org/abs/1901.10430)
    """

    weight_axes = axes_of_heads("kernel")

    def _build_kernel(self, query_shape):
        self.kernel = self._dense(
            self.num_heads * self.width, "kernel", use_bias=False
        )
        self.kernel.build(query_shape)

    def _logits(self, x):
        shape = (*ops.shape(x)[:2], self.num_heads, self.width)
        return ops.reshape(self.kernel(x), shape)

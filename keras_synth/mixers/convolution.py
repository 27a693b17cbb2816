"""`Convolution`: what LightConv and DynamicConv have in common."""

from typing import Any

import keras
from keras import ops

from keras_synth._backend.checks import check_positive, check_rate, check_seed
from keras_synth._backend.configs import Configured
from keras_synth._backend.distributions import DATA, MODEL
from keras_synth._backend.policies import assign_policies
from keras_synth._backend.tensors import pad
from keras_synth.attention import masks
from keras_synth.attention.projections import Projections, axes_of_heads
from keras_synth.attention.softmax import masked_softmax, softmax
from keras_synth.mixers.mixer import SelfMixer
from keras_synth.types import Identifier, Shape, Size, Tensor

BORDERS = ("zero", "renormalize")


class Convolution(Configured, SelfMixer):
    """A depthwise convolution whose kernels are softmaxes.

    A subclass has `_build_kernel` and `_logits`, those of the taps.
    """

    supports_causal_mask = True
    overwrites_cache = False  # the state is of the last tokens alone
    weight_axes = {**axes_of_heads("value"), "output/kernel": (MODEL, DATA)}

    def __init__(
        self,
        num_heads: int,
        width: int = 7,
        dropout: float = 0.0,
        use_bias: bool = True,
        use_glu: bool = True,
        border: str = "zero",
        kernel_initializer: Identifier = "glorot_uniform",
        bias_initializer: Identifier = "zeros",
        kernel_regularizer: Identifier | None = None,
        bias_regularizer: Identifier | None = None,
        activity_regularizer: Identifier | None = None,
        kernel_constraint: Identifier | None = None,
        bias_constraint: Identifier | None = None,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._projections = Projections(
            use_bias,
            seed,
            kernel_initializer=kernel_initializer,
            bias_initializer=bias_initializer,
            kernel_regularizer=kernel_regularizer,
            bias_regularizer=bias_regularizer,
            activity_regularizer=activity_regularizer,
            kernel_constraint=kernel_constraint,
            bias_constraint=bias_constraint,
        )
        self.num_heads = check_positive("num_heads", num_heads)
        self.width = check_positive("width", width)
        self.dropout = check_rate("dropout", dropout)
        self.use_bias = use_bias
        self.use_glu = bool(use_glu)
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
        self._features: int | None = None  # of a token, once it is built

    def build(
        self,
        query_shape: Shape,
        value_shape: Shape | None = None,
        key_shape: Shape | None = None,
    ) -> None:
        self._check_rank(query_shape)
        self._features = dim = query_shape[-1]
        if dim % self.num_heads:
            raise ValueError(
                "`num_heads` must divide the features of a token: channels "
                "share kernels evenly. Received: "
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
                noise_shape=self._noise_shape(),
                seed=self.seed,
                dtype=self.dtype_policy,
                name="dropout",
            )
        assign_policies(self)
        self.built = True

    def _dense(self, width, name, use_bias=True):
        return self._projections.dense(
            width, name, self.dtype_policy, use_bias=use_bias
        )

    def _noise_shape(self):
        return None

    def mix(
        self,
        x: Tensor,
        padding_mask: Tensor | None = None,
        causal: bool = False,
        training: bool | None = None,
    ) -> Tensor:
        ahead = self.width - 1 if causal else (self.width - 1) // 2
        sides = [[0, 0], [ahead, self.width - 1 - ahead]]
        x = self._projected(x, padding_mask)
        real = _as_integers(padding_mask, x)
        return self._mixed(
            x,
            pad(x, [*sides, [0, 0]]),
            pad(real, sides),
            training,
        )

    def _projected(self, x, padding_mask):
        """What is convolved, `(B, T, d)`: zero for padding."""
        # Twice: NaN in padding would reach the gradients of the projection,
        # and its bias makes padding something else than zero.
        x = self.value(masks.zero_padding(x, padding_mask))
        if self.use_glu:
            x, gate = ops.split(x, 2, axis=-1)
            x = x * ops.sigmoid(gate)
        return masks.zero_padding(x, padding_mask)

    def _mixed(self, x, around, real, training=None):
        """Convolves, and projects to the output.

        Args:
            x: Tensor `(B, T, d)`, projected tokens.
            around: Tensor `(B, T + width - 1, d)`, the same with those that
                the first and the last of them see.
            real: Integer tensor `(B or 1, T + width - 1)`, 1 for tokens, 0
                for padding and beyond the borders.
            training: Whether to apply dropout.
        """
        weights = self._weights(x, real)
        if self._dropout is not None and training:
            # Not the layer itself, which would cast float32 weights.
            weights = self._dropout.call(weights, training=True)
        context = _convolve(around, weights)
        return self.output_dense(ops.cast(context, self.compute_dtype))

    def _weights(self, x, real):
        """The kernels, `(B or 1, T or 1, H, width)`, in float32."""
        logits = ops.cast(self._logits(x), "float32")
        if self.border == "zero":
            return softmax(logits)
        taps = ops.stack(_windows(real, self.width), axis=-1)
        return masked_softmax(logits, (taps > 0)[:, :, None])

    def make_cache(self, batch_size: Size, length: int) -> Tensor:
        """Returns the state before the first token.

        Args:
            batch_size: Integer or scalar integer tensor, `B`.
            length: Integer, the most tokens to decode; of no effect.

        Returns:
            Dictionary of `"tokens"`, the last `width - 1` projected tokens
            `(B, width - 1, d)`, and `"positions"`, integers `(B, width - 1)`:
            where they are, counted from one; 0 where there is none. (With a
            width of 1 one is kept, of no effect.)
        """
        shape = batch_size, self._remembered
        return {
            "tokens": ops.zeros((*shape, self._features), self.compute_dtype),
            "positions": ops.zeros(shape, "int32"),
        }

    @property
    def _remembered(self):
        # Some operations do not take tensors without entries.
        return max(self.width - 1, 1)

    def _cache_places(self, cache, start):
        return None

    def _check_cache(self, query, cache, start, use_causal_mask):
        self._check_decodes(query, start, use_causal_mask)

    def _call_cached(self, query, cache, start, mask, bias):
        """Convolves tokens with the last ones before them.

        Tokens that are forbidden do not enter the state. Those that follow
        count from `start`, so that a forbidden one may come again at its
        position, or else counts as a position of zeros, as in `call`.
        """
        x = self._projected(ops.cast(query, self.compute_dtype), mask.keys)
        real = ops.broadcast_to(_as_integers(mask.keys, x), ops.shape(x)[:2])
        start = ops.cast(start, "int32")
        tokens, before = _before(cache, start)
        tokens = ops.concatenate([tokens, x], axis=1)
        real = ops.concatenate([before, real], axis=1)
        skip = self._remembered - (self.width - 1)
        output = self._mixed(x, tokens[:, skip:], real[:, skip:])
        return output, _after(cache, tokens, real, start)


def _windows(x, width):
    """The `width` slices of `x`, `(B, T + width - 1, ...)`, of T tokens."""
    return [x[:, t : t - width + 1 or None] for t in range(width)]


def _convolve(x, weights):
    """Sums the tokens under the taps, each times its weight, in float32.

    Slice after slice, which takes no memory for their product; XLA makes one
    loop of it, where its depthwise convolutions are several times slower.

    Args:
        x: Tensor `(B, T + width - 1, d)`.
        weights: Float32 tensor `(B or 1, T or 1, H, width)`.

    Returns:
        Float32 tensor `(B, T, d)`.
    """
    heads, width = weights.shape[2:]
    batch, length = ops.shape(x)[:2]
    features = x.shape[-1]
    shape = (batch, length, heads, features // heads)
    slices = _windows(ops.reshape(ops.cast(x, "float32"), shape), width)
    total = sum(x * weights[..., t, None] for t, x in enumerate(slices))
    return ops.reshape(total, (batch, length - (width - 1), features))


def _as_integers(mask, x):
    """A padding mask `(B, T)` as 0 and 1; all 1, `(1, T)`, without one."""
    # Not every backend slices booleans.
    if mask is None:
        return ops.ones((1, ops.shape(x)[1]), "int32")
    return ops.cast(mask, "int32")


def _before(cache, start):
    """What a state holds of the positions just before `start`.

    Args:
        cache: Dictionary, the state.
        start: Scalar integer tensor.

    Returns:
        `(tokens, real)`: tensor `(B, width - 1, d)` and integers
        `(B, width - 1)`, 0 where it holds no token.
    """
    positions = cache["positions"]
    size = positions.shape[1]
    wanted = start - size + 1 + ops.arange(size)  # counted from one
    # Forbidden tokens may lie between.
    moved = start - ops.max(positions, axis=1, keepdims=True)
    index = ops.clip(ops.arange(size) + moved, 0, size - 1)
    found = ops.take_along_axis(positions, index, axis=1)
    real = ops.logical_and(ops.equal(found, wanted), wanted > 0)
    tokens = ops.take_along_axis(cache["tokens"], index[..., None], axis=1)
    return masks.zero_padding(tokens, real), ops.cast(real, "int32")


def _after(cache, tokens, real, start):
    """The state after the last real token, or as it was if there is none.

    Args:
        cache: Dictionary, the state before.
        tokens: Tensor `(B, width - 1 + T, d)`, from position
            `start - width + 1` on.
        real: Integers `(B, width - 1 + T)`, 0 for padding.
        start: Scalar integer tensor, position of the first token that is new.
    """
    size = cache["positions"].shape[1]
    place = ops.arange(ops.shape(real)[1])  # among `tokens`
    # How many of the new tokens there are up to the last real one.
    new = ops.max(real * (place - size + 1), axis=1, keepdims=True)  # (B, 1)
    positions = real * (start - size + 1 + place)
    index = new + ops.arange(size)  # (B, width - 1)
    after = {
        "tokens": ops.take_along_axis(tokens, index[..., None], axis=1),
        "positions": ops.take_along_axis(positions, index, axis=1),
    }
    kept = new > 0
    return {
        "tokens": ops.where(kept[..., None], after["tokens"], cache["tokens"]),
        "positions": ops.where(kept, after["positions"], cache["positions"]),
    }

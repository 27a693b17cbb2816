"""`Convolution`: what LightConv and DynamicConv have in common."""

from typing import Any

import keras
from keras import ops

from keras_synth._backend.checks import (
    check_boolean,
    check_positive,
    check_rate,
    check_seed,
)
from keras_synth._backend.configs import Configured
from keras_synth._backend.distributions import DATA, MODEL
from keras_synth._backend.policies import assign_policies
from keras_synth._backend.tensors import pad
from keras_synth.attention import masks
from keras_synth.attention.projections import Projections, axes_of_heads
from keras_synth.attention.softmax import masked_softmax, softmax
from keras_synth.mixers import last_tokens

BORDERS = ("zero", "renormalize")


class Convolution(Configured):
    """A depthwise convolution whose kernels are softmaxes.

    The first base of a class whose second one is `SelfMixer`. The class has
    `_build_kernel` and `_logits`, those of the taps.
    """

    supports_causal_mask = True
    overwrites_cache = False  # the state holds only the last tokens
    weight_axes = {**axes_of_heads("value"), "output/kernel": (MODEL, DATA)}

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
        projections = Projections.taken_from(kwargs, use_bias, seed=seed)
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
        self._features: int | None = None  # of a token, once it is built

    def build(self, query_shape, value_shape=None, key_shape=None):
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

    def mix(self, x, padding_mask=None, causal=False, training=None):
        ahead = self.width - 1 if causal else (self.width - 1) // 2
        sides = [[0, 0], [ahead, self.width - 1 - ahead]]
        x = self._projected(x, padding_mask)
        real = last_tokens.as_integers(padding_mask, x)
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
            real: Integer tensor `(B or 1, T + width - 1)`, 1 for tokens.
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
        taps = ops.stack(last_tokens.windows(real, self.width), axis=-1)
        return masked_softmax(logits, (taps > 0)[:, :, None])

    def make_cache(self, batch_size, length):
        """Returns the state before the first token, of any `length`.

        Returns:
            Dictionary of `"tokens"`, the last `width - 1` projected tokens
            `(B, width - 1, d)`, and `"positions"`, integers `(B, width - 1)`:
            where they are; -1 where there is none. (With a width of 1 one is
            kept, of no effect.)
        """
        self._check_built()
        return last_tokens.empty(
            batch_size, self.width - 1, (self._features,), self.compute_dtype
        )

    def _cache_places(self, cache, start):
        return None

    def _call_cached(self, call, cache, start):
        query, mask = call.query, call.mask
        x = self._projected(ops.cast(query, self.compute_dtype), mask.keys)
        around, real, cache = last_tokens.joined(cache, x, mask, self.width - 1)
        return self._mixed(x, around, real), cache


def _convolve(x, weights):
    """Sums the tokens under the taps, each times its weight, in float32.

    Slice after slice, which takes no memory for their product; XLA makes one
    loop of it, where its depthwise convolutions are several times slower.
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

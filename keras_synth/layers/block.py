"""The base class of the encoder and the decoder block."""

import types
from collections.abc import Callable
from typing import Any

import keras

from keras_synth._backend.checks import (
    check_above_zero,
    check_boolean,
    check_optional,
    check_positive,
    check_rate,
)
from keras_synth._backend.configs import parameters_of
from keras_synth._backend.layer import Layer
from keras_synth.attention import masks
from keras_synth.layers.feed_forward import FeedForward
from keras_synth.layers.residual import Residual, normalization_class
from keras_synth.layers.templates import check_needs, in_dtype, template
from keras_synth.mixers import registry
from keras_synth.mixers.call import FLAT
from keras_synth.types import Identifier

# Attributes of a block, and the names of their mixers.
_NAMES = {"attention": "self_attention", "cross_attention": "cross_attention"}


class SynthesizerBlock(Layer):
    """Base class with the arguments and parts of a Transformer block.

    Args: see `SynthesizerEncoder`.
    """

    # Attributes of `Mixer` that must be true.
    needs: tuple[str, ...] = ()

    def __init__(
        self,
        intermediate_dim: int,
        num_heads: int,
        *,
        synthesizer: Identifier,
        max_length: int | None = None,
        dropout: float = 0,
        activation: Identifier = "relu",
        layer_norm_epsilon: float = 1e-5,
        kernel_initializer: Identifier = "glorot_uniform",
        bias_initializer: Identifier = "zeros",
        normalize_first: bool = False,
        attention_use_bias: bool = True,
        key_dim: int | None = None,
        normalization: str = "layer_normalization",
        feed_forward_use_bias: bool = True,
        use_gated_activation: bool = False,
        feed_forward_dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.intermediate_dim = check_positive(
            "intermediate_dim", intermediate_dim
        )
        self.num_heads = check_positive("num_heads", num_heads)
        self.max_length = check_optional("max_length", max_length)
        self.synthesizer = template(
            synthesizer, self.num_heads, max_length, self.needs
        )
        self.dropout = check_rate("dropout", dropout)
        self.activation = keras.activations.get(activation)
        self.layer_norm_epsilon = check_above_zero(
            "layer_norm_epsilon", layer_norm_epsilon
        )
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.normalize_first = check_boolean("normalize_first", normalize_first)
        self.attention_use_bias = check_boolean(
            "attention_use_bias", attention_use_bias
        )
        self.key_dim = check_optional("key_dim", key_dim)
        normalization_class(normalization)  # checks the name
        self.normalization = normalization
        self.feed_forward_use_bias = check_boolean(
            "feed_forward_use_bias", feed_forward_use_bias
        )
        self.use_gated_activation = check_boolean(
            "use_gated_activation", use_gated_activation
        )
        self.feed_forward_dropout = check_rate(
            "feed_forward_dropout", feed_forward_dropout
        )
        self._owners: dict[str, Callable] = {}

    def share_synthesizer(self, place: str, owner: "SynthesizerBlock") -> None:
        """Shares the synthesizer of an equal block that is built earlier.

        The place is `"attention"` or `"cross_attention"`.
        """
        self._owners[place] = lambda: getattr(owner, place)

    def _mixer(
        self, place, kept, num_heads, key_dim, max_length, needs, *shapes
    ):
        """Makes the mixer of a place from its template, and builds it."""
        key_dim = _features_per_head(shapes[0][-1], num_heads, key_dim)
        dtype, name = self.dtype_policy, _NAMES[place]
        identifier = in_dtype(kept, dtype)
        named = {"name": name, "dtype": dtype}
        # The config of a mixer has its own name.
        if isinstance(kept, dict) and registry.is_mixer(kept):
            identifier["config"]["name"], named = name, {}
        mixer = registry.get(
            identifier,
            num_heads,
            key_dim,
            max_length,
            defaults={
                "dropout": self.dropout,
                "use_bias": self.attention_use_bias,
                "kernel_initializer": self.kernel_initializer,
                "bias_initializer": self.bias_initializer,
            },
            **named,
        )
        check_needs(mixer, needs, kept)  # again, because options can matter
        if place in self._owners:
            mixer.share_synthesizer(self._owners[place]())
        mixer.build(*shapes)
        return mixer

    def _build_self_attention(self, shape):
        self.attention = self._mixer(
            "attention",
            self.synthesizer,
            self.num_heads,
            self.key_dim,
            self.max_length,
            self.needs,
            shape,
        )
        self.attention_residual = self._residual(
            shape, "self_attention_residual"
        )

    def _residual(self, shape, name):
        residual = Residual(
            self.dropout,
            self.layer_norm_epsilon,
            self.normalize_first,
            self.normalization,
            dtype=self.dtype_policy,
            name=name,
        )
        residual.build(shape)
        return residual

    def _feed_forward(self, shape):
        feed_forward = FeedForward(
            self.intermediate_dim,
            self.activation,
            self.kernel_initializer,
            self.bias_initializer,
            self.feed_forward_use_bias,
            self.use_gated_activation,
            self.feed_forward_dropout,
            dtype=self.dtype_policy,
            name="feed_forward",
        )
        feed_forward.build(shape)
        return feed_forward

    def _without_nonfinite(self, x, name, mask):
        """Returns `x` with finite padding, and its padding mask as booleans."""
        mask = FLAT.flatten_padding(name, masks.as_boolean(mask), x)
        return masks.zero_nonfinite_padding(x, mask), mask

    def _attend(
        self, attention, residual, x, *source, scores=None, training, **masks
    ):
        """Returns `x` after attention, and appends weights to `scores`."""
        y = attention(
            residual.before(x),
            *source,
            training=training,
            return_attention_scores=scores is not None,
            **masks,
        )
        if scores is not None:
            y, weights = y
            scores.append(weights)
        return residual.after(x, y, training=training)

    def _feed(self, x, training=None):
        """Returns `x` after the feed-forward network."""
        y = self.feed_forward(
            self.feed_forward_residual.before(x), training=training
        )
        return self.feed_forward_residual.after(x, y, training=training)

    def _traced_spec(self, *args, **kwargs):
        """The spec that Keras makes by a trace of `call`.

        A trace takes 10 to 60 ms, so not for the usual call.
        """
        return super(keras.layers.Layer, self).compute_output_spec(
            *args, **kwargs
        )

    def _check_symbolic(self, mixer, x, source, given, prefix=""):
        """Raises if a mixer does not support symbolic tensors."""
        mixer._check_symbolic_lengths(x.shape[1], source.shape[1])
        names = "attention_mask", "attention_bias"
        pairs = {name: given.get(prefix + name) for name in names}
        mixer._check_supported({"query": x, **pairs})


def block_options(arguments):
    """Returns a namespace of a backbone's arguments that are its blocks', too.

    Each block has its own synthesizer.
    """
    names = {*parameters_of(SynthesizerBlock), "dtype"} - {"synthesizer"}
    own = {k: arguments[k] for k in arguments if k in names}
    return types.SimpleNamespace(**own)


def _features_per_head(hidden_dim, num_heads, key_dim):
    """Features per head, by default the model width divided by the heads."""
    if key_dim is not None:
        return key_dim
    if hidden_dim < num_heads:
        raise ValueError(
            "The input must have at least as many features as heads. Received: "
            f"features={hidden_dim}, num_heads={num_heads}"
        )
    return hidden_dim // num_heads

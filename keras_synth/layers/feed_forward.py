"""The network that a Transformer block applies to each token."""

from typing import Any

import keras

from keras_synth._backend.checks import (
    check_boolean,
    check_positive,
    check_rate,
)
from keras_synth._backend.distributions import DATA, MODEL
from keras_synth._backend.layer import Layer
from keras_synth._backend.seeds import seeded
from keras_synth.attention.projections import axes_of_heads
from keras_synth.types import Identifier, Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_synth")
class FeedForward(Layer):
    """`activation(x W + b) W' + b'`, token by token.

    With a gate, `(activation(x W + b) * (x G + c)) W' + b'`
    ([Shazeer, 2020](https://arxiv.org/abs/2002.05202)).

    Args:
        intermediate_dim: Integer, width of the hidden layer.
        activation: Activation of the hidden layer.
        kernel_initializer: Initializer of the kernels.
        bias_initializer: Initializer of the biases.
        use_bias: Whether the layers have biases.
        use_gated_activation: Whether there is a gate.
        dropout: Float, fraction of the hidden layer to drop in training, as in
            T5.
        **kwargs: Keyword arguments of `keras.layers.Layer`.

    Call arguments:
        x: Tensor `(B, T, d)`.
        training: Whether to apply dropout.

    Returns:
        Tensor `(B, T, d)`.

    Example:

    >>> layer = keras_synth.layers.FeedForward(256, activation="gelu")
    >>> layer(keras.random.normal((2, 10, 64))).shape
    (2, 10, 64)
    """

    weight_axes = {
        **axes_of_heads("intermediate", "gate"),
        "output/kernel": (MODEL, DATA),
    }

    def __init__(
        self,
        intermediate_dim: int,
        activation: Identifier = "relu",
        kernel_initializer: Identifier = "glorot_uniform",
        bias_initializer: Identifier = "zeros",
        use_bias: bool = True,
        use_gated_activation: bool = False,
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.intermediate_dim = check_positive(
            "intermediate_dim", intermediate_dim
        )
        self.activation = keras.activations.get(activation)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.use_bias = check_boolean("use_bias", use_bias)
        self.use_gated_activation = check_boolean(
            "use_gated_activation", use_gated_activation
        )
        self.intermediate = self._dense(
            self.intermediate_dim, self.activation, "intermediate"
        )
        self.gate = None
        if self.use_gated_activation:
            self.gate = self._dense(self.intermediate_dim, None, "gate")
        self.dropout = check_rate("dropout", dropout)
        self.hidden_dropout = None
        if self.dropout:
            self.hidden_dropout = keras.layers.Dropout(
                self.dropout, dtype=self.dtype_policy, name="hidden_dropout"
            )
        self.output_dense: keras.Layer = None

    def build(self, x_shape: Shape) -> None:
        self.intermediate.build(x_shape)
        if self.gate is not None:
            self.gate.build(x_shape)
        self.output_dense = self._dense(x_shape[-1], None, "output")
        self.output_dense.build((*x_shape[:-1], self.intermediate_dim))
        self.built = True

    def call(self, x: Tensor, training: bool | None = None) -> Tensor:
        hidden = self.intermediate(x)
        if self.gate is not None:
            hidden = hidden * self.gate(x)
        if self.hidden_dropout is not None:
            hidden = self.hidden_dropout(hidden, training=training)
        return self.output_dense(hidden)

    def compute_output_shape(self, x_shape: Shape) -> Shape:
        return x_shape

    def _dense(self, width, activation, name):
        return keras.layers.Dense(
            width,
            activation=activation,
            use_bias=self.use_bias,
            # Copies: equal seeds would make equal kernels.
            kernel_initializer=seeded(self.kernel_initializer, None, name),
            bias_initializer=seeded(self.bias_initializer, None, name),
            dtype=self.dtype_policy,
            name=name,
        )

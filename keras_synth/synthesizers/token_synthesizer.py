"""`TokenSynthesizer`: what reads each token alone has in common."""

import math
from typing import Any

import keras

from keras_synth._backend.checks import check_optional, check_positive
from keras_synth.attention.projections import Projections, axes_of_heads
from keras_synth.synthesizers.synthesizer import Synthesizer
from keras_synth.types import Identifier


class TokenSynthesizer(Synthesizer):
    """Base class of Dense and Factorized Dense: hidden layer and tables."""

    weight_axes = axes_of_heads("hidden")

    def __init__(
        self,
        num_heads: int,
        hidden_dim: int | None,
        max_length: int,
        activation: Identifier,
        use_bias: bool,
        long_inputs: str,
        initializer: Identifier,
        **kwargs: Any,
    ) -> None:
        self._projections = Projections.taken_from(kwargs, use_bias)
        super().__init__(
            num_heads,
            check_positive("max_length", max_length),
            long_inputs,
            **kwargs,
        )
        self.hidden_dim = check_optional("hidden_dim", hidden_dim)
        self.activation = keras.activations.get(activation)
        self.use_bias = self._projections.use_bias
        self.initializer = (
            None if initializer is None else keras.initializers.get(initializer)
        )
        self.hidden = None

    def _build_hidden(self, query_shape):
        """Builds the hidden layer and returns the width of the features."""
        if self.hidden_dim is None:
            return query_shape[-1]
        self.hidden = self._projections.split_heads(
            self.num_heads, self.hidden_dim, "hidden", self.dtype_policy
        )
        self.hidden.build(query_shape)
        return self.hidden_dim

    def _features(self, query, queries=None):
        """The hidden layer `(B, T, H, k)`; the tokens `(B, T, d)` without."""
        if self.hidden_dim is None:
            return query
        projected = self.hidden(query) if queries is None else queries
        return self.activation(projected)

    def _table_initializer(self, fan_in, fan_out):
        if self.initializer is None:
            return glorot(fan_in, fan_out)
        return self.initializer.clone()


def glorot(fan_in, fan_out):
    """Glorot's normal scheme for a table read as a `fan_in x fan_out` matrix.

    Keras' own would misread the heads axis as part of the fans.
    """
    stddev = math.sqrt(2.0 / (fan_in + fan_out))
    return keras.initializers.RandomNormal(stddev=stddev)

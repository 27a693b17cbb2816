"""`TokenSynthesizer`: the hidden layer of those that read each token alone."""

import math
from typing import Any

import keras

from keras_synth._backend.checks import check_optional
from keras_synth.attention.projections import Projections, axes_of_heads
from keras_synth.synthesizers.synthesizer import Synthesizer
from keras_synth.types import Identifier


class TokenSynthesizer(Synthesizer):
    """Base class of Dense, Factorized Dense and Local Dense."""

    weight_axes = axes_of_heads("hidden")

    def __init__(
        self,
        num_heads: int,
        hidden_dim: int | None,
        activation: Identifier,
        use_bias: bool,
        initializer: Identifier,
        **kwargs: Any,
    ) -> None:
        self._projections = Projections.taken_from(kwargs, use_bias)
        super().__init__(num_heads, **kwargs)
        self.hidden_dim = check_optional("hidden_dim", hidden_dim)
        self.activation = keras.activations.get(activation)
        self.use_bias = self._projections.use_bias
        self.initializer = (
            None if initializer is None else keras.initializers.get(initializer)
        )
        self.hidden: keras.Layer = None

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
        if self.initializer is not None:
            return self.initializer
        # Keras' own Glorot scheme would count the heads among the fans.
        stddev = math.sqrt(2.0 / (fan_in + fan_out))
        return keras.initializers.RandomNormal(stddev=stddev)

    def _add_bias(self, name, shape):
        initializer = self._projections.options["bias_initializer"]
        return self.add_table(name, shape, initializer)

"""`TokenSynthesizer`: what reads each token alone has in common."""

import math
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_synth._backend.checks import check_optional, check_positive
from keras_synth._backend.copying import copy_variables
from keras_synth.attention.projections import Projections, axes_of_heads
from keras_synth.synthesizers.synthesizer import Synthesizer
from keras_synth.types import Identifier, Tensor


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
        self.use_bias = use_bias
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

    folds_scale = True

    def folded(self, max_length: int | None) -> Any:
        return type(self).from_config(self._folded_config(max_length))

    def _folded_config(self, max_length):
        bounded = max_length != self.max_length
        return {
            **self.get_config(),
            "max_length": max_length,
            "long_inputs": "error" if bounded else self.long_inputs,
        }

    def fold_into(self, target: Any, scale: Tensor | None = None) -> None:
        if self.hidden is not None:
            copy_variables(self.hidden, target.hidden)
        scale = np.ones(1, "float32") if scale is None else scale
        for name, value in self._folded_tables(target, scale).items():
            if value is not None:
                # As an array: JAX would share its memory, which steps free.
                value = ops.convert_to_numpy(value)
                getattr(target, name).assign(value)

    def _table_initializer(self, fan_in, fan_out):
        if self.initializer is None:
            return glorot(fan_in, fan_out)
        return self.initializer.clone()


def part(table, positions, axis, scale):
    """Positions of a table along an axis, times `scale`; `None` of `None`."""
    if table is None:
        return None
    return np.take(ops.convert_to_numpy(table), positions, axis) * scale


def glorot(fan_in, fan_out):
    """Glorot's normal scheme for a table read as a `fan_in x fan_out` matrix.

    Keras' own would misread the heads axis as part of the fans.
    """
    stddev = math.sqrt(2.0 / (fan_in + fan_out))
    return keras.initializers.RandomNormal(stddev=stddev)

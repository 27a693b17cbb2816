"""Logits from single tokens."""

import math
from typing import Any

import keras
from keras import ops

from keras_synth._backend.checks import (
    check_boolean,
    check_optional,
    check_positive,
)
from keras_synth._backend.distributions import MODEL, copied
from keras_synth._backend.seeds import normal_unless
from keras_synth.attention.logits import Logits, float32
from keras_synth.attention.projections import Projections, axes_of_heads
from keras_synth.synthesizers.synthesizer import Synthesizer
from keras_synth.types import Identifier


class TokenSynthesizer(Synthesizer):
    """The hidden layer of synthesizers that read single tokens."""

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
        self._projections = Projections(kwargs, use_bias)
        super().__init__(num_heads, **kwargs)
        self.hidden_dim = check_optional("hidden_dim", hidden_dim)
        self.activation = keras.activations.get(activation)
        self.use_bias = self._projections.use_bias
        self.initializer = keras.initializers.get(initializer)
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
        """The hidden layer `(B, T, H, k)`, or the tokens `(B, T, d)`."""
        if self.hidden_dim is None:
            return query
        projected = self.hidden(query) if queries is None else queries
        return self.activation(projected)

    def _table_initializer(self, fan_in, fan_out):
        # Keras' own Glorot scheme would count the heads among the fans.
        stddev = math.sqrt(2.0 / (fan_in + fan_out))
        return normal_unless(self.initializer, stddev)

    def _add_bias(self, name, shape):
        initializer = self._projections.options["bias_initializer"]
        return self.add_table(name, shape, initializer)


@keras.saving.register_keras_serializable(package="keras_synth")
class DenseSynthesizer(TokenSynthesizer):
    """Predicts each token's attention row from only that token ("D").

    `S = relu(x W1 + b1) W2 + b2`, one row of `max_length` logits per head. The
    layer computes it as attention to `W2`, a set of constant keys.
    `hidden_dim=None` selects the paper's linear form, `S = x W_a + b`, which
    makes a tensor `(B, H, T, S)`.

    Args:
        num_heads: Integer, `H`.
        hidden_dim: Integer, width of the hidden layer per head, `k`; or `None`
            for the linear form, which ignores `activation`.
        max_length: Integer, the paper's N, in tokens.
        activation: Activation of the hidden layer.
        shared_heads: Whether all heads share one W2 (or W_a), as in the
            authors' code.
        use_bias: Whether the hidden layer and the logits have a bias.
        long_inputs: `"error"`, or `"tile"` to repeat the columns:
            `S[i, j] = S[i, j mod N]`.
        initializer: Initializer of W2 or W_a, by default Glorot's normal
            scheme for a `k x N` (`d x N`) matrix.
        **kwargs: Options of the hidden layer, those of the projections of
            `DotProductSynthesizer` (`bias_initializer` also applies to b2), and
            arguments of `Synthesizer`.

    Call arguments, in addition to those of `Synthesizer.call`:
        queries: Optional tensor `(B, T, H, k)`, used instead of `x W1 + b1`.

    Returns:
        `Logits`: queries `(B, T, H, k)`, keys `(1, S, H, k)` and bias
        `(1, H, 1, S)`; in the linear form only a bias `(B, H, T, S)`.

    Example:

    >>> layer = keras_synth.layers.SyntheticAttention(
    ...     4, 16, synthesizer="dense", max_length=128)
    >>> layer(keras.random.normal((2, 10, 64))).shape
    (2, 10, 64)

    References:
        - [Tay et al., 2021](https://arxiv.org/abs/2005.00743), Dense variant.
    """

    weight_axes = {"W2": (None, MODEL), "W_a": (MODEL,), "b2": (MODEL,)}
    last_weights = ("W2", "W_a", "b2")
    position_axes = {"W2": (0,), "W_a": (2,), "b2": (1,)}

    def __init__(
        self,
        num_heads: int,
        hidden_dim: int | None,
        max_length: int,
        activation: Identifier = "relu",
        shared_heads: bool = False,
        use_bias: bool = True,
        long_inputs: str = "error",
        initializer: Identifier | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            num_heads,
            hidden_dim,
            activation,
            use_bias,
            initializer,
            max_length=check_positive("max_length", max_length),
            long_inputs=long_inputs,
            **kwargs,
        )
        self.shared_heads = check_boolean("shared_heads", shared_heads)
        self._shares_queries = False
        self.W2 = self.W_a = self.b2 = None

    def share_queries(self) -> None:
        """Removes the hidden layer, so that `call` needs `queries`."""
        self._shares_queries = True

    def build(self, query_shape, source_shape=None):
        heads = 1 if self.shared_heads else self.num_heads
        length, width = self.max_length, self.hidden_dim
        if not self._shares_queries:
            width = self._build_hidden(query_shape)
        initializer = self._table_initializer(width, length)
        with copied(when=self.shared_heads):
            if self.hidden_dim is None:
                shape = (heads, width, length)
                self.W_a = self.add_table("W_a", shape, initializer)
            else:
                shape = (length, heads, width)
                self.W2 = self.add_table("W2", shape, initializer)
            if self.use_bias:
                self.b2 = self._add_bias("b2", (heads, length))

    def call(self, query, keys=None, queries=None, *, start=0, length=None):
        _, source_length = self.lengths(query, start, length)
        features, bias = self._features(query, queries), None
        if self.b2 is not None:
            bias = self.window(self.b2, 1, 0, source_length)  # (H or 1, S)
            bias = ops.broadcast_to(bias, (self.num_heads, source_length))
            bias = bias[None, :, None, :]
        if self.hidden_dim is None:
            kernel = self.window(self.W_a, 2, 0, source_length)
            kernel = ops.cast(kernel, features.dtype)
            rows = float32(ops.einsum("btd,hds->bhts", features, kernel))
            rows = rows if bias is None else rows + float32(bias)
            shape = (*ops.shape(rows)[:1], self.num_heads, *ops.shape(rows)[2:])
            return Logits(bias=ops.broadcast_to(rows, shape))
        constants = self.window(self.W2, 0, 0, source_length)  # (S, H or 1, k)
        constants = ops.broadcast_to(
            constants, (source_length, self.num_heads, self.hidden_dim)
        )
        return Logits(features, ops.cast(constants, features.dtype)[None], bias)

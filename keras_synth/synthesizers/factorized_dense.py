"""Logits from single tokens, as products of two short rows."""

import math
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_synth._backend.checks import check_positive
from keras_synth._backend.distributions import MODEL
from keras_synth.attention.logits import Logits, float32
from keras_synth.synthesizers.dense import TokenSynthesizer
from keras_synth.types import Identifier


@keras.saving.register_keras_serializable(package="keras_synth")
class FactorizedDenseSynthesizer(TokenSynthesizer):
    """Predicts each token's row as a product of two short rows ("FD").

    `S[i, p * b + q] = A_p(x_i) B_q(x_i)` with `A(x) = h A + b_A`,
    `B(x) = h B + b_B` and the hidden layer `h = relu(x W1 + b1)`. The row of
    `a * b >= N` logits is cut to N. (Public implementations tile both factors,
    which repeats a few products.) In the linear form, `h = x`.

    Args:
        num_heads: Integer, `H`.
        hidden_dim: Integer, width of the hidden layer per head, `k`; or `None`
            for the linear form, which ignores `activation`.
        max_length: Integer, the paper's N, in tokens.
        factors: Optional pair of integers `(a, b)` with `a * b >= N`. By
            default a is the largest divisor of N up to `sqrt(N)`, or
            `ceil(sqrt(N))` if that divisor is less than half of `sqrt(N)`, and
            `b = ceil(N / a)`: `(16, 32)` for 512, `(4, 4)` for 13.
        activation: Activation of the hidden layer.
        use_bias: Whether the hidden layer and both factors have a bias.
        long_inputs: `"error"`, or `"tile"` to repeat the columns:
            `S[i, j] = S[i, j mod N]`.
        initializer: Initializer of A and B, by default Glorot's normal scheme
            for `k x a` and `k x b` matrices.
        **kwargs: As for `DenseSynthesizer`; `bias_initializer` also applies to
            b_A and b_B.

    Returns:
        `Logits`: bias `(B, H, T, S)`.

    Example:

    >>> layer = keras_synth.layers.SyntheticAttention(
    ...     4, 16, synthesizer="factorized_dense", max_length=128)
    >>> layer(keras.random.normal((2, 10, 64))).shape
    (2, 10, 64)

    References:
        - [Tay et al., 2021](https://arxiv.org/abs/2005.00743), Factorized
          Dense variant.
    """

    weight_axes = dict.fromkeys(("A", "B", "b_A", "b_B"), (MODEL,))
    last_weights = ("A", "b_A")  # one factor, so that the other has gradients

    def __init__(
        self,
        num_heads: int,
        hidden_dim: int | None,
        max_length: int,
        factors: Sequence[int] | None = None,
        activation: Identifier = "relu",
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
        self.factors = [*_checked_factors(factors, self.max_length)]
        self.A = self.B = self.b_A = self.b_B = None

    def build(self, query_shape, source_shape=None):
        width = self._build_hidden(query_shape)
        self.A, self.B = (
            self.add_table(
                name,
                (self.num_heads, width, size),
                self._table_initializer(width, size),
            )
            for name, size in zip("AB", self.factors, strict=True)
        )
        if self.use_bias:
            self.b_A, self.b_B = (
                self._add_bias(name, (self.num_heads, size))
                for name, size in zip(("b_A", "b_B"), self.factors, strict=True)
            )

    def call(self, query, keys=None, *, start=0, length=None):
        _, source_length = self.lengths(query, start, length)
        features = self._features(query)
        rows = self._factor(features, self.A, self.b_A)  # (B, H, T, a)
        columns = self._factor(features, self.B, self.b_B)  # (B, H, T, b)
        products = rows[..., :, None] * columns[..., None, :]
        shape = (*ops.shape(rows)[:-1], self.factors[0] * self.factors[1])
        products = ops.reshape(products, shape)[..., : self.max_length]
        return Logits(bias=self.window(products, 3, 0, source_length))

    def _factor(self, features, kernel, bias):
        kernel = ops.cast(ops.convert_to_tensor(kernel), features.dtype)
        tokens = "btd" if self.hidden_dim is None else "bthd"
        factor = float32(ops.einsum(f"{tokens},hda->bhta", features, kernel))
        if bias is None:
            return factor
        return factor + float32(ops.convert_to_tensor(bias))[:, None, :]


def default_factors(max_length):
    """Returns the factors `(a, b)` of a row of `max_length` logits."""
    root = math.isqrt(max_length)
    a = next(n for n in range(root, 0, -1) if max_length % n == 0)
    if 4 * a * a < max_length:
        a = math.isqrt(max_length - 1) + 1
    return a, -(-max_length // a)


def _checked_factors(factors, max_length):
    if factors is None:
        return default_factors(max_length)
    try:
        a, b = (check_positive("factors", factor) for factor in factors)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "`factors` must be two positive integers (a, b). "
            f"Received: factors={factors!r}"
        ) from error
    if a * b < max_length:
        raise ValueError(
            "The product of `factors` must be at least "
            f"max_length={max_length}. By default they are "
            f"{default_factors(max_length)}. Received: factors={factors!r}, a "
            f"product of {a * b}"
        )
    return a, b

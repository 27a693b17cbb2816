"""Logits from each token alone."""

import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_synth.checks import check_positive
from keras_synth.copying import copy_variables
from keras_synth.distributions import copied
from keras_synth.logits import Logits, Product
from keras_synth.multiplications import of_dense, pairs_or_all
from keras_synth.projections import Projections
from keras_synth.synthesizers.synthesizer import Synthesizer
from keras_synth.types import Identifier, Shape, Size, Tensor


def _glorot(fan_in, fan_out):
    """Glorot's normal scheme for a table read as a `fan_in x fan_out` matrix.

    Keras' own would misread the heads axis as part of the fans.
    """
    stddev = math.sqrt(2.0 / (fan_in + fan_out))
    return keras.initializers.RandomNormal(stddev=stddev)


class _TokenSynthesizer(Synthesizer):
    """Base class of Dense and Factorized Dense: hidden layer and tables."""

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
        if hidden_dim is not None:
            hidden_dim = check_positive("hidden_dim", hidden_dim)
        self.hidden_dim = hidden_dim
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
                getattr(target, name).assign(value)

    def _table_initializer(self, fan_in, fan_out):
        if self.initializer is None:
            return _glorot(fan_in, fan_out)
        return self.initializer.clone()

    def get_config(self) -> dict[str, Any]:
        initializer = self.initializer
        return {
            **super().get_config(),
            "hidden_dim": self.hidden_dim,
            "activation": keras.activations.serialize(self.activation),
            "initializer": None
            if initializer is None
            else keras.initializers.serialize(initializer),
            **self._projections.get_config(),
        }


@keras.saving.register_keras_serializable(package="keras_synth")
class DenseSynthesizer(_TokenSynthesizer):
    """Predicts each token's attention row from that token alone ("D").

    `S = relu(x W1 + b1) W2 + b2`, one row of `max_length` logits per head.
    Read as attention, `W2` is a set of constant keys, and that is how it is
    computed. With `hidden_dim=None` it is the paper's linear form,
    `S = x W_a + b`, which fills a tensor `(B, H, T, S)`.

    Args:
        num_heads: Integer, `H`.
        hidden_dim: Integer, width of the hidden layer per head, `k`; or
            `None` for the linear form, which has no use for `activation`.
        max_length: Integer, the paper's N, in tokens. Shorter sequences use
            the first columns of the tables.
        activation: Activation of the hidden layer.
        shared_heads: Whether one W2 (or W_a) serves all heads, as in the
            authors' code; by default each head has its own.
        use_bias: Whether the hidden layer and the logits have a bias.
        long_inputs: `"error"`, or `"tile"` to repeat the columns:
            `S[i, j] = S[i, j mod N]`.
        initializer: Initializer of W2 or W_a, by default Glorot's normal
            scheme for a `k x N` (`d x N`) matrix.
        **kwargs: Options of the hidden layer as in
            `keras.layers.MultiHeadAttention` (`kernel_initializer`, ...; its
            `bias_initializer` serves b2 too), `seed`, for reproducible initial
            values, and keyword arguments of `keras.layers.Layer`.

    Call arguments:
        query: Tensor `(B, T, d)`.
        keys: Ignored: nothing is remembered of the source.
        start: Integer, position of the first query token; checked against
            `max_length` and otherwise of no effect.
        length: Integer or scalar integer tensor, source length `S`.
        queries: Optional tensor `(B, T, H, k)` in place of `x W1 + b1`.

    Returns:
        `Logits`: queries `(B, T, H, k)`, keys `(1, S, H, k)` and bias
        `(1, H, 1, S)`; in the linear form bias `(B, H, T, S)` alone.

    Example:

    >>> layer = keras_synth.layers.SyntheticAttention(
    ...     4, 16, synthesizer=keras_synth.synthesizers.DenseSynthesizer(
    ...         num_heads=4, hidden_dim=16, max_length=128))
    >>> layer(keras.random.normal((2, 10, 64))).shape
    (2, 10, 64)

    References:
        - [Tay et al., 2021](https://arxiv.org/abs/2005.00743), Dense variant.
    """

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
            max_length,
            activation,
            use_bias,
            long_inputs,
            initializer,
            **kwargs,
        )
        self.shared_heads = bool(shared_heads)
        self._shares_queries = False
        self.W2 = self.W_a = self.b2 = None

    def share_queries(self) -> None:
        """Gives up the hidden layer; `call` then needs `queries`."""
        if self.built:
            raise ValueError(
                "A DenseSynthesizer that is already built cannot share "
                "queries. Pass a new one to MixtureSynthesizer. Received: "
                f"{self.name}"
            )
        self._shares_queries = True

    def build(
        self, query_shape: Shape, source_shape: Shape | None = None
    ) -> None:
        heads = 1 if self.shared_heads else self.num_heads
        length, width = self.max_length, self.hidden_dim
        if not self._shares_queries:
            width = self._build_hidden(query_shape)
        # A layout map would cut the row that all heads share.
        with copied(when=self.shared_heads):
            self._build_tables(heads, length, width)
        self.built = True

    def _build_tables(self, heads, length, width):
        if self.hidden_dim is None:
            self.W_a = self.add_table(
                "W_a",
                (heads, width, length),
                self._table_initializer(width, length),
            )
        else:
            self.W2 = self.add_table(
                "W2",
                (length, heads, width),
                self._table_initializer(width, length),
            )
        if self.use_bias:
            self.b2 = self.add_table(
                "b2",
                (heads, length),
                self._projections.options["bias_initializer"],
            )

    def multiplications(
        self, query_length: int, source_length: int, pairs: int | None = None
    ) -> dict[str, int]:
        pairs = pairs_or_all(pairs, query_length, source_length)
        logits = self.num_heads * pairs * (self.hidden_dim or 0)
        if self.hidden_dim is None:
            heads, width, _ = self.W_a.shape
            logits = heads * pairs * width
        projections = of_dense(self.hidden, query_length)
        return {"projections": projections, "logits": logits}

    def call(
        self,
        query: Tensor,
        keys: Tensor | None = None,
        queries: Tensor | None = None,
        *,
        start: Size = 0,
        length: int | None = None,
    ) -> Tensor:
        _, source_length = self.lengths(query, start, length)
        features = self._features(query, queries)
        bias = self._bias(source_length)
        if self.hidden_dim is None:
            kernel = self.window(self.W_a, 2, 0, source_length)
            kernel = ops.cast(kernel, features.dtype)
            rows = ops.cast(
                ops.einsum("btd,hds->bhts", features, kernel), "float32"
            )
            rows = rows if bias is None else rows + ops.cast(bias, "float32")
            shape = (*ops.shape(rows)[:1], self.num_heads, *ops.shape(rows)[2:])
            return Logits(bias=ops.broadcast_to(rows, shape))
        constants = self.window(self.W2, 0, 0, source_length)  # (S, H or 1, k)
        constants = ops.broadcast_to(
            constants, (source_length, self.num_heads, self.hidden_dim)
        )
        return Logits(features, ops.cast(constants, features.dtype)[None], bias)

    def _folded_config(self, max_length):
        # A scale may differ from head to head.
        return {**super()._folded_config(max_length), "shared_heads": False}

    def _folded_tables(self, target, scale):
        columns = np.arange(target.max_length) % self.max_length
        scale = scale * np.ones(self.num_heads, "float32")
        return {
            "W2": _part(self.W2, columns, 0, scale[None, :, None]),
            "W_a": _part(self.W_a, columns, 2, scale[:, None, None]),
            "b2": _part(self.b2, columns, 1, scale[:, None]),
        }

    def _bias(self, source_length):
        """`(1, H, 1, S)`, or `None`."""
        if self.b2 is None:
            return None
        bias = self.window(self.b2, 1, 0, source_length)  # (H or 1, S)
        bias = ops.broadcast_to(bias, (self.num_heads, source_length))
        return bias[None, :, None, :]

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "shared_heads": self.shared_heads}


@keras.saving.register_keras_serializable(package="keras_synth")
class FactorizedDenseSynthesizer(_TokenSynthesizer):
    """Predicts each token's row as a product of two short rows ("FD").

    `S[i, p * b + q] = A_p(x_i) B_q(x_i)` with `A(x) = h A + b_A`,
    `B(x) = h B + b_B` and the hidden layer `h = relu(x W1 + b1)`; the row of
    `a * b >= N` is cut to N. One factor is repeated, the other tiled, so a row
    has N distinct logits. (Tiling both alike, as public codes do, repeats the
    same few products.) With `hidden_dim=None` it is the linear form, `h = x`.

    Each token has a row of its own for each head. On PyTorch's CPUs they are
    multiplied piece by piece; elsewhere the logits fill a tensor
    `(B, H, T, S)`.

    Args:
        num_heads: Integer, `H`.
        hidden_dim: Integer, width of the hidden layer per head, `k`; or
            `None` for the linear form, which has no use for `activation`.
        max_length: Integer, the paper's N, in tokens. Shorter sequences use
            the first columns.
        factors: Optional pair of integers `(a, b)` with `a * b >= N`; by
            default `default_factors(N)`.
        activation: Activation of the hidden layer.
        use_bias: Whether the hidden layer and both factors have a bias.
        long_inputs: `"error"`, or `"tile"` to repeat the columns:
            `S[i, j] = S[i, j mod N]`.
        initializer: Initializer of A and B, by default Glorot's normal scheme
            for `k x a` and `k x b` matrices.
        **kwargs: Options of the hidden layer as in
            `keras.layers.MultiHeadAttention` (`kernel_initializer`, ...; its
            `bias_initializer` serves b_A and b_B too), `seed`, for
            reproducible initial values, and keyword arguments of
            `keras.layers.Layer`.

    Call arguments:
        query: Tensor `(B, T, d)`.
        keys: Ignored: nothing is remembered of the source.
        start: Integer, position of the first query token; checked against
            `max_length` and otherwise of no effect.
        length: Integer or scalar integer tensor, source length `S`.

    Returns:
        `Logits`: bias `(B, H, T, S)`, as `logits.Product` where `S` is known.

    Example:

    >>> synthesizer = keras_synth.synthesizers.FactorizedDenseSynthesizer(
    ...     num_heads=4, hidden_dim=16, max_length=128)
    >>> layer = keras_synth.layers.SyntheticAttention(
    ...     4, 16, synthesizer=synthesizer)
    >>> layer(keras.random.normal((2, 10, 64))).shape
    (2, 10, 64)

    References:
        - [Tay et al., 2021](https://arxiv.org/abs/2005.00743), Factorized
          Dense variant.
    """

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
            max_length,
            activation,
            use_bias,
            long_inputs,
            initializer,
            **kwargs,
        )
        self.factors = _checked_factors(factors, self.max_length)
        self.A = self.B = self.b_A = self.b_B = None

    def build(
        self, query_shape: Shape, source_shape: Shape | None = None
    ) -> None:
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
                self.add_table(
                    name,
                    (self.num_heads, size),
                    self._projections.options["bias_initializer"].clone(),
                )
                for name, size in zip(("b_A", "b_B"), self.factors, strict=True)
            )
        self.built = True

    def multiplications(
        self, query_length: int, source_length: int, pairs: int | None = None
    ) -> dict[str, int]:
        a, b = self.factors
        rows = self.num_heads * query_length
        return {
            "projections": of_dense(self.hidden, query_length),
            "logits": rows * ((a + b) * self.A.shape[1] + a * b),
        }

    def call(
        self,
        query: Tensor,
        keys: Tensor | None = None,
        *,
        start: Size = 0,
        length: int | None = None,
    ) -> Tensor:
        _, source_length = self.lengths(query, start, length)
        features = self._features(query)
        repeated = self._factor(features, self.A, self.b_A)  # (B, H, T, a)
        tiled = self._factor(features, self.B, self.b_B)  # (B, H, T, b)
        if isinstance(source_length, int) and source_length <= self.max_length:
            return Logits(bias=Product(repeated, tiled, source_length))
        rows = Product(repeated, tiled, self.max_length).written_out()
        return Logits(bias=self._columns(rows, source_length))

    def _folded_config(self, max_length):
        config = super()._folded_config(max_length)
        if max_length >= self.max_length:  # columns are tiled, factors are not
            return self.get_config()
        b = self.factors[1]
        return {**config, "factors": [-(-max_length // b), b]}

    def _folded_tables(self, target, scale):
        rows = np.arange(target.factors[0])
        return {
            "A": _part(self.A, rows, 2, scale[:, None, None]),
            "b_A": _part(self.b_A, rows, 1, scale[:, None]),
            "B": self.B,
            "b_B": self.b_B,
        }

    def _factor(self, features, kernel, bias):
        kernel = ops.cast(ops.convert_to_tensor(kernel), features.dtype)
        tokens = (
            "btd,hda->bhta" if self.hidden_dim is None else "bthd,hda->bhta"
        )
        factor = ops.cast(ops.einsum(tokens, features, kernel), "float32")
        if bias is None:
            return factor
        bias = ops.cast(ops.convert_to_tensor(bias), "float32")
        return factor + bias[:, None, :]

    def _columns(self, rows, length):
        """Gives rows `(B, H, T, N)` `length` columns."""
        if self.long_inputs == "tile":
            columns = ops.mod(
                ops.arange(length, dtype="int32"), self.max_length
            )
            return ops.take(rows, columns, axis=3)
        return self.window(rows, 3, 0, length)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "factors": list(self.factors)}


def _part(table, positions, axis, scale):
    """Positions of a table along an axis, times `scale`; `None` of `None`."""
    if table is None:
        return None
    return np.take(ops.convert_to_numpy(table), positions, axis) * scale


def default_factors(max_length):
    """Returns the factors `(a, b)` of a row of `max_length` logits.

    `a` is the largest divisor of N up to `sqrt(N)`, if that is at least half
    of `sqrt(N)`, else `ceil(sqrt(N))`; `b = ceil(N / a)`.

    Args:
        max_length: Integer, the paper's N.

    Returns:
        Tuple of two integers with `a * b >= N`.

    Example:

    >>> default_factors(512), default_factors(13)
    ((16, 32), (4, 4))
    """
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
            f"`factors` must multiply to at least max_length={max_length}, "
            f"or leave them out for {default_factors(max_length)}. "
            f"Received: factors={factors!r}, a product of {a * b}"
        )
    return a, b

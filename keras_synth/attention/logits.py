"""`Logits`, the result of a synthesizer, and `Weights`."""

from typing import NamedTuple

import keras
from keras import ops

from keras_synth._backend import kernels
from keras_synth._backend.tensors import axis_size, cast_like
from keras_synth.types import Tensor


class Logits(NamedTuple):
    """Attention logits before the softmax, `queries . keys + bias`.

    Kernels use the separate terms. Logits that do not depend on the batch stay
    small: a leading axis of 1 means "the same for all samples".

    The sum (`a + b`) and multiples (`a.scaled(alpha)`) are not materialized:
    `q1.k1 + q2.k2` is the product of the concatenated features. `+` does not
    concatenate tuples. Biases are added in float32.

    Fields:
        queries: Tensor `(B or 1, T, H, k)` or `None`.
        keys: Tensor `(B or 1, S, H, k)`; `None` together with `queries`.
        bias: Tensor `(B or 1, H or 1, T or 1, S)` or `None`.
        needs_float32: Boolean, whether kernels must not use the bias in half
            precision. If a bias falls without bound with the distance, all
            visible keys of a row can be so far below its largest logit that
            half precision cannot distinguish them.

    Example:

    >>> from keras_synth.logits import Logits
    >>> table = Logits(bias=keras.random.normal((1, 2, 5, 5)))
    >>> pairs = Logits(
    ...     queries=keras.random.normal((3, 5, 2, 4)),
    ...     keys=keras.random.normal((3, 5, 2, 4)))
    >>> (table.scaled(np.ones(2, "float32")) + pairs).materialize().shape
    (3, 2, 5, 5)
    """

    queries: Tensor = None
    keys: Tensor = None
    bias: Tensor = None
    needs_float32: bool = False

    @property
    def shared(self):
        """Whether all samples have the same `(H, T, S)` logits."""
        terms = self.queries, self.keys, self.bias
        return all(x is None or x.shape[0] == 1 for x in terms)

    @property
    def target_length(self):
        """Rows of the logits, `T`, or 1 if all queries share a row."""
        if self.queries is not None:
            return axis_size(self.queries, 1)
        return axis_size(self.bias, 2)

    def scaled(self, alpha):
        """Returns `alpha * self`; `alpha` is a tensor `(H,)` or `(1,)`."""
        queries, bias = self.queries, self.bias
        if queries is not None:
            queries = queries * ops.cast(alpha, queries.dtype)[:, None]
        if bias is not None:
            bias = float32(bias) * float32(alpha)[:, None, None]
        return self._replace(queries=queries, bias=bias)

    def __add__(self, other):
        if isinstance(other, Weights):
            other = other.as_logits()
        a, b = self, other
        if all(
            x.queries is not None and x.queries.shape[1] == 1 for x in (a, b)
        ):
            # Repeating constant keys for each sample would cost more.
            if a.keys.shape[0] == 1:
                a = Logits(bias=a.materialize())
            elif b.keys.shape[0] == 1:
                b = Logits(bias=b.materialize())
        return Logits(
            _concatenation(a.queries, b.queries),
            _concatenation(a.keys, b.keys),
            sum_of(a.bias, b.bias),
            self.needs_float32 or other.needs_float32,
        )

    def with_rows(self, target_length):
        """Returns the same logits with a row for each of `T` queries.

        Only a bias with one row for all queries, `(., H, 1, S)`, changes.
        """
        one = isinstance(target_length, int) and target_length == 1
        if self.queries is not None or self.bias.shape[2] != 1 or one:
            return self
        batch, heads, _, length = ops.shape(self.bias)
        shape = (batch, heads, target_length, length)
        return self._replace(bias=ops.broadcast_to(self.bias, shape))

    def materialize(self):
        """Returns the float32 tensor `(B or 1, H, T or 1, S)`."""
        if self.queries is None:
            return float32(self.bias)
        queries, keys = map(within_float32, (self.queries, self.keys))
        if queries.shape[0] == 1 != keys.shape[0]:
            queries = repeat_batch(queries, ops.shape(keys)[0])
        if queries.shape[0] == 1:
            rows = ops.transpose(queries, (0, 2, 1, 3))
            product = ops.matmul(rows, ops.transpose(keys, (0, 2, 3, 1)))
        elif keys.shape[0] == 1:  # one product for any batch
            product = ops.einsum("bthk,shk->bhts", queries, keys[0])
        elif queries.shape[1] == 1 and keys.shape[1] is not None:
            product = _of_one_query(queries, keys)
        else:
            product = ops.einsum("bthk,bshk->bhts", queries, keys)
        return sum_of(float32(product), self.bias)


class Weights(NamedTuple):
    """Precomputed attention weights, the same for all samples.

    A folded synthesizer returns them instead of `Logits`; see
    `keras_synth.fold`. Addition and scaling turn them into logits, their
    logarithms.

    Fields:
        table: Float32 tensor `(1, H, T, S)`, positive; rows sum to 1.

    Example:

    >>> from keras_synth.attend import attend
    >>> from keras_synth.logits import Weights
    >>> table = keras.ops.softmax(keras.random.normal((1, 2, 5, 5)))
    >>> values = keras.random.normal((3, 5, 2, 4))
    >>> attend(Weights(table), values).shape
    (3, 5, 2, 4)
    """

    table: Tensor

    @property
    def target_length(self):
        """Rows, `T`."""
        return axis_size(self.table, 2)

    def as_logits(self):
        """Returns `Logits` whose softmax is these weights."""
        return Logits(bias=ops.log(self.table))

    def scaled(self, alpha):
        """Returns the logits times `alpha`, a tensor `(H,)` or `(1,)`."""
        return self.as_logits().scaled(alpha)

    def __add__(self, other):
        return self.as_logits() + other

    def with_rows(self, target_length):
        """Returns the weights, which have a row for each query."""
        return self

    def materialize(self):
        """Returns the logits, a float32 tensor `(1, H, T, S)`."""
        return self.as_logits().materialize()


def float32(x):
    """Returns a tensor in float32."""
    is_float32 = keras.backend.standardize_dtype(x.dtype) == "float32"
    return x if is_float32 else ops.cast(x, "float32")


def within_float32(x):
    """Casts float16 features to float32, so that products do not overflow."""
    is_float16 = keras.backend.standardize_dtype(x.dtype) == "float16"
    return ops.cast(x, "float32") if is_float16 else x


def sum_of(a, b):
    """The float32 sum of two terms, each of which can be `None`."""
    if a is None or b is None:
        return b if a is None else a
    return float32(a) + float32(b)


def _of_one_query(queries, keys):
    """`queries . keys`: `(B, 1, H, k), (B, S, H, k) -> (B, H, 1, S)`.

    A matrix product for each head would first copy the keys into another
    layout. Compilers can fuse a product and a sum into one loop. Others compute
    one matrix product, of features that are zero except for one head, with more
    arithmetic.
    """
    if kernels.FUSES_DOT_PRODUCTS:
        products = ops.sum(queries * keys, axis=-1)  # (B, S, H)
        return ops.transpose(products, (0, 2, 1))[:, :, None]
    length, heads, width = keys.shape[1:]
    own = ops.eye(heads, dtype=queries.dtype)[None, :, :, None] * queries
    own = ops.reshape(own, (-1, heads, heads * width))
    columns = ops.reshape(keys, (-1, length, heads * width))
    products = ops.matmul(columns, ops.transpose(own, (0, 2, 1)))  # (B, S, H)
    return ops.transpose(products, (0, 2, 1))[:, :, None]


def _concatenation(a, b):
    """Concatenates features, and repeats constants for each sample."""
    if a is None or b is None:
        return b if a is None else a
    if a.shape[0] == 1 and b.shape[0] != 1:
        a = repeat_batch(a, ops.shape(b)[0])
    if b.shape[0] == 1 and a.shape[0] != 1:
        b = repeat_batch(b, ops.shape(a)[0])
    # Learned tables are float32; tokens can have half precision.
    if keras.backend.standardize_dtype(a.dtype) == "float32":
        a = cast_like(a, b)
    return ops.concatenate([a, cast_like(b, a)], axis=-1)


def repeat_batch(x, size):
    """Broadcasts a tensor with a leading axis of 1 to `size` samples."""
    return ops.broadcast_to(x, (size, *ops.shape(x)[1:]))


def check_logits(logits, name, query_shape, source_length, num_heads):
    """Raises unless `call` of a synthesizer has returned logits that fit.

    Unknown sizes fit. Without the check, some wrong shapes would broadcast.

    Args:
        logits: Result of the call.
        name: String, the synthesizer's class.
        query_shape: Shape `(B, T, d)`.
        source_length: Integer or scalar tensor, `S`.
        num_heads: Integer, `H`.
    """
    if not isinstance(logits, (Logits, Weights)):
        raise TypeError(
            f"`call` of {name} must return keras_synth.logits.Logits, such as "
            f"Logits(bias=tensor). Received: {type(logits).__name__}"
        )
    batch, rows = query_shape[:2]
    queries = getattr(logits, "queries", None)
    width = None if queries is None else queries.shape[-1]
    pairs = ((1, batch), (1, num_heads), (1, rows), (source_length,))
    expected = {
        "queries": ((1, batch), (rows,), (num_heads,), (None,)),
        "keys": ((1, batch), (source_length,), (num_heads,), (width,)),
        "bias": pairs,
        "table": pairs,
    }
    found = {k: getattr(logits, k, None) for k in expected}
    found = {k: tuple(x.shape) for k, x in found.items() if x is not None}
    is_complete = found and ("queries" in found) == ("keys" in found)
    if not is_complete or not all(
        _fits(shape, expected[k]) for k, shape in found.items()
    ):
        raise ValueError(
            f"`call` of {name} must return logits with queries "
            "(B or 1, T, H, k) and keys (B or 1, S, H, k), with a bias "
            "(B or 1, H or 1, T or 1, S), or with all three. Expected: "
            f"B={batch}, T={rows}, S={source_length}, H={num_heads}. "
            f"Received: {found or 'none of them'}"
        )


def _fits(shape, expected):
    """Whether each size of a shape is one of those expected, or unknown."""
    return len(shape) == len(expected) and all(
        not all(isinstance(x, int) for x in (size, *sizes)) or size in sizes
        for size, sizes in zip(shape, expected, strict=True)
    )

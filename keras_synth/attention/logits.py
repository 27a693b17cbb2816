"""`Logits`: what every synthesizer returns, and all that attention needs."""

from typing import NamedTuple

import keras
from keras import ops

from keras_synth._backend.tensors import axis_size, cast_like
from keras_synth.types import Tensor


class Logits(NamedTuple):
    """Attention logits before the softmax, `queries . keys + bias`.

    The parts are kept apart so that a fused kernel can take them as they are
    and so that logits which do not depend on the batch stay small: a leading
    axis of 1 means "the same for the whole batch".

    Logits add (`a + b`) and scale (`a.scaled(alpha)`) without being computed:
    `q1.k1 + q2.k2` is the product of the concatenated features. Addition here
    is that of attention logits, not the concatenation of tuples.

    Fields:
        queries: Tensor `(B or 1, T, H, k)` or `None`.
        keys: Tensor `(B or 1, S, H, k)`; `None` together with `queries`.
        bias: Tensor `(B or 1, H, T or 1, S)`, a `Product` that stands for
            one, or `None`.

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

    @property
    def is_steep(self):
        """Whether kernels must not take the bias in half precision.

        A row may see entries alone that are so far below its largest that it
        does not tell them apart, or does not hold them.
        """
        return False

    @property
    def shared(self):
        """Whether one `(H, T, S)` table holds the logits of all samples."""
        return not any(x is not None and x.shape[0] != 1 for x in self)

    @property
    def target_length(self):
        """Rows of the logits, `T`; 1 too where one row is for all queries."""
        if self.queries is not None:
            return axis_size(self.queries, 1)
        bias = self.bias
        return axis_size(bias.tiled if isinstance(bias, Product) else bias, 2)

    def scaled(self, alpha):
        """Returns `alpha * self`; `alpha` is a tensor `(H,)` or `(1,)`."""
        queries, bias = self.queries, self.bias
        if queries is not None:
            queries = queries * ops.cast(alpha, queries.dtype)[:, None]
        if bias is not None:
            bias = _scaled(bias, ops.cast(alpha, bias.dtype)[:, None, None])
        return self._replace(queries=queries, bias=bias)

    def written_out(self):
        """The same, its bias being a tensor."""
        if not isinstance(self.bias, Product):
            return self
        return self._replace(bias=self.bias.written_out())

    def __add__(self, other):
        if isinstance(other, Weights):
            other = other.as_logits()
        kind = type(other) if other.is_steep else type(self)
        if self._is_of_one_query and other._is_of_one_query:
            # Repeating constant keys for each sample would cost more.
            if self.keys.shape[0] == 1:
                self = Logits(bias=self.materialize())
            elif other.keys.shape[0] == 1:
                other = Logits(bias=other.materialize())
        return kind(
            _concatenated(self.queries, other.queries),
            _concatenated(self.keys, other.keys),
            _sum(self.bias, other.bias),
        )

    @property
    def _is_of_one_query(self):
        return self.queries is not None and self.queries.shape[1] == 1

    def with_rows(self, target_length):
        """The same, a row for each query.

        Queries tell how many there are. A bias of one row for all of them,
        `(., H, 1, S)`, does not.

        Args:
            target_length: Integer or scalar tensor, `T`.
        """
        if self.queries is not None or self.bias.shape[2] != 1:
            return self
        if isinstance(target_length, int) and target_length == 1:
            return self
        bias = _written_out(self.bias)
        batch, heads, _, length = ops.shape(bias)
        shape = (batch, heads, target_length, length)
        return self._replace(bias=ops.broadcast_to(bias, shape))

    def materialize(self):
        """Returns the float32 tensor `(B or 1, H, T or 1, S)`."""
        if self.queries is None:
            return _as_float32(_written_out(self.bias))
        queries, keys = self.queries, self.keys
        if queries.shape[0] == 1 and keys.shape[0] == 1:
            rows = ops.transpose(queries, (0, 2, 1, 3))
            product = ops.matmul(rows, ops.transpose(keys, (0, 2, 3, 1)))
        elif keys.shape[0] == 1:  # one product, whatever the batch
            product = ops.einsum("bthk,shk->bhts", queries, keys[0])
        else:
            if queries.shape[0] == 1:
                queries = repeat_batch(queries, ops.shape(keys)[0])
            product = ops.einsum("bthk,bshk->bhts", queries, keys)
        return _sum(ops.cast(product, "float32"), self.bias)


class SteepLogits(Logits):
    """Logits made by hand that fall without bound as tokens are farther away.

    Whatever is added to them is steep as well. Kernels that would take the
    bias in half precision compute in float32.

    Example:

    >>> from keras_synth.logits import Logits, SteepLogits
    >>> steep = SteepLogits(bias=-1e5 * keras.random.uniform((1, 2, 5, 5)))
    >>> (Logits(bias=keras.ops.ones((1, 2, 5, 5))) + steep).is_steep
    True
    """

    is_steep = True


class Product(NamedTuple):
    """A bias `(B or 1, H, T, S)` that is not written out.

    Column `p b + q` of a row is `repeated[p] * tiled[q]`. With `a = 1` it is a
    table times a number for each head. Routes that compute pieces of logits
    multiply pieces; the others are given the tensor that it stands for.

    Fields:
        repeated: Tensor `(B or 1, H or 1, T or 1, a)`.
        tiled: Tensor `(B or 1, H, T, b)`.
        length: Integer, `S`, at most `a b`.

    Example:

    >>> from keras_synth.logits import Product
    >>> product = Product(np.array([[[[1, 2]]]]), np.array([[[[3, 4]]]]), 3)
    >>> product.shape, product.written_out()[0, 0, 0].tolist()
    ((1, 1, 1, 3), [3, 4, 6])
    """

    repeated: object
    tiled: object
    length: object

    @property
    def shape(self):
        """Of the tensor that it stands for."""
        pairs = zip(self.repeated.shape[:3], self.tiled.shape[:3], strict=True)
        return (*(b if a == 1 else a for a, b in pairs), self.length)

    @property
    def dtype(self):
        return self.tiled.dtype

    @property
    def scales_a_table(self):
        """Whether it is one table for all samples, a number for each head."""
        batch, heads, rows, width = self.repeated.shape
        like = batch == rows == width == self.tiled.shape[0] == 1
        whole = self.tiled.shape[3] == self.length
        return like and whole and heads in (1, self.tiled.shape[1])

    def written_out(self):
        """Returns the tensor that it stands for."""
        repeated, tiled = self.repeated, self.tiled
        if repeated.shape[-1] == 1:
            rows = tiled * repeated
        else:
            rows = repeated[..., :, None] * tiled[..., None, :]
            columns = repeated.shape[-1] * tiled.shape[-1]
            rows = ops.reshape(rows, (*ops.shape(rows)[:-2], columns))
        if rows.shape[-1] == self.length:
            return rows
        return rows[..., : self.length]

    def columns(self, first, number):
        """Returns some columns of the tensor that it stands for.

        Args:
            first: Integer.
            number: Integer, how many.
        """
        width = self.tiled.shape[-1]
        runs = covering(first, number, width)
        before = first - runs.start * width
        repeated = self.repeated[..., runs]
        own = Product(repeated, self.tiled, before + number).written_out()
        return own[..., before:] if before else own


def covering(first, number, width):
    """Returns which runs of equal length hold some columns, a slice.

    Args:
        first: Integer, the first column.
        number: Integer, how many columns.
        width: Integer, columns in a run.
    """
    return slice(first // width, -(-(first + number) // width))


class Weights(NamedTuple):
    """Attention weights that are known beforehand, the same for all samples.

    They stand in the place of `Logits`: folded tables give them, see
    `keras_synth.fold`. Whatever else is added makes logits of them again,
    their logarithms.

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
    def shared(self):
        """Whether one table is for all samples: it is."""
        return True

    @property
    def queries(self):
        """None that are compared."""
        return None

    @property
    def target_length(self):
        """Rows, `T`."""
        return ops.shape(self.table)[2]

    def as_logits(self):
        """Returns `Logits` of which these are the softmax."""
        return Logits(bias=ops.log(self.table))

    def scaled(self, alpha):
        """Returns the logits times `alpha`, a tensor `(H,)` or `(1,)`."""
        return self.as_logits().scaled(alpha)

    def __add__(self, other):
        return self.as_logits() + other

    def with_rows(self, target_length):
        """The same: there is a row for each query."""
        return self

    def materialize(self):
        """Returns the logits, a float32 tensor `(1, H, T, S)`."""
        return self.as_logits().materialize()


def _scaled(bias, alpha):
    """A bias times numbers `(H or 1, 1, 1)`: a `Product`, if it is large."""
    if isinstance(bias, Product):
        return bias._replace(repeated=bias.repeated * alpha)
    _, heads, rows, columns = bias.shape
    per_head = heads == alpha.shape[0] or alpha.shape[0] == 1
    if bias.shape[0] != 1 or rows == 1 or not per_head:
        return bias * alpha
    return Product(alpha[None], bias, columns)


def _as_float32(x):
    is_float32 = keras.backend.standardize_dtype(x.dtype) == "float32"
    return x if is_float32 else ops.cast(x, "float32")


def _written_out(bias):
    return bias.written_out() if isinstance(bias, Product) else bias


def _sum(a, b):
    if a is None or b is None:
        return b if a is None else a
    return _written_out(a) + cast_like(_written_out(b), a)


def _concatenated(a, b):
    """Puts features side by side; constants are repeated beside others."""
    if a is None or b is None:
        return b if a is None else a
    if a.shape[0] == 1 and b.shape[0] != 1:
        a = repeat_batch(a, ops.shape(b)[0])
    if b.shape[0] == 1 and a.shape[0] != 1:
        b = repeat_batch(b, ops.shape(a)[0])
    if a.dtype == b.dtype:
        return ops.concatenate([a, b], axis=-1)
    # Learned tables are float32, tokens may be of half the precision.
    types = [keras.backend.standardize_dtype(x.dtype) for x in (a, b)]
    dtype = types[1] if types[0] == "float32" else types[0]
    return ops.concatenate([ops.cast(a, dtype), ops.cast(b, dtype)], axis=-1)


def repeat_batch(x, size):
    """Broadcasts a tensor with a leading axis of 1 to `size` samples."""
    return ops.broadcast_to(x, (size, *ops.shape(x)[1:]))

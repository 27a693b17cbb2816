"""Boolean attention masks: True means "may attend"."""

import contextlib
import contextvars
import functools
import operator
from typing import NamedTuple

import keras
from keras import ops

from keras_synth._backend.execution import known_to_compilers
from keras_synth._backend.tensors import constant, indices
from keras_synth.attention.softmax import LEAST_BIAS
from keras_synth.types import Tensor


class AttentionMask(NamedTuple):
    """All conditions on attention, as factors that stay small.

    A route makes a tensor `(B, T, S)` only if it needs one.

    Fields:
        queries: Boolean tensor `(B, T)` or `None`. The context is zero where it
            is False. Other rows do not change.
        keys: Boolean tensor `(B, S)` or `None`, False for keys that no query
            sees.
        pairs: Boolean tensor `(B or 1, H or 1, T, S)` or `None`.
        causal: Whether no token sees a later one.
        window: Optional integer, in tokens: tokens see only smaller distances.
        pattern: `Pattern` of `keras_synth.mixers.patterns`, or `None`.
        start: Integer or scalar tensor, position of the first query token in
            the source, for `causal`, `window` and `pattern`.

    Example:

    >>> from keras_synth.masks import AttentionMask
    >>> mask = AttentionMask(keys=np.array([[True, True, False]]), causal=True)
    >>> keras.ops.convert_to_numpy(mask.with_pairs(3, 3).materialize()[0, 0])
    array([[ True, False, False],
           [ True,  True, False],
           [ True,  True, False]])
    """

    queries: Tensor = None
    keys: Tensor = None
    pairs: Tensor = None
    causal: bool = False
    window: int | None = None
    start: object = 0
    pattern: object = None

    @property
    def shared(self):
        """Whether `pairs` are the same for all samples of the batch."""
        return self.pairs is None or self.pairs.shape[0] == 1

    def of_heads(self, heads):
        """The mask of a slice of heads."""
        if self.pairs is None or self.pairs.shape[1] == 1:
            return self
        return self._replace(pairs=self.pairs[:, heads])

    @property
    def has_pattern(self):
        """Whether there is a causal mask, window or pattern."""
        limited = self.window is not None or self.pattern is not None
        return self.causal or limited

    def allows(self, rows, columns):
        """Which columns rows see by their positions: boolean `(..., r, c)`.

        Args:
            rows: Integer tensor or array `(..., r)`, positions of queries in
                the source.
            columns: Integer tensor or array `(..., c)`, positions of keys.
        """
        rows = rows[..., None]
        # tf2onnx cannot convert `[..., None, :]` of a vector of open length.
        vector = len(columns.shape) == 1
        columns = columns[None] if vector else columns[..., None, :]
        distance = rows - columns
        allowed = [distance >= 0] if self.causal else []
        if self.window is not None:
            near = distance if self.causal else abs(distance)
            allowed.append(near < self.window)
        if self.pattern is not None:
            allowed.append(self.pattern.allows(rows, columns))
        # PyTorch's compiler supports these operators of arrays.
        return functools.reduce(operator.and_, allowed) if allowed else None

    def with_pairs(self, target_length, source_length):
        """Returns the same mask with the pattern in its `pairs`."""
        if not self.has_pattern:
            return self
        allowed = self.allows(
            indices(target_length) + self.start,
            indices(source_length),
        )[None, None]
        return AttentionMask(self.queries, self.keys, both(self.pairs, allowed))

    def materialize(self):
        """Returns keys and pairs as one mask that broadcasts to (B, H, T, S).

        It is `None` if both are `None`. `with_pairs` includes the pattern.
        """
        keys = None if self.keys is None else self.keys[:, None, None, :]
        return both(keys, self.pairs)

    def visible(self, target_length, source_length):
        """Which rows see a key: `(B or 1, 1 or H, 1 or T)`.

        `None` if all rows do.
        """
        if self.pairs is None and not self.has_pattern:
            keys = self.keys
            return None if keys is None else ops.any(keys, -1)[:, None, None]
        lengths = self.start, target_length, source_length
        known = all(isinstance(x, int) for x in lengths)
        inside = known and self.start + target_length <= source_length
        sees_itself = self.pattern is None or self.pattern.sees_itself
        if self.keys is None and self.pairs is None and inside and sees_itself:
            return None
        mask = self.with_pairs(target_length, source_length)
        if mask.keys is None or not mask.shared:
            return ops.any(mask.materialize(), axis=-1)
        return mask.count(target_length, source_length) > 0

    def count(self, target_length, source_length):
        """The number of keys that each row sees: `(B or 1, 1 or H, 1 or T)`.

        Integers, possibly as floats.
        """
        mask = self.with_pairs(target_length, source_length)
        if mask.pairs is None and mask.keys is None:
            return ops.reshape(ops.cast(source_length, "int32"), (1, 1, 1))
        if mask.pairs is None:
            return ops.sum(ops.cast(mask.keys, "int32"), axis=-1)[:, None, None]
        if mask.keys is None or not mask.shared:
            return ops.sum(ops.cast(mask.materialize(), "int32"), axis=-1)
        # A matrix product counts without a tensor (B, H, T, S).
        pairs = ops.cast(mask.pairs[0], "float32")  # (1 or H, T, S)
        keys = ops.cast(mask.keys, "float32")
        counts = ops.matmul(pairs, ops.transpose(keys))  # (1 or H, T, B)
        return ops.round(ops.transpose(counts, (2, 0, 1)))


def both(a, b):
    """`a & b`; `None` allows all pairs."""
    if a is None or b is None:
        return b if a is None else a
    return ops.logical_and(a, b)


def as_boolean(mask):
    """Casts a mask of any dtype to boolean; `None` stays `None`."""
    if mask is None:
        return None
    mask = mask if ops.is_tensor(mask) else ops.convert_to_tensor(mask)
    is_boolean = keras.backend.standardize_dtype(mask.dtype) == "bool"
    return mask if is_boolean else ops.cast(mask, "bool")


def present_padding(mask, x, start):
    """The padding mask `(B, T)` of the new tokens `x`, `(B, T, d)`.

    `mask` can be `(B, max)`, for the whole cache. The position of the first
    token is `start`.
    """
    if mask is None:
        return None
    if mask.shape[1] is not None and mask.shape[1] == x.shape[1]:
        return mask
    sizes = mask.shape[1], x.shape[1], start
    known = all(isinstance(size, int) for size in sizes)
    if known and mask.shape[1] < start + x.shape[1]:
        raise _wrong_padding(mask, x)
    # Not all backends slice booleans.
    mask, (batch, length) = ops.cast(mask, "int32"), ops.shape(x)[:2]
    begin = _unless_equal(length, ops.shape(mask)[1], start)
    return as_boolean(ops.slice(mask, (0, begin), (batch, length)))


def cached_padding(mask, x, length, start):
    """The padding mask `(B, max)` of all tokens in a cache of that `length`.

    Other arguments are those of `present_padding`.
    """
    if mask is None:
        return None
    mask = ops.convert_to_tensor(mask)
    own, present = mask.shape[1], x.shape[1]
    known = isinstance(own, int) and isinstance(present, int)
    if isinstance(length, int) and own == length and own != present:
        return as_boolean(mask)
    if known and own != present:
        raise _wrong_padding(mask, x, length)
    real = ops.ones((ops.shape(x)[0], length), dtype="int32")
    mask = ops.cast(mask, "int32")
    begin = _unless_equal(length, ops.shape(mask)[1], start)
    return as_boolean(ops.slice_update(real, (0, begin), mask))


def _wrong_padding(mask, x, length="length"):
    """The error for a padding mask that fits neither tokens nor cache."""
    return ValueError(
        "The padding mask must have the shape (batch, length) of the new "
        f"tokens, {tuple(x.shape[:2])}, or of the cache, (batch, {length}). "
        f"Received: mask.shape={tuple(mask.shape)}"
    )


def _unless_equal(length, other, start):
    """Returns `start`, or 0 if two lengths, known or not, are equal."""
    if isinstance(length, int) and isinstance(other, int):
        return 0 if length == other else start
    return ops.where(ops.equal(length, other), 0, start)


def zero_padding(x, mask):
    """Sets `x` `(B, S, ...)` to zero where `mask` `(B, S)` is False."""
    if mask is None:
        return x
    # Multiplying by the mask would turn inf and NaN into NaN.
    return ops.where(_beside(mask, x), x, constant(0.0, x))


def zero_hidden(bias, mask, target_length=None):
    """Sets a bias `(B or 1, H or 1, T or 1, S)` to zero where it is hidden.

    Without `target_length`, `T`, only for keys that no row sees. If samples
    with different masks share a bias, only its NaN, inf and numbers beyond 1e30
    become zero, for all samples.
    """
    one = isinstance(target_length, int) and target_length == 1
    if target_length is not None and (one or bias.shape[2] != 1):
        mask = mask.with_pairs(target_length, ops.shape(bias)[3])
    elif mask.pairs is not None and mask.pairs.shape[2] != 1:
        mask = mask._replace(pairs=None)
    allowed = mask.materialize()
    if allowed is None:
        return bias
    zero = constant(0.0, bias)
    if bias.shape[0] == 1 and allowed.shape[0] != 1:
        allowed = ops.all(allowed, axis=0, keepdims=True)
        # Hidden pairs get FORBIDDEN added, which a larger bias would undo.
        zero = ops.where(ops.abs(bias) <= -LEAST_BIAS, bias, zero)
    return ops.where(allowed, bias, zero)


def zero_rows(context, visible):
    """Sets rows of a context `(B, T, H, v)` to zero if they are not visible.

    `visible` is boolean `(B or 1, 1 or H, 1 or T)`, or `None` for all rows.
    """
    if visible is None:
        return context
    visible = ops.transpose(visible, (0, 2, 1))[..., None]  # (B, T, H, 1)
    return ops.where(visible, context, constant(0.0, context))


_FINITE = contextvars.ContextVar("finite padding", default=False)


@contextlib.contextmanager
def finite_padding():
    """Says that padding is finite, as for tokens of integers, in a block."""
    token = _FINITE.set(True)
    try:
        yield
    finally:
        _FINITE.reset(token)


@known_to_compilers
def _is_finite():
    return _FINITE.get()


def zero_nonfinite_padding(x, mask):
    """Sets inf and NaN in padding of `x` `(B, T, d)` to zero.

    Finite padding does not change. With NaN, the weights' gradients would
    contain `0 * NaN`.
    """
    if mask is None or _is_finite():
        return x
    finite = ops.nan_to_num(x, nan=0.0, posinf=0.0, neginf=0.0)
    return ops.where(_beside(mask, x), x, finite)


def without_nonfinite_padding(query, value, key, mask):
    """`zero_nonfinite_padding` of all three, once for each different tensor."""
    same_value, same_key = value is query, key is value
    value = zero_nonfinite_padding(value, mask.keys)
    key = value if same_key else zero_nonfinite_padding(key, mask.keys)
    if same_value and mask.queries is None:
        return value, value, key
    return zero_nonfinite_padding(query, mask.queries), value, key


def _beside(mask, x):
    """Gives a mask, such as `(B, S)`, the rank of `x`."""
    return mask[(...,) + (None,) * (len(x.shape) - len(mask.shape))]

"""Attention among the pairs of a sparse pattern."""

from typing import Any

import keras
from keras import ops

from keras_synth._backend.checks import check_positive
from keras_synth.attention import blocks as pieces
from keras_synth.attention import masks, patterns
from keras_synth.attention.multiplications import of_pairs
from keras_synth.mixers.multi_head import MultiHeadMixer
from keras_synth.types import Identifier, Tensor


class PatternMixer(MultiHeadMixer):
    """What sparse mixers share; `__init__` of a subclass sets the pattern."""

    supports_cross_attention = False

    def _set_pattern(self, pattern, max_length=None):
        if max_length is not None:
            max_length = check_positive("max_length", max_length)
        self.max_length = max_length
        self.pattern = patterns.get(pattern).fitted(max_length)

    def attend(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        mask: Tensor,
        *,
        training: bool | None = None,
    ) -> Tensor:
        queries = queries * self.key_dim**-0.5
        length, source = ops.shape(queries)[1], ops.shape(keys)[1]
        dropped = self._active_dropout(training)
        inputs = queries, keys, values
        begins = isinstance(mask.start, int) and mask.start == 0
        if mask.pairs is None and begins:
            return self._blocked(*inputs, mask, dropped)
        if mask.pairs is None and queries.shape[1] == 1:
            return self._of_one(*inputs, mask)
        allowed = self._allowed(length, source, mask)
        return pieces.dense(*inputs, allowed, dropped)

    def _check_cache(self, query, cache, start, use_causal_mask):
        if start is None:
            raise ValueError(
                f"{type(self).__name__} is for the tokens of one sequence: "
                "its cache needs a `start`. For cross-attention take a mixer "
                "that has it, such as SyntheticAttention. Received: start=None"
            )
        super()._check_cache(query, cache, start, use_causal_mask)
        self._check_length(cache.shape[1])

    def _blocked(self, queries, keys, values, mask, dropped):
        """Of whole sequences; a cache is filled as far as there are queries."""
        length = ops.shape(queries)[1]
        padding = mask.keys
        if mask.causal:
            keys, values = keys[:, :length], values[:, :length]
            padding = None if padding is None else padding[:, :length]
        context = pieces.attend(
            queries, keys, values, self.pattern, padding, mask.causal, dropped
        )
        seeing = 0 if mask.causal else self._rows_that_see_all
        if not seeing:
            return context
        allowed = None if padding is None else padding[:, None, None]
        first = pieces.dense(
            queries[:, :seeing], keys, values, allowed, dropped
        )
        return ops.concatenate([first, context[:, seeing:]], axis=1)

    @property
    def _rows_that_see_all(self):
        """The number of first rows that are not limited by the pattern."""
        numbers = [
            part.number
            for part in self.pattern.patterns
            if isinstance(part, patterns.GlobalTokens)
        ]
        return max(numbers, default=0)

    def _of_one(self, queries, keys, values, mask):
        """Of one query in a cache: reads what its pattern allows."""
        length = ops.shape(keys)[1]
        row = ops.convert_to_tensor(mask.start, "int32")
        columns, counts = [], []
        for part in self.pattern.patterns:
            own = ops.cast(part.columns(row, length), "int32")
            allowed = part.allows(row, own) & (own >= 0) & (own <= row)
            for earlier in self.pattern.patterns[: len(columns)]:
                allowed = allowed & ~earlier.allows(row, own)
            columns.append(own)
            counts.append(allowed)
        at = ops.clip(ops.concatenate(columns), 0, length - 1)
        allowed = ops.concatenate(counts)[None, None, None]
        if mask.keys is not None:
            real = ops.take(ops.cast(mask.keys, "int32"), at, axis=1) > 0
            allowed = ops.logical_and(allowed, real[:, None, None])
        keys, values = ops.take(keys, at, axis=1), ops.take(values, at, axis=1)
        return pieces.dense(queries, keys, values, allowed)

    def _allowed(self, length, source, mask):
        """Which of all pairs count: boolean `(B or 1, 1, T, S)`."""
        rows = (ops.arange(length) + mask.start)[:, None]
        columns = ops.arange(source)[None]
        own = self.pattern.allows(rows, columns)[None, None]
        mask = mask._replace(pairs=masks.both(mask.pairs, own))
        return mask.written_out(length, source).materialize()

    def attend_multiplications(
        self, query_length: int, source_length: int
    ) -> dict[str, int]:
        """Returns how many multiplications `attend` takes for a sample.

        Of the pairs that the pattern allows, as if not causal: blocks that
        hold them may hold others too.

        Args:
            query_length: Integer, `T`.
            source_length: Integer, the same.

        Returns:
            Dictionary: `"logits"`, `"softmax"` and `"mixing"`.

        Raises:
            ValueError: If the sequence is longer than `max_length`.
        """
        self._check_length(query_length)
        pairs = self.num_heads * self.pattern.pairs(query_length)
        return of_pairs(pairs, self.key_dim, self.value_dim)

    def _check_lengths(self, query_length, source_length):
        self._check_length(source_length)

    def _check_length(self, length):
        if self.max_length is None or not isinstance(length, int):
            return
        if length > self.max_length:
            raise ValueError(
                f"Sequence of {length} tokens is longer than "
                f"max_length={self.max_length}. Build the layer with a larger "
                f"max_length, or shorten the input. Received: {length} tokens"
            )


@keras.saving.register_keras_serializable(package="keras_synth")
class SparseAttention(PatternMixer):
    """Attention among the pairs that a pattern allows.

    `softmax(q . k / sqrt(k), among the pairs allowed) v` per head, the softmax
    in float32. Queries and keys are compared block by block, so that no tensor
    `(B, H, T, S)` is made: time and memory are those of the pairs allowed, but
    for a factor. A union is one softmax: pairs that several of its patterns
    allow count for one.

    What a pattern allows depends on positions alone, never on the length of a
    batch: padding changes nothing. A causal mask takes the later ones of the
    pairs away; rows of global tokens, too, then see the past only.

    When decoding, the cache holds all keys and values. A step of one token
    reads of it what its pattern allows; several tokens that go on from others
    are compared with the whole cache.

    Args:
        num_heads: Integer, `H`.
        key_dim: Integer, features per head of queries and keys, `k`.
        pattern: `Pattern` of `keras_synth.mixers.patterns`, such as
            `Window(16) | GlobalTokens(1)`, or a config of one.
        max_length: Optional integer, the longest sequence in tokens; random
            blocks need it. A longer input is refused.
        **kwargs: Arguments of `MultiHeadMixer`.

    Call arguments: see `SelfMixer`.

    Returns:
        Tensor `(B, T, d)`.

    Raises:
        ValueError: If the pattern is none, or reaches beyond `max_length`.

    Example:

    >>> from keras_synth.mixers.patterns import GlobalTokens, Window
    >>> mixer = keras_synth.mixers.SparseAttention(
    ...     num_heads=4, key_dim=16, pattern=Window(8) | GlobalTokens(1))
    >>> mixer(keras.random.normal((2, 100, 64))).shape
    (2, 100, 64)

    References:
        - [Child et al., 2019](https://arxiv.org/abs/1904.10509)
        - [Beltagy et al., 2020](https://arxiv.org/abs/2004.05150)
        - [Zaheer et al., 2020](https://arxiv.org/abs/2007.14062)
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        pattern: Identifier,
        max_length: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_heads, key_dim, **kwargs)
        self._set_pattern(pattern, max_length)


@keras.saving.register_keras_serializable(package="keras_synth")
class StridedAttention(PatternMixer):
    """Neighbours and every so many-th token: Sparse Transformer ("strided").

    Token `i` sees token `j` where `|i - j| <= window` or `(i - j) % stride ==
    0`. The paper gives the two to two groups of heads or has them merged, as
    here, in each head; it has the causal form alone. With a stride of about
    `sqrt(T)` time and memory are O(T sqrt(T)); otherwise O(T (window + T /
    stride)).

    Causal form, decoding and weights are those of `SparseAttention`.

    Args:
        num_heads: Integer, `H`.
        key_dim: Integer, features per head of queries and keys, `k`.
        stride: Integer, in tokens.
        window: Integer, tokens seen on each side; `stride` by default.
        max_length: Optional integer, the longest sequence in tokens.
        **kwargs: Arguments of `MultiHeadMixer`.

    Call arguments: see `SelfMixer`.

    Returns:
        Tensor `(B, T, d)`.

    Raises:
        ValueError: If a number is no positive integer, or beyond `max_length`.

    Example:

    >>> mixer = keras_synth.mixers.StridedAttention(4, 16, stride=10)
    >>> mixer(keras.random.normal((2, 100, 64))).shape
    (2, 100, 64)

    References:
        - [Child et al., 2019](https://arxiv.org/abs/1904.10509)
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        stride: int,
        window: int | None = None,
        max_length: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_heads, key_dim, **kwargs)
        self.stride = check_positive("stride", stride)
        window = self.stride if window is None else window
        self.window = check_positive("window", window)
        self._set_pattern(
            patterns.Window(self.window) | patterns.Stride(self.stride),
            max_length,
        )

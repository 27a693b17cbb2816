"""Attention among the pairs of a sparse pattern."""

from typing import Any

import keras

from keras_synth._backend.checks import check_optional, check_positive
from keras_synth.attention import patterns
from keras_synth.mixers.pair_mixer import PairMixer
from keras_synth.mixers.position_limits import PositionLimits
from keras_synth.types import Identifier, Shape


class PatternMixer(PairMixer):
    """What sparse mixers share; `__init__` of a subclass sets the pattern."""

    supports_cross_attention = False
    weight_axes = PositionLimits.weight_axes

    def _set_pattern(self, pattern, max_length=None):
        self.max_length = check_optional("max_length", max_length)
        self._limits = PositionLimits(pattern, max_length)

    @property
    def pattern(self) -> patterns.Pattern:
        """The `Pattern`."""
        return self._limits.pattern

    def build(
        self,
        query_shape: Shape,
        value_shape: Shape | None = None,
        key_shape: Shape | None = None,
    ) -> None:
        super().build(query_shape, value_shape, key_shape)
        self._limits.build(self)

    def _limited(self, mask):
        return mask._replace(pattern=self._limits.in_force)

    def _check_cache(self, query, cache, start, use_causal_mask):
        if start is None:
            raise ValueError(
                f"{type(self).__name__} is for the tokens of one sequence: "
                "its cache needs a `start`. For cross-attention take a mixer "
                "that has it, such as SyntheticAttention. Received: start=None"
            )
        super()._check_cache(query, cache, start, use_causal_mask)
        self._check_length(cache.shape[1])

    def _check_lengths(self, query_length, source_length):
        self._limits.check_lengths(query_length, source_length)
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
        pattern: What `keras_synth.mixers.patterns.get` takes, such as
            `Window(16) | GlobalTokens(1)`, `"local(window=16)"` or a boolean
            array `(N, N)`.
        max_length: Optional integer, the longest sequence in tokens; random
            blocks need it. A longer input is refused.
        **kwargs: Arguments of `MultiHeadMixer`.

    Call arguments: see `MultiHeadMixer`, of one sequence.

    Returns:
        Tensor `(B, T, d)`; with `return_attention_scores` a tuple of it and
        the weights `(B, H, T, T)`.

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

    Call arguments: see `MultiHeadMixer`, of one sequence.

    Returns:
        Tensor `(B, T, d)`; with `return_attention_scores` a tuple of it and
        the weights `(B, H, T, T)`.

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

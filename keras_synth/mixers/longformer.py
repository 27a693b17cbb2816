"""Longformer: a window and global tokens."""

from typing import Any

import keras
from keras import ops

from keras_synth._backend.checks import check_optional, check_positive
from keras_synth._backend.tensors import indices, take
from keras_synth.attention import masks
from keras_synth.attention.patterns import FirstTokens, Pattern, Window
from keras_synth.attention.projections import axes_of_heads
from keras_synth.mixers.multi_head import MultiHeadMixer


@keras.saving.register_keras_serializable(package="keras_synth")
class LongformerAttention(MultiHeadMixer):
    """A window, and global tokens with their own projections ("longformer").

    Token `i` sees token `j` if `|i - j| <= window` or `j < global_tokens`. The
    first `global_tokens` see all tokens, with the projections `global_query`,
    `global_key` and `global_value`. Time and memory are
    O(T (window + global_tokens)).

    In the original, the task chooses the global tokens of each text, and the
    causal form does not have them. Here they are the first tokens; with a
    causal mask they see only earlier tokens. The original's `attention_window`
    is `2 window`. A cache is a dictionary of keys and values
    `(B, S, H, k + v)`, for all `tokens` and for `global_tokens`.

    Args:
        num_heads: Integer, `H`.
        key_dim: Integer, features per head of queries and keys, `k`.
        window: Integer, neighbours on each side, in tokens.
        global_tokens: Integer, number of first tokens that are global.
        max_length: Optional integer, the longest sequence in tokens.
        **kwargs: Arguments of `MultiHeadMixer`.

    Call arguments and output: see `SelfMixer`.

    Raises:
        ValueError: If a number is not a positive integer, or exceeds
            `max_length`.

    Example:

    >>> mixer = keras_synth.mixers.LongformerAttention(4, 16, window=8)
    >>> mixer(keras.random.normal((2, 100, 64))).shape
    (2, 100, 64)

    References:
        - [Beltagy et al., 2020](https://arxiv.org/abs/2004.05150)
    """

    # Attention masks, biases and scores are not supported, because global rows
    # have other projections.
    supports_cross_attention = False
    _decodes_in_order = True
    weight_axes = axes_of_heads("global_query", "global_key", "global_value")

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        window: int,
        global_tokens: int = 1,
        max_length: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_heads, key_dim, **kwargs)
        self.window = check_positive("window", window)
        self.global_tokens = check_positive("global_tokens", global_tokens)
        self.max_length = check_optional("max_length", max_length)
        pattern = Window(self.window) | FirstTokens(self.global_tokens)
        self.pattern: Pattern = pattern.fitted(self.max_length)
        self.global_query: keras.Layer = None
        self.global_key: keras.Layer = None
        self.global_value: keras.Layer = None

    def _build_projections(self, query_shape, value_shape, key_shape):
        super()._build_projections(query_shape, value_shape, key_shape)
        self.global_query, self.global_key, self.global_value = (
            self._split_heads(query_shape, width, f"global_{name}")
            for name, width in (
                ("query", self.key_dim),
                ("key", self.key_dim),
                ("value", self.value_dim),
            )
        )

    def attend(self, queries, keys, values, mask, *, training=None):
        mask = mask._replace(pattern=self.pattern)
        return self._softmax_attention(queries, keys, values, mask, training)

    def _context(self, call):
        context = super()._context(call)
        number, mask = self.global_tokens, call.mask
        real, source = mask.keys, call.value
        if mask.causal:
            source, real = source[:, :number], _first(real, number)
        first = self._softmax_attention(
            self.global_query(call.query[:, :number]),
            self.global_key(source),
            self.global_value(source),
            masks.AttentionMask(keys=real, causal=mask.causal),
            call.training,
        )
        first = masks.zero_padding(first, _first(mask.queries, number))
        return ops.concatenate([first, context[:, number:]], axis=1)

    # --- decoding -------------------------------------------------------------

    def _cache_shapes(self, start=0):
        length, *others = super()._cache_shapes()
        return {
            "global_tokens": (self.global_tokens, *others),
            "tokens": (length, *others),
        }

    def _written(self, cache, query, start):
        return {
            "tokens": super()._written(cache["tokens"], query, start),
            "global_tokens": self._with_first(
                cache["global_tokens"], query, start
            ),
        }

    def _cached_context(self, call, cache):
        query, mask = call.query, call.mask
        context = super()._cached_context(call, cache["tokens"])
        # The cache of tokens may have room for fewer.
        places = ops.shape(cache["tokens"])[1]
        first = self._softmax_attention(
            self.global_query(query),
            *self._keys_and_values(cache["global_tokens"][:, :places]),
            masks.AttentionMask(
                keys=_first(mask.keys, self.global_tokens),
                causal=True,
                start=mask.start,
            ),
        )
        at = indices(ops.shape(query)[1]) + mask.start
        is_global = (at < self.global_tokens)[None, :, None, None]
        return ops.where(is_global, ops.cast(first, context.dtype), context)

    def _with_first(self, cache, query, start):
        """Keys and values of global tokens, including those in the query."""
        new = [self.global_key(query), self.global_value(query)]
        new = ops.cast(ops.concatenate(new, axis=-1), cache.dtype)
        length = ops.shape(query)[1]
        # Among the new tokens.
        at = indices(self.global_tokens) - start
        there = (at >= 0) & (at < length)
        new = take(new, ops.clip(at, 0, length - 1), 1)
        return ops.where(there[None, :, None, None], new, cache)


def _first(mask, number):
    return None if mask is None else mask[:, :number]

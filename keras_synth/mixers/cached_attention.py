"""`CachedAttentionMixin`: attention to the keys and values of a cache."""

from typing import Any

import keras
from keras import ops

from keras_synth.attention import masks
from keras_synth.attention.axes import AttentionAxes
from keras_synth.attention.masks import AttentionMask
from keras_synth.mixers import attention_checks
from keras_synth.types import Size, Tensor


class CachedAttentionMixin:
    """Decoding, token by token, with the weights of `SyntheticAttention`."""

    @property
    def cache_dim(self) -> Any:
        """Features per head that decoding must remember of a source token.

        An integer; with groups of heads a tuple of one for each group.
        """
        dims = tuple(width for _, width in self._groups.cache_sizes)
        return dims if len(dims) > 1 else dims[0]

    def make_cache(self, batch_size: Size, length: int) -> Tensor:
        """Returns an empty cache for `length` tokens.

        Args:
            batch_size: Integer or scalar integer tensor, `B`.
            length: Integer, the most tokens to decode.

        Returns:
            Tensor `(B, length, H, cache_dim)`; with groups of heads a tuple of
            one for each group, with its heads.
        """
        return self._groups.make_cache(batch_size, length, self.compute_dtype)

    def remember(self, source: Tensor) -> Tensor:
        """Returns the keys and values of a source, for a cache.

        Args:
            source: Tensor `(B, S, d)`.

        Returns:
            Tensor `(B, S, H, cache_dim)`, keys first, values after; values
            alone if the synthesizer compares no pairs. With groups of heads a
            tuple of one for each group, with its heads.
        """
        projected = self._groups.project(source, self.value(source))
        return self._groups.to_cache(*projected)

    def call_with_cache(
        self,
        query: Tensor,
        cache: Tensor,
        start: Size | None = None,
        value_mask: Tensor | None = None,
        position: Size = 0,
        attention_mask: Tensor | None = None,
        use_causal_mask: bool = True,
        attention_bias: Tensor | None = None,
    ) -> Tensor:
        """Attends to the keys and values of a cache.

        Args:
            query: Tensor `(B, T, d)`, the tokens at positions `start` to
                `start + T - 1`.
            cache: Tensor `(B, S, H, cache_dim)`, as `make_cache` or `remember`
                returns it; with groups of heads a tuple.
            start: Integer or scalar integer tensor. Keys and values of
                the query are written to these positions of the cache, and
                each token attends to those up to its own. `None` leaves the
                cache as it is, and all of it is attended to: cross-attention.
            value_mask: Boolean `(B, S)`, True means "may attend". Or `(B, T)`,
                for the query's tokens alone: those before count as real.
            position: Integer or scalar integer tensor, position of the first
                token where `start` is `None`.
            attention_mask: Boolean `(B, T, S)` or `(B, 1 or H, T, S)`.
            use_causal_mask: Whether, where `start` is given, tokens attend to
                positions up to their own only; otherwise to all up to the
                query's last.
            attention_bias: Float tensor that broadcasts to `(B, H, T, S)`,
                added to the logits.

        Returns:
            `(output, cache)`: the output `(B, T, d)` as of `call`, and the
            cache with the query in it.

        Raises:
            ValueError: If the cache has another shape, or the tokens do not
                fit into it.
        """
        groups = self._groups
        attention_checks.check_cache(query, cache, start, groups.cache_sizes)
        length = groups.length(cache)
        flat = AttentionAxes(None, len(query.shape)).flatten_pairs
        sizes = query, keras.tree.flatten(cache)[0], self.num_heads
        pairs = flat("attention_mask", attention_mask, *sizes)
        bias = flat("attention_bias", attention_bias, *sizes)
        lengths = ops.shape(query)[1], length
        if start is not None:
            value_mask = masks.cached_padding(value_mask, query, length, start)
            cache = self._written(cache, query, start)
            position = start
            if not use_causal_mask:
                pairs = masks.all_of(pairs, masks.cached(*lengths, start))
        masked = AttentionMask(
            keys=masks.as_boolean(value_mask),
            pairs=masks.as_boolean(pairs),
            causal=start is not None and use_causal_mask,
            window=self.sliding_window,
            start=position,
        )
        if start is None:
            self._positions.check_is_none()
        masked = self._positions.limited(masked, *lengths)
        context = groups.attend(
            query,
            *groups.from_cache(cache),
            masked,
            bias,
            position,
            flash_attention=self.flash_attention,
            normalizer=self.normalizer,
        )
        return self.attention_output(self._gated(context, query)), cache

    def _written(self, cache, query, start):
        """The cache with what must be remembered of the query in it."""
        return keras.tree.map_structure(
            lambda old, new: ops.slice_update(
                old, [0, start, 0, 0], ops.cast(new, old.dtype)
            ),
            cache,
            self.remember(query),
        )

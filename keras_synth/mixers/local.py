"""Attention to neighbours."""

from typing import Any

import keras
from keras import ops

from keras_synth import synthesizers
from keras_synth._backend.checks import check_positive
from keras_synth.attention import masks
from keras_synth.attention.masks import AttentionMask
from keras_synth.attention.patterns import Window
from keras_synth.attention.positions import least
from keras_synth.attention.projections import Projections
from keras_synth.mixers.synthetic_attention import SyntheticAttention
from keras_synth.synthesizers import DotProductSynthesizer
from keras_synth.types import Identifier, Size, Tensor


@keras.saving.register_keras_serializable(package="keras_synth")
class LocalAttention(SyntheticAttention):
    """Attention to the tokens up to `window` away ("local").

    Token `i` sees token `j` where `|i - j| <= window`; under a causal mask
    where `0 <= i - j <= window`. That is `SyntheticAttention` with
    `pattern="local(window=...)"`, for one sequence. By default it compares
    tokens, with the weights of `keras.layers.MultiHeadAttention` in their
    order; any other synthesizer may give the logits.

    Time and memory are O(T window), unless scores are returned: then the
    window is a mask of all pairs, which an attention mask or bias is by itself.
    A table such as R's has as many numbers as before, of which few are used.

    When decoding, dot products and additive logits, but no sums with them,
    remember the last `window` real tokens: keys and values
    `(B, window, H, k + v)` with their positions `(B, window)`. Such a state
    must be shown each token once (`overwrites_cache` is False). Tokens that
    `value_mask` forbids do not enter it. Attention masks and biases of a cache
    are refused. Other synthesizers have the cache of `SyntheticAttention`.

    Args:
        num_heads: Integer, `H`.
        key_dim: Integer, features per head of queries and keys, `k`.
        window: Integer, how far a token sees to each side, in tokens.
        synthesizer: What makes the logits, as for `SyntheticAttention`.
        max_length: Optional integer, the longest sequence in tokens;
            length-bound synthesizers need it.
        seed: Optional integer, seed of dropout and, with a synthesizer given
            by name, of initial values.
        **kwargs: Arguments of `SyntheticAttention`.

    Call arguments: those of `SyntheticAttention`, of one sequence.

    Returns:
        Tensor `(B, T, d)`; with `return_attention_scores` a tuple of it and
        the weights `(B, H, T, T)`.

    Raises:
        ValueError: If the window is no positive integer, or beyond
            `max_length`.

    Example:

    >>> mixer = keras_synth.mixers.LocalAttention(4, 16, window=8)
    >>> mixer(keras.random.normal((2, 100, 64))).shape
    (2, 100, 64)
    >>> mixer = keras_synth.mixers.get(
    ...     'local(window=8, synthesizer="R + V")', 4, 16, max_length=100)
    >>> mixer(keras.random.normal((2, 100, 64))).shape
    (2, 100, 64)

    References:
        - [Parmar et al., 2018](https://arxiv.org/abs/1802.05751)
        - [Beltagy et al., 2020](https://arxiv.org/abs/2004.05150)
    """

    supports_cross_attention = False

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        window: int,
        synthesizer: Identifier = "dot_product",
        max_length: int | None = None,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        window = check_positive("window", window)
        if max_length is not None:
            max_length = check_positive("max_length", max_length)
        if isinstance(synthesizer, str) and seed is not None:
            shared = ("dtype", *Projections.defaults)
            synthesizer = synthesizers.get(
                synthesizer,
                num_heads=num_heads,
                key_dim=key_dim,
                max_length=max_length,
                use_bias=kwargs.get("use_bias", True),
                defaults={k: v for k, v in kwargs.items() if k in shared},
                seed=seed,
            )
        super().__init__(
            num_heads,
            key_dim,
            synthesizer=synthesizer,
            max_length=max_length,
            pattern=Window(window),
            seed=seed,
            **kwargs,
        )
        self.window = window
        self._compares = isinstance(self.synthesizer, DotProductSynthesizer)
        self.overwrites_cache = not self._compares

    def folded_config(
        self, max_length: int | None = None, softmax: bool = True
    ) -> dict[str, Any]:
        config = super().folded_config(max_length, softmax)
        # No sequence is longer, and no window may be.
        length = least(self.max_length, max_length)
        return {
            **config,
            "max_length": length,
            "window": least(self.window, length),
        }

    # --- decoding -------------------------------------------------------------

    def make_cache(self, batch_size: Size, length: int) -> Tensor:
        """Returns an empty cache.

        Args:
            batch_size: Integer or scalar integer tensor, `B`.
            length: Integer, the most tokens to decode.

        Returns:
            With dot products or additive logits a dictionary of `tokens`
            `(B, window, H, k + v)` and `positions` `(B, window)`, -1 where
            there is no token; else that of `SyntheticAttention`.
        """
        if not self._compares:
            return super().make_cache(batch_size, length)
        return {
            "tokens": super().make_cache(batch_size, self.window),
            "positions": ops.full((batch_size, self.window), -1, "int32"),
        }

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
        if not self._compares or start is None:
            return super().call_with_cache(
                query,
                cache,
                start,
                value_mask,
                position,
                attention_mask,
                use_causal_mask,
                attention_bias,
            )
        self._check_memory(cache, attention_mask, attention_bias)
        query = ops.convert_to_tensor(query)
        real = masks.as_boolean(masks.present_padding(value_mask, query, start))
        query = masks.zero_nonfinite_padding(query, real)
        tokens = ops.cast(self.remember(query), cache["tokens"].dtype)
        tokens = masks.zero_padding(tokens, real)
        here = ops.arange(ops.shape(query)[1])[None] + start  # (1, T)
        positions = ops.broadcast_to(here, ops.shape(query)[:2])
        if real is not None:
            positions = ops.where(real, positions, -1)
        memory = {
            "tokens": ops.concatenate([cache["tokens"], tokens], axis=1),
            "positions": ops.concatenate(
                [cache["positions"], ops.cast(positions, "int32")], axis=1
            ),
        }
        if isinstance(start, int) and start == 0:
            held = tokens
            masked = self._mask_of_call(keys=real, causal=use_causal_mask)
        else:
            held, there = memory["tokens"], memory["positions"]
            masked = self._among(there, here, use_causal_mask)
        context = self._cached_context(query, held, masked, None)
        context = ops.cast(context, self.compute_dtype)
        return self.attention_output(context), self._latest(memory)

    def _among(self, positions, here, causal):
        """Which of the tokens at some positions `(B, n)` are seen."""
        i, j = here[:, :, None], positions[:, None]  # (B, T, n)
        allowed = (j >= 0) & self.pattern.allows(i, j)
        if causal:
            allowed = allowed & (j <= i)
        return AttentionMask(pairs=allowed[:, None])

    def _latest(self, memory):
        """The cache after all tokens: the last of those that are real."""
        positions, at = ops.top_k(memory["positions"], self.window)
        at = ops.cast(at, "int32")[:, :, None, None]
        tokens = ops.take_along_axis(memory["tokens"], at, axis=1)
        return {"tokens": tokens, "positions": positions}

    def _check_memory(self, cache, attention_mask, attention_bias):
        shapes = {}
        if isinstance(cache, dict):
            shapes = {name: tuple(x.shape[1:]) for name, x in cache.items()}
        (size,) = self._cache_sizes
        expected = {
            "tokens": (self.window, *size),
            "positions": (self.window,),
        }
        if shapes != expected:
            raise ValueError(
                "The cache must be this layer's, as its `make_cache` makes it: "
                f"a dictionary of tensors (batch, ...) with {expected}. "
                f"Received: {shapes or cache}"
            )
        for name, x in (
            ("attention_mask", attention_mask),
            ("attention_bias", attention_bias),
        ):
            if x is not None:
                raise ValueError(
                    "A cache of the last tokens has no places that "
                    f"`{name}` could refer to. Leave it out, or call the layer "
                    f"with whole sequences. Received: {name}.shape="
                    f"{tuple(x.shape)}"
                )

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        if config["sliding_window"] is None:
            del config["sliding_window"]
        del config["pattern"]
        return {**config, "window": self.window}

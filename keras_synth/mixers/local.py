"""Attention to neighbours."""

from typing import Any

import keras

from keras_synth import synthesizers
from keras_synth._backend.checks import check_optional, check_positive
from keras_synth.attention.patterns import Window
from keras_synth.attention.projections import Projections
from keras_synth.mixers.synthetic_attention import SyntheticAttention
from keras_synth.types import Identifier


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

    Decoding is that of `SyntheticAttention` with this pattern.

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
        max_length = check_optional("max_length", max_length)
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

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        if config["sliding_window"] is None:
            del config["sliding_window"]
        del config["pattern"]
        return {**config, "window": self.window}

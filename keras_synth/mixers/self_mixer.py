"""The base class of mixers of one sequence without heads."""

from typing import Any

from keras_synth.attention import masks
from keras_synth.mixers.call import checked_axes
from keras_synth.mixers.mixer import Mixer
from keras_synth.types import Shape, Tensor


class SelfMixer(Mixer):
    """Base class of mixers of one sequence, without logits.

    A subclass implements `mix`. For a causal form it sets
    `supports_causal_mask` and implements `make_cache` and `call_with_cache`.

    Call arguments:
        query: Tensor `(B, T, d)`; value and key must be the same tensor.
        query_mask: Boolean `(B, T)`; the output is zero if it is False.
        value_mask: Boolean `(B, T)`; tokens have no influence if it is False.
            `key_mask` is the same.
        mask: Boolean `(B, T)`, both `query_mask` and `value_mask`.
        training: Whether to apply dropout.
        use_causal_mask: Whether no token sees a later one; a ValueError without
            a causal form.

    Returns:
        Tensor `(B, T, d)`.

    Example:

    >>> @keras.saving.register_keras_serializable()
    ... class Shift(keras_synth.mixers.SelfMixer):
    ...     supports_causal_mask = True
    ...
    ...     def mix(self, x, padding_mask=None, causal=False, training=None):
    ...         if padding_mask is not None:
    ...             real = keras.ops.expand_dims(padding_mask, -1)
    ...             x = keras.ops.where(real, x, keras.ops.zeros_like(x))
    ...         return keras.ops.pad(x[:, :-1], ((0, 0), (1, 0), (0, 0)))
    >>> block = keras_synth.layers.SynthesizerEncoder(
    ...     intermediate_dim=64, num_heads=4, synthesizer=Shift())
    >>> block(keras.random.normal((2, 10, 32))).shape
    (2, 10, 32)
    """

    supports_causal_mask = False
    supports_cross_attention = False
    supports_attention_mask = False
    supports_attention_bias = False
    supports_attention_scores = False
    _features: int | None = None  # set by `build`

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def build(
        self,
        query_shape: Shape,
        value_shape: Shape | None = None,
        key_shape: Shape | None = None,
    ) -> None:
        checked_axes(None, 3, *[query_shape] * 3)
        self._features = query_shape[-1]

    def mix(
        self,
        x: Tensor,
        padding_mask: Tensor | None = None,
        causal: bool = False,
        training: bool | None = None,
    ) -> Tensor:
        """Mixes tokens.

        Args:
            x: Tensor `(B, T, d)`; padding can contain inf and NaN.
            padding_mask: Boolean `(B, T)`, False for padding, or `None`.
            causal: Whether no token sees a later one.
            training: Whether to apply dropout.

        Returns:
            Tensor `(B, T, d)`.
        """
        raise NotImplementedError

    def _call_flat(self, call):
        mask = call.mask
        output = self.mix(
            call.query, mask.keys, causal=mask.causal, training=call.training
        )
        return masks.zero_padding(output, mask.queries)

    def make_cache(self, batch_size, length):
        self._cache_shapes()  # raises without a cache
        self._check_supported({"query": None, "use_causal_mask": True})
        self._check_lengths(length, length)
        self._check_built()
        return super().make_cache(batch_size, length)

    def compute_output_shape(
        self, query_shape, value_shape=None, key_shape=None
    ):
        self._check_lengths(query_shape[1], query_shape[1])
        return query_shape

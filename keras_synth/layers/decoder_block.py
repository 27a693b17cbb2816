"""`SynthesizerDecoder`: self-attention, cross-attention, feed-forward."""

from typing import Any

import keras

from keras_synth._backend.checks import check_optional
from keras_synth._backend.policies import inherit_settings
from keras_synth.attention import masks
from keras_synth.attention.positions import as_position
from keras_synth.layers.block import SynthesizerBlock
from keras_synth.layers.templates import template
from keras_synth.types import Identifier, Shape, Size, Tensor

# Arguments that add outputs.
_OUTPUTS = (
    "self_attention_cache",
    "cross_attention_cache",
    "return_attention_scores",
)


@keras.saving.register_keras_serializable(package="keras_synth")
class SynthesizerDecoder(SynthesizerBlock):
    """A Transformer decoder block around any synthesizer or mixer.

    It has the call of `keras_hub.layers.TransformerDecoder`, with another
    layout of caches. Called with one sequence it is a decoder-only block;
    called with two it has cross-attention.

    Args:
        intermediate_dim: Integer, width of the feed-forward network.
        num_heads: Integer, `H`.
        synthesizer: Synthesizer or mixer of the self-attention, as for
            `SynthesizerEncoder`. A mixer must have a causal form.
        max_length: Integer, longest decoder sequence in tokens. Required for
            names of length-bound synthesizers.
        cross_synthesizer: Synthesizer or mixer of the cross-attention. (The
            paper found no replacement for the dot product here.)
        cross_num_heads: Integer, heads of the cross-attention, by default
            `num_heads`.
        cross_key_dim: Integer, features per head of the cross-attention; by
            default those of the self-attention, or `d // cross_num_heads` if
            the number of heads differs.
        max_source_length: Integer, longest encoder sequence in tokens, for
            length-bound cross-synthesizers; needed if it exceeds `max_length`.
        **kwargs: Further arguments of `SynthesizerEncoder`, and keyword
            arguments of `keras.layers.Layer`.

    Call arguments:
        decoder_sequence: Tensor `(B, T, d)`.
        encoder_sequence: Optional tensor `(B, S, e)`. Pass it in all calls or
            in none; a filled cross-attention cache can replace it.
        decoder_padding_mask: Boolean `(B, T)`, True for real tokens, or with a
            cache `(B, max)` for all of its tokens.
        decoder_attention_mask: Boolean `(B, T, T)`, True means "may attend";
            with a cache `(B, T, max)`.
        encoder_padding_mask: Boolean `(B, S)`.
        encoder_attention_mask: Boolean `(B, T, S)`.
        self_attention_cache: Cache of the tokens decoded so far, tensors with
            the batch first; `make_caches` makes an empty one. With it there is
            no dropout.
        self_attention_cache_update_index: Integer or scalar integer tensor,
            position of the first token of `decoder_sequence`.
        cross_attention_cache: The same for the encoder's sequence.
        cross_attention_cache_update_index: 0 to compute the cache from
            `encoder_sequence`, `None` to use it unchanged.
        use_causal_mask: Whether token i attends only to tokens `j <= i`.
        training: Whether to apply dropout.
        return_attention_scores: Whether to also return the attention weights.
            Not supported with caches.
        decoder_attention_bias: Float tensor that broadcasts to `(B, H, T, T)`,
            or with a cache to `(B, H, T, max)`; added to the logits.
        encoder_attention_bias: Float tensor that broadcasts to `(B, H, T, S)`,
            added to the logits of the cross-attention.

    Returns:
        Tensor `(B, T, d)`. With caches a tuple of it and one or both caches.
        With `return_attention_scores` a tuple of it, the weights `(B, H, T, T)`
        of the self-attention and, if it exists, `(B, H, T, S)` of the
        cross-attention.

    Raises:
        ValueError: If sequences, caches or masks do not fit the layer, or its
            mixers do not support an argument.

    Example:

    >>> decoder = keras_synth.layers.SynthesizerDecoder(
    ...     intermediate_dim=256, num_heads=4, synthesizer="R", max_length=128)
    >>> target = keras.random.normal((2, 90, 64))
    >>> source = keras.random.normal((2, 100, 64))
    >>> decoder(target, source).shape
    (2, 90, 64)
    """

    needs = ("supports_causal_mask",)
    autocast: bool

    def __init__(
        self,
        intermediate_dim: int,
        num_heads: int,
        *,
        cross_synthesizer: Identifier = "dot_product",
        cross_num_heads: int | None = None,
        cross_key_dim: int | None = None,
        max_source_length: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(intermediate_dim, num_heads, **kwargs)
        # Keras would cast every argument, which would round a state. This layer
        # casts the others and keeps their masks.
        self._identity = keras.layers.Identity(
            dtype=self.dtype_policy, autocast=self.autocast, name="cast"
        )
        self.autocast = False
        self.max_source_length = check_optional(
            "max_source_length", max_source_length
        )
        self.cross_num_heads = check_optional(
            "cross_num_heads", cross_num_heads
        )
        self.cross_key_dim = check_optional("cross_key_dim", cross_key_dim)
        self.cross_synthesizer = template(
            cross_synthesizer,
            self.cross_num_heads or self.num_heads,
            self._source_length(cross_synthesizer),
            ("supports_cross_attention",),
        )

    def _source_length(self, cross_synthesizer):
        """The `max_length` of a cross-synthesizer; only for names."""
        if not isinstance(cross_synthesizer, str):
            return None
        return max(self.max_length or 0, self.max_source_length or 0) or None

    def build(
        self,
        decoder_sequence_shape: Shape,
        encoder_sequence_shape: Shape | None = None,
    ) -> None:
        shape = decoder_sequence_shape
        self._build_self_attention(shape)
        self.cross_attention = None
        if encoder_sequence_shape is not None:
            key_dim, heads = self.cross_key_dim, self.cross_num_heads
            if key_dim is None and heads is None:
                key_dim = self.key_dim
            self.cross_attention = self._mixer(
                "cross_attention",
                self.cross_synthesizer,
                heads or self.num_heads,
                key_dim,
                self._source_length(self.cross_synthesizer),
                ("supports_cross_attention",),
                shape,
                encoder_sequence_shape,
            )
            self.cross_residual = self._residual(
                shape, "cross_attention_residual"
            )
        self.feed_forward = self._feed_forward(shape)
        self.feed_forward_residual = self._residual(
            shape, "feed_forward_residual"
        )
        inherit_settings(self)
        self.built = True

    def call(
        self,
        decoder_sequence: Tensor,
        encoder_sequence: Tensor | None = None,
        decoder_padding_mask: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_padding_mask: Tensor | None = None,
        encoder_attention_mask: Tensor | None = None,
        self_attention_cache: Tensor | None = None,
        self_attention_cache_update_index: Size | None = None,
        cross_attention_cache: Tensor | None = None,
        cross_attention_cache_update_index: Size | None = None,
        use_causal_mask: bool = True,
        training: bool | None = None,
        return_attention_scores: bool = False,
        decoder_attention_bias: Tensor | None = None,
        encoder_attention_bias: Tensor | None = None,
    ) -> Tensor:
        own_cache, cross_cache = self_attention_cache, cross_attention_cache
        if self.attention.overwrites_cache:  # not a state that sums up the past
            own_cache = self._cast(own_cache)
        cross_cache = self._cast(cross_cache)
        self._check_call(
            encoder_sequence,
            own_cache,
            cross_cache,
            self_attention_cache_update_index,
            cross_attention_cache_update_index,
            return_attention_scores,
        )
        own = {
            "value_mask": masks.as_boolean(decoder_padding_mask),
            "attention_mask": decoder_attention_mask,
            "attention_bias": decoder_attention_bias,
            "use_causal_mask": use_causal_mask,
        }
        other = {
            "value_mask": masks.as_boolean(encoder_padding_mask),
            "attention_mask": encoder_attention_mask,
            "attention_bias": encoder_attention_bias,
        }
        x, source = self._cast((decoder_sequence, encoder_sequence))
        if own_cache is not None:
            return self._call_with_caches(
                x,
                source,
                own,
                other,
                own_cache,
                cross_cache,
                self_attention_cache_update_index,
                cross_attention_cache_update_index,
            )
        scores: list | None = [] if return_attention_scores else None
        shared = {"scores": scores, "training": training}
        x, _ = self._without_nonfinite(
            x, "decoder_padding_mask", own["value_mask"]
        )
        x = self._attend(
            self.attention, self.attention_residual, x, **own, **shared
        )
        if source is not None:
            x = self._attend(
                self.cross_attention,
                self.cross_residual,
                x,
                source,
                **other,
                **shared,
            )
        x = self._feed(x, training)
        return (x, *scores) if scores else x

    def _call_with_caches(
        self, x, source, own_masks, other_masks, own, cross, index, cross_index
    ):
        index = as_position(index)
        present = masks.present_padding(own_masks["value_mask"], x, index)
        x = masks.zero_nonfinite_padding(x, present)
        y, own = self.attention.call_with_cache(
            self.attention_residual.before(x), own, index, **own_masks
        )
        x = self.attention_residual.after(x, y)
        if cross is None:
            return self._feed(x), own
        if cross_index is not None:
            cross = self.cross_attention.remember(source)
        y, cross = self.cross_attention.call_with_cache(
            self.cross_residual.before(x), cross, position=index, **other_masks
        )
        x = self.cross_residual.after(x, y)
        return self._feed(x), own, cross

    def _cast(self, tensors):
        """Casts tensors, as Keras casts the arguments of other layers."""

        def cast(x):
            if x is None:
                return x
            dtype = keras.backend.standardize_dtype(x.dtype)
            return x if dtype == self.input_dtype else self._identity(x)

        return keras.tree.map_structure(cast, tensors)

    def make_caches(
        self, batch_size: int, length: int, source_length: int | None = None
    ) -> Tensor:
        """Returns empty caches for decoding.

        Args:
            batch_size: Integer or scalar integer tensor, `B`.
            length: Integer, the maximum number of tokens.
            source_length: Integer, `S`, for a decoder with cross-attention.

        Returns:
            `(self_attention_cache, cross_attention_cache)` from the mixers; the
            latter is `None` without cross-attention.
        """
        own = self.attention.make_cache(batch_size, length)
        if self.cross_attention is None:
            return own, None
        if source_length is None:
            raise ValueError(
                "A decoder with cross-attention needs the length of its "
                "source. Pass `source_length`. Received: source_length=None"
            )
        return own, self.cross_attention.make_cache(batch_size, source_length)

    def compute_output_shape(
        self,
        decoder_sequence_shape: Shape,
        encoder_sequence_shape: Shape | None = None,
    ) -> Shape:
        return decoder_sequence_shape

    def compute_output_spec(
        self,
        decoder_sequence: Tensor,
        encoder_sequence: Tensor | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        x, source = decoder_sequence, encoder_sequence
        if args or any(kwargs.get(name) is not None for name in _OUTPUTS):
            return self._traced_spec(x, source, *args, **kwargs)
        self._check_call(source, None, None, None, None, False)
        self._check_symbolic(self.attention, x, x, kwargs, "decoder_")
        if source is not None:
            of_both = self.cross_attention, x, source
            self._check_symbolic(*of_both, kwargs, "encoder_")
        return keras.KerasTensor(x.shape, self.compute_dtype)

    def _check_call(
        self, encoder_sequence, own, cross, index, cross_index, with_scores
    ):
        has_cross = self.cross_attention is not None
        remembered = cross is not None and cross_index is None
        if (encoder_sequence is not None) != has_cross and not remembered:
            built = "with" if has_cross else "without"
            raise ValueError(
                f"This decoder was built {built} cross-attention. Use the same "
                "number of sequences in each call. Received: "
                f"encoder_sequence of {type(encoder_sequence).__name__}"
            )
        if (cross is not None) != (own is not None and has_cross):
            raise ValueError(
                "A decoder with cross-attention needs both caches or none; "
                "without cross-attention it accepts only self_attention_cache. "
                "`make_caches` makes the right ones. Received: caches of "
                f"{type(own).__name__} and {type(cross).__name__}"
            )
        if own is not None and index is None:
            raise ValueError(
                "A self_attention_cache needs the position of the first token. "
                "Received: self_attention_cache_update_index=None"
            )
        if own is not None and with_scores:
            raise ValueError(
                "Attention scores are not available with caches. Call the "
                "layer with whole sequences. Received: "
                f"return_attention_scores={with_scores}"
            )

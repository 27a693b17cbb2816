"""`SynthesizerDecoder`: self-attention, cross-attention, feed-forward."""

import keras
from keras import ops

from keras_synth import masks
from keras_synth.checks import check_positive
from keras_synth.layers.block import SynthesizerBlock
from keras_synth.layers.templates import template
from keras_synth.policies import settle, with_policies


@keras.saving.register_keras_serializable(package="keras_synth")
class SynthesizerDecoder(SynthesizerBlock):
    """A Transformer decoder block around any synthesizer.

    Called like `keras_hub.layers.TransformerDecoder`; its caches have another
    layout. Called with one sequence it is a decoder-only block; called with
    two it has cross-attention.

    Args:
        intermediate_dim: Integer, width of the feed-forward network.
        num_heads: Integer, `H`. Heads have `d // H` features.
        synthesizer: Of the self-attention: a name such as `"R"` or
            `"random + dot_product"`, a `Synthesizer` without weights, or a
            config of one. The block makes its own from it, in the block's
            dtype.
        max_length: Integer, longest decoder sequence in tokens; names of
            length-bound synthesizers need it.
        cross_synthesizer: Of the cross-attention, given like `synthesizer`.
            The paper found no replacement of the dot product there.
        max_source_length: Integer, longest encoder sequence in tokens, where
            it is longer than `max_length`; names of length-bound
            cross-synthesizers need it, objects and configs know their own.
        dropout: Float, share of attention weights and of sub-layer outputs to
            drop in training.
        activation: Activation of the feed-forward network.
        layer_norm_epsilon: Float, epsilon of the layer normalisations.
        kernel_initializer: Initializer of all kernels.
        bias_initializer: Initializer of all biases.
        normalize_first: Whether sub-layers see normalised input (pre-norm,
            as GPT-2) or their output is normalised (post-norm, as BERT).
        attention_use_bias: Whether the projections of attention, those of a
            synthesizer given by name included, have biases.
        **kwargs: Keyword arguments of `keras.layers.Layer`.

    Call arguments:
        decoder_sequence: Tensor `(B, T, d)`.
        encoder_sequence: Optional tensor `(B, S, e)`. Give it always or never;
            a cross-attention cache that is filled takes its place.
        decoder_padding_mask: Boolean `(B, T)`, True for real tokens. With a
            cache also `(B, max)`, for all tokens that it remembers; a mask of
            the present tokens alone takes those before for real ones.
        decoder_attention_mask: Boolean `(B, T, T)`, True means "may attend";
            with a cache `(B, T, max)`.
        encoder_padding_mask: Boolean `(B, S)`.
        encoder_attention_mask: Boolean `(B, T, S)`.
        self_attention_cache: Tensor `(B, max, H, cache_dim)` that remembers
            the tokens decoded so far, `attention.cache_dim` features per head;
            `make_caches` makes an empty one. Nothing is dropped then, whatever
            `training` says.
        self_attention_cache_update_index: Integer or scalar integer tensor,
            position of the first token of `decoder_sequence`.
        cross_attention_cache: Tensor `(B, S, H, cache_dim)` that remembers
            the encoder's sequence, `cross_attention.cache_dim` features per
            head.
        cross_attention_cache_update_index: 0 to compute it from
            `encoder_sequence`, `None` to take it as it is.
        use_causal_mask: Whether no token sees a later one.
        training: Whether to apply dropout.
        return_attention_scores: Whether to return the attention weights too.
            Not with caches.

    Returns:
        Tensor `(B, T, d)`; with caches a tuple of it and one or both of them;
        with `return_attention_scores` a tuple of it, the weights
        `(B, H, T, T)` of the self-attention and, if there is one, those of
        the cross-attention, `(B, H, T, S)`.

    Raises:
        ValueError: If sequences, caches or masks do not fit the layer.

    Example:

    >>> decoder = keras_synth.layers.SynthesizerDecoder(
    ...     intermediate_dim=256, num_heads=4, synthesizer="R", max_length=128)
    >>> target = keras.random.normal((2, 90, 64))
    >>> source = keras.random.normal((2, 100, 64))
    >>> decoder(target, source).shape
    (2, 90, 64)
    """

    def __init__(
        self,
        intermediate_dim,
        num_heads,
        *,
        cross_synthesizer="dot_product",
        max_source_length=None,
        **kwargs,
    ):
        super().__init__(intermediate_dim, num_heads, **kwargs)
        if max_source_length is not None:
            check_positive("max_source_length", max_source_length)
        self.max_source_length = max_source_length
        self.cross_synthesizer = template(
            cross_synthesizer,
            self.num_heads,
            self._source_length(cross_synthesizer),
        )

    def _source_length(self, cross_synthesizer):
        """The `max_length` of a named cross-synthesizer; others know theirs."""
        if not isinstance(cross_synthesizer, str):
            return None
        return max(self.max_length or 0, self.max_source_length or 0) or None

    def build(self, decoder_sequence_shape, encoder_sequence_shape=None):
        shape = decoder_sequence_shape
        key_dim = self._key_dim(shape[-1])
        self.attention = self._self_attention(key_dim)
        self.attention.build(shape)
        self.attention_residual = self._residual(
            shape, "self_attention_residual"
        )
        self.cross_attention = None
        if encoder_sequence_shape is not None:
            self.cross_attention = self._attention(
                key_dim,
                self.cross_synthesizer,
                self._source_length(self.cross_synthesizer),
                "cross_attention",
            )
            self.cross_attention.build(shape, encoder_sequence_shape)
            self.cross_residual = self._residual(
                shape, "cross_attention_residual"
            )
        self.feed_forward = self._feed_forward(shape)
        self.feed_forward_residual = self._residual(
            shape, "feed_forward_residual"
        )
        settle(self)
        self.built = True

    def call(
        self,
        decoder_sequence,
        encoder_sequence=None,
        decoder_padding_mask=None,
        decoder_attention_mask=None,
        encoder_padding_mask=None,
        encoder_attention_mask=None,
        self_attention_cache=None,
        self_attention_cache_update_index=None,
        cross_attention_cache=None,
        cross_attention_cache_update_index=None,
        use_causal_mask=True,
        training=None,
        return_attention_scores=False,
    ):
        caches = self_attention_cache, cross_attention_cache
        self._check_call(
            encoder_sequence,
            *caches,
            cross_attention_cache_update_index,
            return_attention_scores,
        )
        own = {
            "value_mask": masks.as_boolean(decoder_padding_mask),
            "attention_mask": decoder_attention_mask,
            "use_causal_mask": use_causal_mask,
        }
        other = {
            "value_mask": masks.as_boolean(encoder_padding_mask),
            "attention_mask": encoder_attention_mask,
        }
        if self_attention_cache is not None:
            return self._call_with_caches(
                decoder_sequence,
                encoder_sequence,
                own,
                other,
                *caches,
                self_attention_cache_update_index,
                cross_attention_cache_update_index,
            )
        scores = []

        def attended(attention, *tensors, **masked):
            y = attention(
                *tensors,
                **masked,
                training=training,
                return_attention_scores=return_attention_scores,
            )
            if return_attention_scores:
                y, weights = y
                scores.append(weights)
            return y

        x = masks.zero_nonfinite_padding(decoder_sequence, own["value_mask"])
        y = attended(self.attention, self.attention_residual.before(x), **own)
        x = self.attention_residual.after(x, y, training=training)
        if encoder_sequence is not None:
            y = attended(
                self.cross_attention,
                self.cross_residual.before(x),
                encoder_sequence,
                **other,
            )
            x = self.cross_residual.after(x, y, training=training)
        x = self._fed_forward(x, training)
        return (x, *scores) if return_attention_scores else x

    def _call_with_caches(
        self, x, encoded, own_masks, other_masks, own, cross, index, cross_index
    ):
        present, own_masks["value_mask"] = _cached_padding(
            own_masks["value_mask"], x, own, index
        )
        x = masks.zero_nonfinite_padding(x, present)
        y, own = self.attention.call_with_cache(
            self.attention_residual.before(x), own, index, **own_masks
        )
        x = self.attention_residual.after(x, y)
        if cross is None:
            return self._fed_forward(x), own
        if cross_index is not None:
            cross = ops.cast(
                self.cross_attention.remember(encoded), cross.dtype
            )
        y, cross = self.cross_attention.call_with_cache(
            self.cross_residual.before(x), cross, position=index, **other_masks
        )
        x = self.cross_residual.after(x, y)
        return self._fed_forward(x), own, cross

    def _fed_forward(self, x, training=None):
        y = self.feed_forward(self.feed_forward_residual.before(x))
        return self.feed_forward_residual.after(x, y, training=training)

    def make_caches(self, batch_size, length, source_length=None):
        """Returns empty caches for decoding.

        Args:
            batch_size: Integer or scalar integer tensor, `B`.
            length: Integer, the most tokens to decode.
            source_length: Integer, `S`, for a decoder with cross-attention.

        Returns:
            `(self_attention_cache, cross_attention_cache)`, the latter `None`
            without cross-attention.
        """
        layers = [(self.attention, length)]
        if self.cross_attention is not None:
            layers.append((self.cross_attention, source_length))
        caches = [
            ops.zeros(
                (batch_size, size, self.num_heads, layer.cache_dim),
                dtype=self.compute_dtype,
            )
            for layer, size in layers
        ]
        return caches[0], caches[1] if len(caches) > 1 else None

    def compute_output_shape(
        self, decoder_sequence_shape, encoder_sequence_shape=None
    ):
        return decoder_sequence_shape

    def compute_output_spec(
        self,
        decoder_sequence,
        encoder_sequence=None,
        *args,
        self_attention_cache=None,
        cross_attention_cache=None,
        cross_attention_cache_update_index=None,
        return_attention_scores=False,
        **kwargs,
    ):
        self._check_call(
            encoder_sequence,
            self_attention_cache,
            cross_attention_cache,
            cross_attention_cache_update_index,
            return_attention_scores,
        )
        batch, length = decoder_sequence.shape[:2]
        outputs = [(decoder_sequence.shape, self.compute_dtype)]
        if self_attention_cache is not None:
            cache = self_attention_cache
            outputs.append((cache.shape, cache.dtype))
        if cross_attention_cache is not None:
            shape = cross_attention_cache.shape
            if cross_attention_cache_update_index is not None:
                shape = (*encoder_sequence.shape[:2], *shape[2:])
            outputs.append((shape, cross_attention_cache.dtype))
        if return_attention_scores:
            seen = [decoder_sequence, encoder_sequence]
            outputs += [
                ((batch, self.num_heads, length, x.shape[1]), "float32")
                for x in seen
                if x is not None
            ]
        specs = [keras.KerasTensor(*output) for output in outputs]
        return tuple(specs) if len(specs) > 1 else specs[0]

    def get_config(self):
        config = {
            **super().get_config(),
            "cross_synthesizer": self.cross_synthesizer,
            "max_source_length": self.max_source_length,
        }
        return with_policies(self, config)

    def _check_call(
        self, encoder_sequence, own, cross, cross_index, with_scores
    ):
        has_cross = self.cross_attention is not None
        remembered = cross is not None and cross_index is None
        if (encoder_sequence is not None) != has_cross and not remembered:
            built = "with" if has_cross else "without"
            raise ValueError(
                f"This decoder was built {built} cross-attention: call it with "
                "the same number of sequences each time. Received: "
                f"encoder_sequence={encoder_sequence}"
            )
        if (cross is not None) != (own is not None and has_cross):
            raise ValueError(
                "A decoder with cross-attention takes both caches or none, one "
                "without takes self_attention_cache alone; `make_caches` makes "
                f"what it takes. Received: self_attention_cache={own}, "
                f"cross_attention_cache={cross}"
            )
        if own is not None and with_scores:
            raise ValueError(
                "Attention scores are not returned with caches: call the layer "
                "with whole sequences. Received: "
                f"return_attention_scores={with_scores}"
            )


def _cached_padding(mask, x, cache, start):
    """The padding mask of the present tokens, and of all that are cached.

    Args:
        mask: Boolean tensor `(B, T)` or `(B, max)`, or `None`.
        x: Tensor `(B, T, d)`.
        cache: Tensor `(B, max, H, cache_dim)`.
        start: Integer or scalar integer tensor, position of the first token.

    Returns:
        `(present, cached)`: boolean tensors `(B, T)` and `(B, max)`, or `None`
        twice.
    """
    if mask is None:
        return None, None
    length, size = mask.shape[1], cache.shape[1]
    mask = ops.cast(mask, "int32")  # not every backend slices booleans
    if length == size != x.shape[1]:
        shape = (ops.shape(mask)[0], ops.shape(x)[1])
        present, cached = ops.slice(mask, (0, start), shape), mask
    elif None in (length, x.shape[1]) or length == x.shape[1]:
        real = ops.ones(ops.shape(cache)[:2], dtype="int32")
        present, cached = mask, ops.slice_update(real, (0, start), mask)
    else:
        raise ValueError(
            "`decoder_padding_mask` must have the shape (batch, length) of the "
            f"present tokens, {tuple(x.shape[:2])}, or of the cache, "
            f"{tuple(cache.shape[:2])}. Received: "
            f"decoder_padding_mask.shape={tuple(mask.shape)}"
        )
    return masks.as_boolean(present), masks.as_boolean(cached)

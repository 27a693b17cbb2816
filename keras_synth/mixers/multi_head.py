"""What mixers with queries, keys and values share."""

from keras import ops

from keras_synth.attention import masks
from keras_synth.attention.projections import axes_of_heads
from keras_synth.mixers.attention_mixer import AttentionMixer
from keras_synth.types import Tensor


class MultiHeadMixer(AttentionMixer):
    """A mixer with the projections of `keras.layers.MultiHeadAttention`.

    Queries, keys and values are projected, mixed by `attend`, which a subclass
    implements, and the merged heads are projected once more. Weights have the
    names, layouts and order of MultiHeadAttention's. A subclass without a
    causal form, or without cross-attention, says so by the class attributes of
    `Mixer`; attention masks, biases and scores are refused unless it allows
    them.

    When decoding, all keys and values are remembered, `(B, S, H, k + v)`. A
    subclass that needs less overrides `make_cache`, `call_with_cache` and
    `remember`.

    Args:
        num_heads: Integer, `H`.
        key_dim: Integer, features per head of queries and keys, `k`.
        value_dim: Integer, value features per head, `v`; `key_dim` by
            default.
        dropout: Float, share of the attention weights to drop in training.
        use_bias: Whether the projections have a bias.
        seed: Optional integer, seed of initial values and dropout.
        kernel_initializer: Initializer of the projections' kernels.
        bias_initializer: Initializer of the projections' biases.
        kernel_regularizer: Optional regularizer of the projections' kernels.
        bias_regularizer: Optional regularizer of the projections' biases.
        activity_regularizer: Optional regularizer of the projections' outputs.
        kernel_constraint: Optional constraint on the projections' kernels.
        bias_constraint: Optional constraint on the projections' biases.
        **kwargs: Keyword arguments of `keras.layers.Layer`.

    Call arguments: those of `SyntheticAttention`, for tensors of three axes.

    Returns:
        Tensor `(B, T, d)`; with `return_attention_scores` a tuple of it and
        the weights `(B, H, T, S)`, float32, before dropout.

    Example:

    >>> @keras.saving.register_keras_serializable()
    ... class Copy(keras_synth.mixers.MultiHeadMixer):
    ...     def attend(self, query, key, value, mask, **kwargs):
    ...         return value
    >>> Copy(num_heads=4, key_dim=16)(keras.random.normal((2, 10, 64))).shape
    (2, 10, 64)
    """

    supports_attention_mask = False
    supports_attention_bias = False
    supports_attention_scores = False

    _rank = 3
    weight_axes = axes_of_heads("query", "key", "value")

    def _add_layers(self):
        super()._add_layers()
        self.query = self._split_heads(self.key_dim, "query")
        self.key = self._key_layer()
        self.value = self._split_heads(self.value_dim, "value")
        self._add_dropout()

    def _key_layer(self):
        """The projection of keys; `None` where queries are keys."""
        return self._split_heads(self.key_dim, "key")

    def attend(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        mask: Tensor,
        *,
        bias: Tensor | None = None,
        training: bool | None = None,
        return_weights: bool = False,
    ) -> Tensor:
        """Mixes values.

        Args:
            queries: Tensor `(B, T, H, k)`, not scaled.
            keys: Tensor `(B, S, H, k)`, zero where padded.
            values: Tensor `(B, S, H, v)`, zero where padded.
            mask: `AttentionMask`; its `keys` are the padding, its `pairs` the
                attention mask, `causal` and `start` are set when decoding too.
                What its `queries` ask for, and rows that see no key by padding
                and position, are taken care of afterwards.
            bias: Float tensor that broadcasts to `(B, H, T, S)`, or `None`.
            training: Whether to apply dropout.
            return_weights: Whether to return the weights too.

        Returns:
            Tensor `(B, T, H, v)`; with `return_weights` a tuple of it and the
            weights `(B, H, T, S)`.
        """
        raise NotImplementedError

    def _build_projections(self, query_shape, value_shape, key_shape):
        self.query.build(query_shape)
        self.key.build(key_shape)
        self.value.build(value_shape)

    def _context(self, query, value, key, mask, bias, scores, training):
        return self._context_of_heads(
            self.query(query),
            self.key(key),
            self.value(value),
            mask,
            bias,
            training,
            scores,
        )

    def _context_of_heads(
        self,
        queries,
        keys,
        values,
        mask,
        bias=None,
        training=None,
        scores=False,
    ):
        """What `attend` returns, rows that see nothing being zero."""
        # Subclasses need not take what they do not support.
        wanted = {} if bias is None else {"bias": bias}
        found = self.attend(
            queries,
            masks.zero_padding(keys, mask.keys),
            masks.zero_padding(values, mask.keys),
            mask,
            training=training,
            **wanted,
            **({"return_weights": True} if scores else {}),
        )
        context, weights = found if scores else (found, None)
        visible = mask.visible(ops.shape(queries)[1], ops.shape(values)[1])
        context = masks.zero_rows(context, visible)
        context = masks.zero_padding(context, mask.queries)
        context = ops.cast(context, self.compute_dtype)
        if not scores:
            return context
        weights = ops.transpose(weights, (0, 2, 1, 3))
        weights = masks.zero_rows(weights, visible)
        weights = masks.zero_padding(weights, mask.queries)
        return context, ops.transpose(weights, (0, 2, 1, 3))

    def dropped(self, weights: Tensor, training: bool) -> Tensor:
        """Attention weights after dropout."""
        drop = self._active_dropout(training)
        return weights if drop is None else drop(weights)

    def remember(self, source: Tensor) -> Tensor:
        """Returns the keys and values of a source, `(B, S, H, k + v)`."""
        self._check_built()
        projected = self.key(source), self.value(source)
        return ops.concatenate(projected, axis=-1)

    @property
    def _cache_sizes(self):
        return ((self.num_heads, self.key_dim + self.value_dim),)

    def _cached_context(self, query, cache, mask, bias):
        keys, values = self._keys_and_values(cache)
        return self._context_of_heads(
            self.query(query), keys, values, mask, bias
        )

    def _keys_and_values(self, cache):
        """Keys and values of a cache `(B, S, H, k + v)`."""
        return cache[..., : self.key_dim], cache[..., self.key_dim :]

"""`SyntheticAttention`: a drop-in for `keras.layers.MultiHeadAttention`."""

import keras
from keras import ops

from keras_synth import masks, synthesizers
from keras_synth.attend import attend
from keras_synth.checks import check_positive, check_rate
from keras_synth.layers import attention_checks
from keras_synth.logits import Logits
from keras_synth.masks import AttentionMask
from keras_synth.policies import settle, with_policies
from keras_synth.projections import Projections, positive_shape


@keras.saving.register_keras_serializable(package="keras_synth")
class SyntheticAttention(keras.layers.Layer):
    """Multi-head attention whose weights are synthesized.

    `softmax(S(X)) G(X)` per head: a synthesizer S gives the logits, G is the
    value projection. With `synthesizer="V"` it is
    `keras.layers.MultiHeadAttention`; with any other, tokens need not be
    compared in pairs.

    It is called as MultiHeadAttention is and gives equal outputs on every row
    that sees at least one key. A row that sees none has the output
    projection's bias as its output. It does not offer `attention_axes`,
    `sliding_window`, `flash_attention` and `use_gate`.

    Args:
        num_heads: Integer, `H`.
        key_dim: Integer, features per head of queries, keys and hidden
            layers, `k`.
        synthesizer: What makes the logits: a name or a sum of names such as
            `"R"` or `"random + dot_product"`, a `Synthesizer` that belongs to
            no other layer, or a config of one; see
            `keras_synth.synthesizers.get`.
        max_length: Integer, longest sequence in tokens; names of length-bound
            synthesizers need it.
        value_dim: Integer, value features per head, `v`; `key_dim` by
            default.
        dropout: Float, share of the attention weights to drop in training.
            Drawn for each sample; where the weights do not depend on the
            batch (R, FR, Fix and their mixtures, without per-sample attention
            mask or returned scores) drawn once for all samples.
        use_bias: Whether the projections have a bias, those of a synthesizer
            given by name included.
        output_shape: Integer or sequence of integers, shape of an output
            token; the query's width by default.
        kernel_initializer: Initializer of the projections' kernels.
        bias_initializer: Initializer of the projections' biases.
        kernel_regularizer: Optional regularizer of the projections' kernels.
            Like the other options it reaches a synthesizer given by name, but
            not learned tables such as R: those have options of their own.
        bias_regularizer: Optional regularizer of the projections' biases.
        activity_regularizer: Optional regularizer of the projections' outputs.
        kernel_constraint: Optional constraint on the projections' kernels.
        bias_constraint: Optional constraint on the projections' biases.
        seed: Optional integer, seed of the dropout.
        **kwargs: Keyword arguments of `keras.layers.Layer`.

    Call arguments:
        query: Tensor `(B, T, d)`.
        value: Tensor `(B, S, d)`; the query by default.
        key: Tensor `(B, S, d)`; the value by default.
        query_mask: Boolean `(B, T)`; where it is False the context is zero.
        value_mask: Boolean `(B, S)`; where it is False nobody attends.
        key_mask: Boolean `(B, S)`, likewise.
        attention_mask: Boolean `(B, T, S)` or `(B, 1 or H, T, S)`; True means
            "may attend". A batch axis of 1 is cheaper than one of B.
        attention_bias: Float tensor that broadcasts to `(B, H, T, S)`, added
            to the logits.
        mask: Boolean `(B, T)`, a short way to mask query and value alike when
            the layer is called with the query alone.
        return_attention_scores: Whether to return the weights too.
        training: Whether to apply dropout.
        use_causal_mask: Whether no token sees a later one.

    Masks are combined by "and". Keras masks that tensors carry count like
    explicit ones.

    Returns:
        Tensor `(B, T, d)` or `(B, T, *output_shape)`; with
        `return_attention_scores` a tuple of it and the weights
        `(B, H, T, S)`, float32, before dropout.

    Raises:
        ValueError: If a sequence is longer than the synthesizer's
            `max_length`, a mask's shape does not fit, or the input is not
            floating-point.

    Example:

    >>> layer = keras_synth.layers.SyntheticAttention(
    ...     num_heads=8, key_dim=64, synthesizer="R+V", max_length=256)
    >>> layer(keras.random.normal((2, 100, 512))).shape
    (2, 100, 512)

    References:
        - [Tay et al., 2021](https://arxiv.org/abs/2005.00743)
        - [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762)
    """

    def __init__(
        self,
        num_heads,
        key_dim,
        *,
        synthesizer,
        max_length=None,
        value_dim=None,
        dropout=0.0,
        use_bias=True,
        output_shape=None,
        kernel_initializer="glorot_uniform",
        bias_initializer="zeros",
        kernel_regularizer=None,
        bias_regularizer=None,
        activity_regularizer=None,
        kernel_constraint=None,
        bias_constraint=None,
        seed=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.supports_masking = True
        self._projections = Projections(
            use_bias,
            kernel_initializer=kernel_initializer,
            bias_initializer=bias_initializer,
            kernel_regularizer=kernel_regularizer,
            bias_regularizer=bias_regularizer,
            activity_regularizer=activity_regularizer,
            kernel_constraint=kernel_constraint,
            bias_constraint=bias_constraint,
        )
        self.num_heads = check_positive("num_heads", num_heads)
        self.key_dim = check_positive("key_dim", key_dim)
        self.value_dim = check_positive(
            "value_dim", key_dim if value_dim is None else value_dim
        )
        self.synthesizer = synthesizers.get(
            synthesizer,
            num_heads=self.num_heads,
            key_dim=self.key_dim,
            max_length=max_length,
            dtype=self.dtype_policy,
            use_bias=use_bias,
            **self._projections.options,
        )
        if max_length is not None:
            max_length = check_positive("max_length", max_length)
        self.max_length = max_length
        attention_checks.check_synthesizer(
            self.synthesizer, self.num_heads, self.max_length
        )
        self._output_shape = (
            None if output_shape is None else positive_shape(output_shape)
        )
        self.value = self._projections.split_heads(
            self.num_heads, self.value_dim, "value", self.dtype_policy
        )
        self.attention_output = None
        self.dropout = check_rate("dropout", dropout)
        self.seed = seed
        self._dropout = None
        if self.dropout:
            self._dropout = keras.layers.Dropout(
                self.dropout, seed=seed, dtype=self.dtype_policy, name="dropout"
            )
        self.synthesizer.attach_to(self)

    def build(self, query_shape, value_shape=None, key_shape=None):
        value_shape = query_shape if value_shape is None else value_shape
        key_shape = value_shape if key_shape is None else key_shape
        attention_checks.check_shapes(query_shape, value_shape, key_shape)
        self.synthesizer.check_lengths(query_shape[1], value_shape[1])
        if not self.synthesizer.built:
            self.synthesizer.build(query_shape, key_shape)
        self.value.build(value_shape)
        self.attention_output = self._projections.merge_heads(
            self._output_shape or (query_shape[-1],),
            "attention_output",
            self.dtype_policy,
        )
        self.attention_output.build(
            (*query_shape[:-1], self.num_heads, self.value_dim)
        )
        settle(self)
        self.built = True

    def __call__(self, query, value=None, *args, mask=None, **kwargs):
        # Here and not in `call`, so that Keras hands over the masks of both
        # tensors, and before it makes two tensors of the one.
        if mask is not None:
            kwargs["mask"] = mask
            if value is None:
                given = kwargs.get("value_mask")
                kwargs["value_mask"] = masks.all_of(given, mask)
        value = query if value is None else value
        return super().__call__(query, value, *args, **kwargs)

    def call(
        self,
        query,
        value=None,
        key=None,
        query_mask=None,
        value_mask=None,
        key_mask=None,
        attention_mask=None,
        attention_bias=None,
        mask=None,
        return_attention_scores=False,
        training=None,
        use_causal_mask=False,
    ):
        value = query if value is None else value
        key = value if key is None else key
        attention_checks.check_inputs(query, value, key)
        self.synthesizer.check_lengths(query.shape[1], value.shape[1])
        padding = {
            "query_mask": (query_mask, query),
            "mask": (mask, query),
            "value_mask": (value_mask, value),
            "key_mask": (key_mask, key),
        }
        for name, (given, x) in padding.items():
            masks.check_padding(name, given, x)
        masked = AttentionMask(
            masks.all_of(query_mask, mask),
            masks.all_of(value_mask, key_mask),
            self._pairs(attention_mask, query, value, use_causal_mask),
            use_causal_mask
            and attention_mask is None
            and query.shape[1] == value.shape[1] is not None,
        )
        query, value, key = self._without_padding(query, value, key, masked)
        logits = self._logits(query, key, attention_bias)
        context = attend(
            logits,
            self.value(value),
            masked,
            dropout=self._active_dropout(training),
            return_weights=return_attention_scores,
        )
        if return_attention_scores:
            context, scores = context
            return self.attention_output(context), scores
        return self.attention_output(context)

    @property
    def cache_dim(self):
        """Features per head that decoding must remember of a source token."""
        return self.synthesizer.key_dim + self.value_dim

    def remember(self, source):
        """Returns what decoding must remember of a source.

        Args:
            source: Tensor `(B, S, d)`.

        Returns:
            Tensor `(B, S, H, cache_dim)`, keys first, values after; values
            alone if the synthesizer compares no pairs.
        """
        keys, values = self.synthesizer.project_keys(source), self.value(source)
        return values if keys is None else ops.concatenate([keys, values], -1)

    def call_with_cache(
        self,
        query,
        cache,
        start=None,
        value_mask=None,
        position=0,
        attention_mask=None,
        use_causal_mask=True,
    ):
        """Attends to what a cache remembers.

        Args:
            query: Tensor `(B, T, d)`, the tokens at positions `start` to
                `start + T - 1`.
            cache: Tensor `(B, S, H, cache_dim)`, as `remember` returns it.
            start: Integer or scalar integer tensor. What must be remembered of
                the query goes to these positions of the cache, and no token
                sees a later one. `None` leaves the cache as it is, and each
                token sees all of it: cross-attention.
            value_mask: Boolean `(B, S)`; where it is False nobody attends.
            position: Integer or scalar integer tensor, position of the first
                token where `start` is `None`.
            attention_mask: Boolean `(B, T, S)` or `(B, 1 or H, T, S)`.
            use_causal_mask: Whether no token sees a later one where `start` is
                given; otherwise each sees all that the cache holds by then.

        Returns:
            `(output, cache)`: the output `(B, T, d)` as of `call`, and the
            cache with the query in it.

        Raises:
            ValueError: If the cache has another shape, or the tokens do not
                fit into it.
        """
        attention_checks.check_cache(
            query, cache, start, self.num_heads, self.cache_dim
        )
        length = ops.shape(cache)[1]
        pairs = masks.with_heads(
            "attention_mask",
            attention_mask,
            self._scores_shape(query.shape, cache.shape),
            (3, 4),
        )
        if start is not None:
            fresh = ops.cast(self.remember(query), cache.dtype)
            cache = ops.slice_update(cache, [0, start, 0, 0], fresh)
            filled = masks.cached(
                ops.shape(query)[1], length, start, use_causal_mask
            )
            pairs = masks.all_of(pairs, filled)
        keys = cache[..., : self.synthesizer.key_dim]
        logits = self.synthesizer(
            query,
            keys=keys if self.synthesizer.key_dim else None,
            start=position if start is None else start,
            length=length,
        )
        context = attend(
            logits,
            cache[..., self.synthesizer.key_dim :],
            AttentionMask(
                keys=masks.as_boolean(value_mask),
                pairs=masks.as_boolean(pairs),
            ),
        )
        return self.attention_output(context), cache

    def _without_padding(self, query, value, key, masked):
        """Takes inf and NaN out of padded rows; what is one tensor stays one.

        Otherwise they would reach the gradients of the projections.
        """
        if not self.synthesizer.reads_tokens:
            return query, masks.zero_padding(value, masked.keys), key
        same_value, same_key = value is query, key is value
        value = masks.finite_padding(value, masked.keys)
        key = value if same_key else masks.finite_padding(key, masked.keys)
        if same_value and masked.queries is None:
            return value, value, key
        return masks.finite_padding(query, masked.queries), value, key

    def _pairs(self, attention_mask, query, value, use_causal_mask):
        """Attention and causal mask as one, `(B or 1, H or 1, T, S)`."""
        shape = self._scores_shape(query.shape, value.shape)
        pairs = masks.with_heads(
            "attention_mask", attention_mask, shape, (3, 4)
        )
        if not use_causal_mask:
            return masks.as_boolean(pairs)
        lengths = ops.shape(query)[1], ops.shape(value)[1]
        return masks.all_of(pairs, masks.causal(*lengths))

    def _logits(self, query, key, attention_bias):
        logits = self.synthesizer(
            query,
            keys=self.synthesizer.project_keys(key),
            length=ops.shape(key)[1],
        )
        if attention_bias is None:
            return logits
        shape = self._scores_shape(query.shape, key.shape)
        bias = masks.with_heads(
            "attention_bias", attention_bias, shape, range(5)
        )
        return logits + Logits(bias=ops.cast(bias, "float32"))

    def _active_dropout(self, training):
        if self._dropout is None or not training:
            return None
        return lambda weights: self._dropout(weights, training=True)

    def _scores_shape(self, query_shape, value_shape):
        return (query_shape[0], self.num_heads, query_shape[1], value_shape[1])

    def compute_output_shape(
        self, query_shape, value_shape=None, key_shape=None
    ):
        return (*query_shape[:2], *(self._output_shape or query_shape[2:]))

    def compute_output_spec(
        self,
        query,
        value=None,
        key=None,
        *args,
        return_attention_scores=False,
        **kwargs,
    ):
        value = query if value is None else value
        shape = self.compute_output_shape(query.shape)
        output = keras.KerasTensor(shape, dtype=self.compute_dtype)
        if not return_attention_scores:
            return output
        shape = self._scores_shape(query.shape, value.shape)
        return output, keras.KerasTensor(shape, dtype="float32")

    def get_config(self):
        config = {
            **super().get_config(),
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "synthesizer": keras.saving.serialize_keras_object(
                self.synthesizer
            ),
            "max_length": self.max_length,
            "value_dim": self.value_dim,
            "dropout": self.dropout,
            "output_shape": self._output_shape,
            "seed": self.seed,
            **self._projections.get_config(),
        }
        return with_policies(self, config)

"""What mixers with queries, keys and values share."""

from typing import Any

import keras
from keras import ops

from keras_synth._backend.checks import check_positive, check_rate
from keras_synth._backend.execution import is_placeholder
from keras_synth._backend.policies import settle, with_policies
from keras_synth.attention import masks
from keras_synth.attention.axes import AttentionAxes
from keras_synth.attention.masks import AttentionMask
from keras_synth.attention.multiplications import added, of_dense
from keras_synth.attention.projections import Projections
from keras_synth.mixers import attention_checks
from keras_synth.mixers.mixer import Mixer
from keras_synth.types import Identifier, Shape, Size, Tensor

_FLAT = AttentionAxes(None, 3)


class MultiHeadMixer(Mixer):
    """A mixer with the projections of `keras.layers.MultiHeadAttention`.

    Queries, keys and values are projected, mixed by `attend`, which a subclass
    implements, and the merged heads are projected once more. Weights have the
    names, layouts and order of MultiHeadAttention's. A subclass without a
    causal form, or without cross-attention, says so by the class attributes of
    `Mixer`; attention masks, biases and scores are refused unless it allows
    them. To count multiplications it implements `attend_multiplications`.

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

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        dropout: float = 0.0,
        use_bias: bool = True,
        seed: int | None = None,
        kernel_initializer: Identifier = "glorot_uniform",
        bias_initializer: Identifier = "zeros",
        kernel_regularizer: Identifier | None = None,
        bias_regularizer: Identifier | None = None,
        activity_regularizer: Identifier | None = None,
        kernel_constraint: Identifier | None = None,
        bias_constraint: Identifier | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self._projections = Projections(
            use_bias,
            seed,
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
        self.dropout = check_rate("dropout", dropout)
        self.use_bias = use_bias
        self.seed = seed
        self.query = self._split_heads(self.key_dim, "query")
        self.key = self._split_heads(self.key_dim, "key")
        self.value = self._split_heads(self.value_dim, "value")
        self.attention_output = None
        self._dropout = None
        if self.dropout:
            self._dropout = keras.layers.Dropout(
                self.dropout, seed=seed, dtype=self.dtype_policy, name="dropout"
            )

    def _split_heads(self, width, name):
        return self._projections.split_heads(
            self.num_heads, width, name, self.dtype_policy
        )

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

    def build(
        self,
        query_shape: Shape,
        value_shape: Shape | None = None,
        key_shape: Shape | None = None,
    ) -> None:
        value_shape = query_shape if value_shape is None else value_shape
        key_shape = value_shape if key_shape is None else key_shape
        self._check_shapes(query_shape, value_shape, key_shape)
        self.query.build(query_shape)
        self.key.build(key_shape)
        self.value.build(value_shape)
        self.attention_output = self._projections.merge_heads(
            (query_shape[-1],), "attention_output", self.dtype_policy
        )
        self.attention_output.build(
            (*query_shape[:-1], self.num_heads, self.value_dim)
        )
        settle(self)
        self.built = True

    def _check_shapes(self, *shapes):
        attention_checks.check_shapes(*shapes)
        attention_checks.check_rank(len(shapes[0]), 3)

    def call(
        self,
        query: Tensor,
        value: Tensor | None = None,
        key: Tensor | None = None,
        query_mask: Tensor | None = None,
        value_mask: Tensor | None = None,
        key_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        attention_bias: Tensor | None = None,
        mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        use_causal_mask: bool = False,
    ) -> Tensor:
        value = query if value is None else value
        key = value if key is None else key
        self._check_shapes(query.shape, value.shape, key.shape)
        attention_checks.check_dtypes(query, value, key)
        if is_placeholder(query):
            spec = self._spec(query, value, return_attention_scores)
            return keras.tree.map_structure(
                lambda x: ops.zeros(x.shape, x.dtype), spec
            )
        sizes = query, value, self.num_heads
        pairs = _FLAT.flatten_pairs("attention_mask", attention_mask, *sizes)
        bias = _FLAT.flatten_pairs("attention_bias", attention_bias, *sizes)
        padding = _FLAT.flatten_padding
        masked = AttentionMask(
            masks.all_of(
                padding("query_mask", query_mask, query),
                padding("mask", mask, query),
            ),
            masks.all_of(
                padding("value_mask", value_mask, value),
                padding("key_mask", key_mask, key),
                None if self.supports_cross_attention else mask,
            ),
            masks.as_boolean(pairs),
            causal=bool(use_causal_mask),
        )
        query, value, key = masks.without_nonfinite_padding(
            query, value, key, masked
        )
        context = self._context(
            self.query(query),
            self.key(key),
            self.value(value),
            masked,
            bias,
            training,
            return_attention_scores,
        )
        if not return_attention_scores:
            return self.attention_output(context)
        return self.attention_output(context[0]), context[1]

    def _context(
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
        if 0 in (*queries.shape[:2], values.shape[1]):
            return self._nothing(queries, values, scores)
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

    def _nothing(self, queries, values, scores):
        """What `_context` returns where there are no queries or no source."""
        batch, length, heads, _ = ops.shape(queries)
        shape = (batch, length, heads, self.value_dim)
        context = ops.zeros(shape, self.compute_dtype)
        if not scores:
            return context
        shape = (batch, heads, length, ops.shape(values)[1])
        return context, ops.zeros(shape, "float32")

    def multiplications(
        self, query_length: int, source_length: int
    ) -> dict[str, int]:
        lengths = query_length, source_length
        return added(
            self.projection_multiplications(*lengths),
            self.attend_multiplications(*lengths),
            {"output": of_dense(self.attention_output, query_length)},
        )

    def projection_multiplications(
        self, query_length: int, source_length: int
    ) -> dict[str, int]:
        """Returns how many multiplications the projections of a sample take.

        Args:
            query_length: Integer, `T`.
            source_length: Integer, `S`.

        Returns:
            Dictionary: `"projections"` of queries, keys and values.
        """
        source = self.key, self.value
        count = sum(of_dense(layer, source_length) for layer in source)
        return {"projections": of_dense(self.query, query_length) + count}

    def attend_multiplications(
        self, query_length: int, source_length: int
    ) -> dict[str, int]:
        """Returns how many multiplications `attend` takes for a sample.

        Args:
            query_length: Integer, `T`.
            source_length: Integer, `S`.

        Returns:
            Dictionary: `"logits"`, `"softmax"` and `"mixing"`, as far as it
            has them.

        Raises:
            ValueError: If the class does not say.
        """
        raise ValueError(
            f"{type(self).__name__} does not count its multiplications. "
            "Implement `attend_multiplications(query_length, source_length)` "
            f"there. Received: {self.name}"
        )

    def dropped(self, weights: Tensor, training: bool) -> Tensor:
        """Attention weights after dropout."""
        if self._dropout is None or not training:
            return weights
        # Not the layer itself, which would cast float32 weights.
        return self._dropout.call(weights, training=True)

    def make_cache(self, batch_size: Size, length: int) -> Tensor:
        """Returns an empty cache: a tensor `(B, length, H, k + v)`."""
        return ops.zeros(
            (batch_size, length, *self._cache_size), self.compute_dtype
        )

    def remember(self, source: Tensor) -> Tensor:
        """Returns the keys and values of a source, `(B, S, H, k + v)`."""
        projected = self.key(source), self.value(source)
        return ops.concatenate(projected, axis=-1)

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
        if start is not None:
            self._check_decodes()
        attention_checks.check_cache(query, cache, start, (self._cache_size,))
        self._check_supported(
            {
                "attention_mask": attention_mask,
                "attention_bias": attention_bias,
                "query": query,
            }
        )
        lengths = ops.shape(query)[1], ops.shape(cache)[1]
        sizes = query, cache, self.num_heads
        pairs = _FLAT.flatten_pairs("attention_mask", attention_mask, *sizes)
        bias = _FLAT.flatten_pairs("attention_bias", attention_bias, *sizes)
        if start is not None:
            value_mask = masks.cached_padding(
                value_mask, query, lengths[1], start
            )
            new = ops.cast(self.remember(query), cache.dtype)
            cache = ops.slice_update(cache, [0, start, 0, 0], new)
            position = start
            if not use_causal_mask:
                pairs = masks.all_of(pairs, masks.cached(*lengths, start))
        masked = AttentionMask(
            keys=masks.as_boolean(value_mask),
            pairs=masks.as_boolean(pairs),
            causal=start is not None and use_causal_mask,
            start=position,
        )
        keys, values = cache[..., : self.key_dim], cache[..., self.key_dim :]
        context = self._context(self.query(query), keys, values, masked, bias)
        return self.attention_output(context), cache

    @property
    def _cache_size(self):
        return self.num_heads, self.key_dim + self.value_dim

    def _check_decodes(self):
        if not self.supports_causal_mask:
            raise NotImplementedError(
                f"{type(self).__name__} has no causal form: it cannot decode."
            )

    def compute_output_shape(
        self,
        query_shape: Shape,
        value_shape: Shape | None = None,
        key_shape: Shape | None = None,
    ) -> Shape:
        return query_shape

    def compute_output_spec(
        self,
        query: Tensor,
        value: Tensor | None = None,
        key: Tensor | None = None,
        *args: Any,
        return_attention_scores: bool = False,
        **kwargs: Any,
    ) -> Any:
        value = query if value is None else value
        key = value if key is None else key
        self._check_shapes(query.shape, value.shape, key.shape)
        return self._spec(query, value, return_attention_scores)

    def _spec(self, query, value, scores):
        output = keras.KerasTensor(query.shape, dtype=self.compute_dtype)
        if not scores:
            return output
        batch, length, _ = query.shape
        shape = (batch, self.num_heads, length, value.shape[1])
        return output, keras.KerasTensor(shape, dtype="float32")

    def get_config(self) -> dict[str, Any]:
        config = {
            **super().get_config(),
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
            "dropout": self.dropout,
            "seed": self.seed,
            **self._projections.get_config(),
        }
        return with_policies(self, config)

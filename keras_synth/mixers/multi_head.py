"""The base class of mixers with heads."""

from typing import Any

import keras
from keras import ops

from keras_synth._backend.checks import check_positive, check_rate, check_seed
from keras_synth._backend.distributions import DATA, MODEL
from keras_synth._backend.execution import may_be_differentiated
from keras_synth._backend.policies import inherit_settings
from keras_synth.attend import attend
from keras_synth.attention import masks
from keras_synth.attention.logits import Logits
from keras_synth.attention.projections import Projections, axes_of_heads
from keras_synth.mixers.call import checked_axes, written
from keras_synth.mixers.mixer import Mixer
from keras_synth.types import Tensor, WeightAxes


class MultiHeadMixer(Mixer):
    """Base class with the projections of `keras.layers.MultiHeadAttention`.

    The layer projects queries, keys and values, mixes them with `attend`, which
    a subclass implements, and projects the merged heads. Weights have the
    names, layouts and order of MultiHeadAttention's. Attention masks, biases
    and scores raise a ValueError unless class attributes of the subclass allow
    them.

    A decoding cache contains all keys and values, `(B, S, H, k + v)`.

    Args:
        num_heads: Integer, `H`.
        key_dim: Integer, features per head of queries and keys, `k`.
        value_dim: Integer, value features per head, `v`; `key_dim` by
            default.
        dropout: Float, fraction of the attention weights to drop in training.
        use_bias: Whether the projections have a bias.
        seed: Optional integer, seed of initial values and dropout.
        **kwargs: Initializers, regularizers and constraints of the
            projections, by the names of MultiHeadAttention's arguments, and
            keyword arguments of `keras.layers.Layer`.

    Call arguments: those of `SyntheticAttention`, for tensors of three axes.

    Returns:
        Tensor `(B, T, d)`. With `return_attention_scores` a tuple of it and the
        float32 weights `(B, H, T, S)`, before dropout.

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
    _decodes_in_order = False

    weight_axes: WeightAxes = {
        **axes_of_heads("query", "key", "value"),
        "attention_output/kernel": (MODEL, None, DATA),
    }

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        dropout: float = 0.0,
        use_bias: bool = True,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        projections = Projections(kwargs, use_bias, seed=seed)
        super().__init__(**kwargs)
        self._projections = projections
        self.supports_masking = True
        self.num_heads = check_positive("num_heads", num_heads)
        self.key_dim = check_positive("key_dim", key_dim)
        self.value_dim = check_positive(
            "value_dim", key_dim if value_dim is None else value_dim
        )
        self.dropout = check_rate("dropout", dropout)
        self.use_bias = self._projections.use_bias
        self.seed = check_seed("seed", seed)
        self.query: keras.Layer = None
        self.key: keras.Layer = None
        self.value: keras.Layer = None
        self.attention_output: keras.Layer = None
        self._dropout: keras.Layer = None
        if self.dropout:
            self._dropout = keras.layers.Dropout(
                self.dropout,
                seed=self.seed,
                dtype=self.dtype_policy,
                name="dropout",
            )

    def _split_heads(self, shape, width, name, activation=None, heads=None):
        """A projection to heads, by default all, built for a shape."""
        heads = heads or self.num_heads
        layer = self._projections.split_heads(
            heads, width, name, self.dtype_policy, activation
        )
        layer.build(shape)
        return layer

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
            keys: Tensor `(B, S, H, k)`, zero for padding.
            values: Tensor `(B, S, H, v)`, zero for padding.
            mask: `AttentionMask`; `keys` is the padding, `pairs` is the
                attention mask, and `causal` and `start` are also set when
                decoding. The caller applies `queries`, and sets rows to zero
                that see no key because of padding or position.
            bias: Float tensor that broadcasts to `(B, H, T, S)`, or `None`.
            training: Whether to apply dropout.
            return_weights: Whether to also return the weights.

        Returns:
            Tensor `(B, T, H, v)`. With `return_weights` a tuple of it and the
            weights `(B, H, T, S)`.
        """
        raise NotImplementedError

    def build(self, query_shape, value_shape=None, key_shape=None):
        axes, *shapes = self._shapes(query_shape, value_shape, key_shape)
        self._rank = axes.rank
        query_shape, *others = map(axes.flatten_shape, shapes)
        self._build_projections(query_shape, *others)
        self.attention_output = self._projections.merge_heads(
            self._output_shape or (query_shape[-1],),
            "attention_output",
            self.dtype_policy,
        )
        self.attention_output.build(
            (*query_shape[:-1], self.num_heads, self.value_dim)
        )
        inherit_settings(self)

    def _build_projections(self, query_shape, value_shape, key_shape):
        self.query = self._split_heads(query_shape, self.key_dim, "query")
        self.key = self._split_heads(key_shape, self.key_dim, "key")
        self.value = self._split_heads(value_shape, self.value_dim, "value")

    def _shapes(self, query_shape, value_shape, key_shape):
        """The `AttentionAxes` and the three shapes, or raises."""
        value_shape = query_shape if value_shape is None else value_shape
        key_shape = value_shape if key_shape is None else key_shape
        shapes = query_shape, value_shape, key_shape
        return checked_axes(self.attention_axes, self._rank, *shapes), *shapes

    def _call_flat(self, call):
        if call.is_empty:
            context = self._nothing(call)
        else:
            if may_be_differentiated():
                call = self._without_padding(call)
            context = self._context(call)
        if not call.with_scores:
            return self.attention_output(context)
        context, weights = context
        return self.attention_output(context), weights

    def _nothing(self, call):
        """The result of `_context` without queries or without a source."""
        batch, length = ops.shape(call.query)[:2]
        context = ops.zeros(
            (batch, length, self.num_heads, self.value_dim), self.compute_dtype
        )
        if not call.with_scores:
            return context
        shape = (batch, self.num_heads, length, ops.shape(call.value)[1])
        return context, ops.zeros(shape, "float32")

    def _without_padding(self, call):
        """Sets padding to zero.

        Otherwise inf and NaN would reach the gradients of the projections.
        """
        query, value, key = masks.without_nonfinite_padding(
            call.query, call.value, call.key, call.mask
        )
        return call._replace(query=query, value=value, key=key)

    def _context(self, call):
        """Returns the context `(B, T, H, v)`, and the scores on request."""
        queries = self.query(call.query)
        keys = queries if self.key is None else self.key(call.key)
        return self._context_of_heads(
            queries, keys, self.value(call.value), call
        )

    def _context_of_heads(self, queries, keys, values, call):
        """The result of `attend`, zero in rows without visible keys."""
        mask, options = call.mask, {}
        # Subclasses can omit arguments that they do not support.
        if call.bias is not None:
            options["bias"] = call.bias
        if call.with_scores:
            options["return_weights"] = True
        found = self.attend(
            queries,
            masks.zero_padding(keys, mask.keys),
            masks.zero_padding(values, mask.keys),
            mask,
            training=call.training,
            **options,
        )
        context, weights = found if call.with_scores else (found, None)
        visible = mask.visible(ops.shape(queries)[1], ops.shape(values)[1])
        context = masks.zero_rows(context, visible)
        context = masks.zero_padding(context, mask.queries)
        context = ops.cast(context, self.compute_dtype)
        if not call.with_scores:
            return context
        weights = ops.transpose(weights, (0, 2, 1, 3))
        weights = masks.zero_rows(weights, visible)
        weights = masks.zero_padding(weights, mask.queries)
        return context, ops.transpose(weights, (0, 2, 1, 3))

    def _softmax_attention(
        self, queries, keys, values, mask=None, training=None
    ):
        """`softmax(Q K^T / sqrt(k)) V`: `(B, T, H, v)`."""
        return attend(
            Logits(queries * self.key_dim**-0.5, keys),
            values,
            mask,
            dropout=self._active_dropout(training),
        )

    def dropped(self, weights: Tensor, training: bool) -> Tensor:
        """Attention weights after dropout."""
        drop = self._active_dropout(training)
        return weights if drop is None else drop(weights)

    def _active_dropout(self, training):
        if self._dropout is None or not training:
            return None
        # Not with the layer, which would cast float32 weights.
        return lambda weights: self._dropout.call(weights, training=True)

    # --- decoding -------------------------------------------------------------

    def _cache_shapes(self, start=0):
        return (None, self.num_heads, self.key_dim + self.value_dim)

    def _call_cached(self, call, cache, start):
        if start is not None:
            cache = self._written(cache, call.query, start)
        if 0 in keras.tree.flatten(cache)[-1].shape[1:2]:
            context = self._nothing(call)
        else:
            context = self._cached_context(call, cache)
        return self.attention_output(context), cache

    def _written(self, cache, query, start):
        """The cache with the query's keys and values."""
        return written(cache, self.remember(query), start)

    def remember(self, source: Tensor) -> Tensor:
        """Returns the keys and values of a source, `(B, S, H, k + v)`."""
        if not (self.supports_causal_mask or self.supports_cross_attention):
            return super().remember(source)
        self._check_built()
        projected = self.key(source), self.value(source)
        return ops.concatenate(projected, axis=-1)

    def _cached_context(self, call, cache):
        """Returns the context `(B, T, H, v)` of a query and a cache."""
        return self._context_of_heads(
            self.query(call.query), *self._keys_and_values(cache), call
        )

    def _keys_and_values(self, cache):
        """Keys and values of a cache `(B, S, H, k + v)`."""
        return cache[..., : self.key_dim], cache[..., self.key_dim :]

    # --- shapes ---------------------------------------------------------------

    def compute_output_shape(
        self, query_shape, value_shape=None, key_shape=None
    ):
        self._shapes(query_shape, value_shape, key_shape)
        return (*query_shape[:-1], *(self._output_shape or query_shape[-1:]))

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
        axes = self._checked_axes(query, value, key)
        lengths = (axes.length(x.shape) for x in (query, value))
        self._check_symbolic_lengths(*lengths)
        return self._output_spec(axes, query, value, return_attention_scores)

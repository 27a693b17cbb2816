"""`AttentionMixer`: what all mixers with heads have in common."""

from typing import Any

import keras
from keras import ops

from keras_synth._backend.checks import check_positive, check_rate
from keras_synth._backend.configs import Configured
from keras_synth._backend.distributions import DATA, MODEL
from keras_synth._backend.execution import may_be_differentiated
from keras_synth._backend.policies import assign_policies
from keras_synth.attention import masks
from keras_synth.attention.axes import AttentionAxes
from keras_synth.attention.projections import Projections
from keras_synth.mixers import attention_checks
from keras_synth.mixers.mixer import Mixer
from keras_synth.types import Identifier, Shape, Size, Tensor, WeightAxes


class AttentionMixer(Configured, Mixer):
    """A mixer whose heads have values, which are merged and projected.

    `MultiHeadMixer` adds projections of queries and keys, `SyntheticAttention`
    a synthesizer. A subclass implements `_build_projections`, `_context` and
    `_cached_context`; `remember`, and `_cache_sizes`, the heads and features of
    what it remembers of a token.

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
    """

    attention_axes = None
    _rank = None  # of the tensors it is built for
    weight_axes: WeightAxes = {"attention_output/kernel": (MODEL, None, DATA)}

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
        self.use_bias = self._projections.use_bias
        self.seed = seed
        self._add_layers()

    def _add_layers(self):
        """Makes the layers that are there before `build`, in their order."""
        self.attention_output = self._dropout = None

    def _add_dropout(self):
        if self.dropout:
            self._dropout = keras.layers.Dropout(
                self.dropout,
                seed=self.seed,
                dtype=self.dtype_policy,
                name="dropout",
            )

    def _split_heads(self, width, name, activation=None):
        return self._projections.split_heads(
            self.num_heads, width, name, self.dtype_policy, activation
        )

    def build(
        self,
        query_shape: Shape,
        value_shape: Shape | None = None,
        key_shape: Shape | None = None,
    ) -> None:
        value_shape = query_shape if value_shape is None else value_shape
        key_shape = value_shape if key_shape is None else key_shape
        axes = self._checked_axes(query_shape, value_shape, key_shape)
        self._rank = axes.rank
        query_shape, value_shape, key_shape = map(
            axes.flatten_shape, (query_shape, value_shape, key_shape)
        )
        self._build_projections(query_shape, value_shape, key_shape)
        self.attention_output = self._projections.merge_heads(
            self._output_shape or (query_shape[-1],),
            "attention_output",
            self.dtype_policy,
        )
        self.attention_output.build(
            (*query_shape[:-1], self.num_heads, self.value_dim)
        )
        assign_policies(self)
        self.built = True

    def _build_projections(self, query_shape, value_shape, key_shape):
        raise NotImplementedError

    def _checked_axes(self, query_shape, value_shape, key_shape):
        attention_checks.check_shapes(query_shape, value_shape, key_shape)
        axes = AttentionAxes(self.attention_axes, len(query_shape))
        attention_checks.check_rank(len(query_shape), self._rank)
        attention_checks.check_other_axes(axes, query_shape, value_shape)
        return axes

    def _check_inputs(self, query, value, key):
        attention_checks.check_dtypes(query, value, key)
        return super()._check_inputs(query, value, key)

    def _call_flat(self, query, value, key, mask, bias, scores, training):
        if 0 in (*query.shape[:2], value.shape[1]):
            found = self._nothing(query, value, scores)
        else:
            inputs = query, value, key
            if may_be_differentiated():
                inputs = self._without_padding(*inputs, mask)
            found = self._context(*inputs, mask, bias, scores, training)
        if not scores:
            return self.attention_output(found)
        context, weights = found
        return self.attention_output(context), weights

    def _nothing(self, query, value, scores):
        """What `_context` returns where there are no queries or no source."""
        batch, length = ops.shape(query)[:2]
        context = ops.zeros(
            (batch, length, self.num_heads, self.value_dim), self.compute_dtype
        )
        if not scores:
            return context
        shape = (batch, self.num_heads, length, ops.shape(value)[1])
        return context, ops.zeros(shape, "float32")

    def _without_padding(self, query, value, key, mask):
        """Takes inf and NaN out of padded rows.

        Otherwise they would reach the gradients of the projections.
        """
        return masks.without_nonfinite_padding(query, value, key, mask)

    def _context(self, query, value, key, mask, bias, scores, training):
        """Returns the context `(B, T, H, v)`, with the scores if wanted."""
        raise NotImplementedError

    def _active_dropout(self, training):
        if self._dropout is None or not training:
            return None
        # Not the layer itself, which would cast float32 weights.
        return lambda weights: self._dropout.call(weights, training=True)

    # --- decoding -------------------------------------------------------------

    @property
    def _cache_sizes(self):
        """A pair of heads and features for each group of heads."""
        raise NotImplementedError

    def make_cache(self, batch_size: Size, length: int) -> Tensor:
        """Returns an empty cache for `length` tokens.

        Args:
            batch_size: Integer or scalar integer tensor, `B`.
            length: Integer, the most tokens to decode.

        Returns:
            Tensor `(B, length, H, cache_dim)`; with groups of heads a tuple of
            one for each group, with its heads.
        """
        caches = [
            ops.zeros((batch_size, length, *size), self.compute_dtype)
            for size in self._cache_sizes
        ]
        return tuple(caches) if len(caches) > 1 else caches[0]

    def _check_cache(self, query, cache, start, use_causal_mask):
        if start is not None and not self.supports_causal_mask:
            raise NotImplementedError(
                f"{type(self).__name__} has no causal form: it cannot decode."
            )
        attention_checks.check_cache(query, cache, start, self._cache_sizes)

    def _call_cached(self, query, cache, start, mask, bias):
        if start is not None:
            cache = self._written(cache, query, start)
        if 0 in self._cache_places(cache, start).shape[1:2]:
            context = self._nothing(query, query, False)
        else:
            context = self._cached_context(query, cache, mask, bias)
        return self.attention_output(context), cache

    def _written(self, cache, query, start):
        """The cache with what must be remembered of the query in it."""
        return keras.tree.map_structure(
            lambda old, new: ops.slice_update(
                old, [0, start, 0, 0], ops.cast(new, old.dtype)
            ),
            cache,
            self.remember(query),
        )

    def _cached_context(self, query, cache, mask, bias):
        """Returns the context `(B, T, H, v)` of a query and a cache."""
        raise NotImplementedError

    # --- shapes ---------------------------------------------------------------

    def compute_output_shape(
        self,
        query_shape: Shape,
        value_shape: Shape | None = None,
        key_shape: Shape | None = None,
    ) -> Shape:
        value_shape = query_shape if value_shape is None else value_shape
        key_shape = value_shape if key_shape is None else key_shape
        self._checked_axes(query_shape, value_shape, key_shape)
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
        axes = self._checked_axes(query.shape, value.shape, key.shape)
        self._check_lengths(*(axes.length(x.shape) for x in (query, value)))
        return self._output_spec(axes, query, value, return_attention_scores)

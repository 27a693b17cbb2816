"""`SyntheticAttention`, a drop-in for `keras.layers.MultiHeadAttention`."""

from collections.abc import Sequence
from typing import Any

import keras

from keras_synth import synthesizers
from keras_synth._backend.checks import check_boolean, check_optional
from keras_synth._backend.execution import is_traced
from keras_synth._backend.internals import untrack
from keras_synth._backend.policies import inherit_settings
from keras_synth.attention import masks, normalizers, patterns
from keras_synth.attention.projections import (
    axes_of_heads,
    check_divides_heads,
    positive_shape,
)
from keras_synth.mixers import attention_checks, last_tokens
from keras_synth.mixers.head_groups import HeadGroups
from keras_synth.mixers.multi_head import MultiHeadMixer
from keras_synth.mixers.position_limits import (
    cached_reach,
    check_pattern_lengths,
    with_listed_pairs,
)
from keras_synth.synthesizers.synthesizer import with_dtype
from keras_synth.types import Identifier


@keras.saving.register_keras_serializable(package="keras_synth")
class SyntheticAttention(MultiHeadMixer):
    """Multi-head attention whose weights are synthesized.

    `softmax(S(X)) G(X)` per head, where the synthesizer S computes the logits
    and G is the value projection. Arguments, call and, for `synthesizer="V"`,
    outputs are those of `keras.layers.MultiHeadAttention`, except that the
    output of rows without visible keys is the bias of the output projection.

    Args:
        num_heads: Integer, `H`.
        key_dim: Integer, features per head of queries, keys and hidden
            layers, `k`.
        value_dim: Integer, value features per head, `v`, by default `key_dim`.
        dropout: Float, fraction of the attention weights to drop in training:
            drawn for each sample, or once for all samples if they have the same
            weights (R, FR, Fix and their mixtures).
        use_bias: Whether the projections have a bias, including those of a
            named synthesizer.
        output_shape: Integer or sequence of integers, shape of an output token;
            by default the query's width.
        attention_axes: Integer or sequence of integers, the axes along which
            tokens attend to each other, in this order; by default all except
            batch and features. Synthesizers, causal masks and windows see them
            as one flattened axis.
        sliding_window: Optional integer `w`, in tokens: position i attends to j
            if `|i - j| < w`. (For `"local(window=w)"`, if `|i - j| <= w`.)
        flash_attention: `True` demands the backend's flash kernel, `False`
            forbids it. By default the layer uses the fastest route.
        kernel_initializer: Initializer of the projections' kernels, including,
            like the next options, those of a named synthesizer. Learned tables
            such as R have their own options.
        bias_initializer: Initializer of the projections' biases.
        kernel_regularizer: Optional regularizer of the projections' kernels.
        bias_regularizer: Optional regularizer of the projections' biases.
        activity_regularizer: Optional regularizer of the projections' outputs.
        kernel_constraint: Optional constraint on the projections' kernels.
        bias_constraint: Optional constraint on the projections' biases.
        use_gate: Whether the context of heads is multiplied by
            `sigmoid(x Wg + bg)`, where x is the query.
        seed: Optional integer, seed of dropout and initial values, including
            those of a named synthesizer.
        synthesizer: A name or a sum of names such as `"R"` or
            `"FR(rank=32) + dot_product"`, a `Synthesizer` that is not part of
            another layer, or its config; see `keras_synth.synthesizers.get`.
        max_length: Integer, longest sequence in tokens, or product of the
            attended axes. Required for names of length-bound synthesizers.
        pattern: Optional, which positions of one sequence (T = S) attend to
            which: a `Pattern` of `keras_synth.mixers.patterns`, names such as
            `"local(window=16) | global(tokens=2)"`, or a boolean array
            `(N, N)`, which becomes a weight that is not trained.
        normalizer: The function from logits to weights: `"softmax"`, `"relu"`,
            `"sigmoid"`, `"softmax1"` or a `Normalizer`; see
            `keras_synth.mixers.normalizers.get`.
        num_key_value_heads: Optional integer, a divisor of `num_heads`: heads
            of keys and values, which groups of heads share, as in
            `keras.layers.GroupQueryAttention`. By default it is the
            synthesizer's, as in `"V(num_key_value_heads=2)"`, or `num_heads`.
        **kwargs: Keyword arguments of `keras.layers.Layer`.

    Call arguments:
        query: Tensor `(B, T, d)`, or, like value and key, `(B, ..., d)`. Masks
            then also have more axes, and scores are `(B, *others, H, *T, *S)`,
            where others are the axes not in `attention_axes`.
        value: Tensor `(B, S, d)`; the query by default.
        key: Tensor `(B, S, d)`; the value by default.
        query_mask: Boolean `(B, T)`; the context is zero if it is False.
        value_mask: Boolean `(B, S)`, True means "may attend".
        key_mask: Boolean `(B, S)`, the same.
        attention_mask: Boolean `(T, S)`, `(B, T, S)` or `(B, 1 or H, T, S)`;
            True means "may attend". A batch axis of 1 is cheaper than of B.
        attention_bias: Float tensor that broadcasts to `(B, H, T, S)`, added
            to the logits.
        mask: Boolean `(B, T)`, both `query_mask` and `value_mask` if the layer
            is called with only the query. Masks are combined by "and". Those
            of Keras are used where none is passed.
        return_attention_scores: Whether to also return the weights.
        training: Whether to apply dropout.
        use_causal_mask: Whether token i attends only to tokens `j <= i`.

    Returns:
        Tensor `(B, T, d)` or `(B, T, *output_shape)`. With
        `return_attention_scores` a tuple of it and the float32 weights
        `(B, H, T, S)`, before dropout.

    Raises:
        ValueError: If a sequence is longer than the synthesizer's
            `max_length`, a mask's shape does not fit, the input is not
            floating-point, or there is a pattern and T is not S.

    Example:

    >>> layer = keras_synth.layers.SyntheticAttention(
    ...     num_heads=8, key_dim=64, synthesizer="R+V", max_length=256)
    >>> layer(keras.random.normal((2, 100, 512))).shape
    (2, 100, 512)

    References:
        - [Tay et al., 2021](https://arxiv.org/abs/2005.00743)
        - [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762)
    """

    weight_axes = {**axes_of_heads("value", "gate"), "pattern": ()}
    supports_attention_mask = True
    supports_attention_bias = True
    supports_attention_scores = True
    _rank = None  # any, until `build`

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        dropout: float = 0.0,
        use_bias: bool = True,
        output_shape: int | Sequence[int] | None = None,
        attention_axes: int | Sequence[int] | None = None,
        sliding_window: int | None = None,
        flash_attention: bool | None = None,
        kernel_initializer: Identifier = "glorot_uniform",
        bias_initializer: Identifier = "zeros",
        kernel_regularizer: Identifier | None = None,
        bias_regularizer: Identifier | None = None,
        activity_regularizer: Identifier | None = None,
        kernel_constraint: Identifier | None = None,
        bias_constraint: Identifier | None = None,
        use_gate: bool = False,
        seed: int | None = None,
        *,
        synthesizer: Identifier,
        max_length: int | None = None,
        pattern: Identifier | None = None,
        normalizer: Identifier = "softmax",
        num_key_value_heads: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            num_heads,
            key_dim,
            value_dim=value_dim,
            dropout=dropout,
            use_bias=use_bias,
            seed=seed,
            kernel_initializer=kernel_initializer,
            bias_initializer=bias_initializer,
            kernel_regularizer=kernel_regularizer,
            bias_regularizer=bias_regularizer,
            activity_regularizer=activity_regularizer,
            kernel_constraint=kernel_constraint,
            bias_constraint=bias_constraint,
            **kwargs,
        )
        self.use_gate = check_boolean("use_gate", use_gate)
        self.attention_axes = attention_checks.check_axes(attention_axes)
        self.sliding_window = check_optional("sliding_window", sliding_window)
        self.normalizer = normalizers.get(normalizer)
        attention_checks.check_flash_attention(
            flash_attention, dropout, self.normalizer
        )
        self.flash_attention = flash_attention
        self._output_shape = (
            None if output_shape is None else positive_shape(output_shape)
        )
        self.max_length = check_optional("max_length", max_length)
        self.num_key_value_heads = check_optional(
            "num_key_value_heads", num_key_value_heads
        )
        check_divides_heads(self.num_heads, self.num_key_value_heads)
        self.pattern: patterns.Pattern | None = None
        if pattern is not None:
            self.pattern = patterns.get(pattern).fitted(self.max_length)
        self._make_parts(synthesizer)

    def _make_parts(self, synthesizer):
        if isinstance(synthesizer, dict):
            synthesizer = with_dtype(synthesizer, self.dtype_policy)
        # In the order of MultiHeadAttention's weights.
        self.synthesizer = synthesizers.get(
            synthesizer,
            num_heads=self.num_heads,
            key_dim=self.key_dim,
            max_length=self.max_length,
            use_bias=self.use_bias,
            defaults={
                "dtype": self.dtype_policy,
                "num_key_value_heads": self.num_key_value_heads,
                "seed": self.seed,
                **self._projections.options,
            },
        )
        self._groups = HeadGroups(
            self.synthesizer, self.value_dim, self.num_key_value_heads
        )
        self.synthesizer.attach_to(self)
        self.gate = None
        self._cached_reach = cached_reach(self)
        self.overwrites_cache = self._cached_reach is None

    def share_synthesizer(self, other: "SyntheticAttention") -> None:
        """Uses that of an equal layer, before `build`. Files do not keep it."""
        untrack(self, self.synthesizer)
        self.synthesizer, self._groups = other.synthesizer, other._groups

    def build(self, query_shape, value_shape=None, key_shape=None):
        super().build(query_shape, value_shape, key_shape)
        self._pattern_in_force = with_listed_pairs(self, self.pattern)

    def _build_projections(self, query_shape, value_shape, key_shape):
        if not self.synthesizer.built:
            self.synthesizer.build(query_shape, key_shape)
            inherit_settings(self.synthesizer)
        width, heads = self.value_dim, self._groups.value_heads
        if self.use_gate:
            self.gate = self._split_heads(query_shape, width, "gate", "sigmoid")
        self.value = self._split_heads(value_shape, width, "value", heads=heads)

    def _check_supported(self, arguments, cached=False):
        super()._check_supported(arguments, cached)
        if self.flash_attention and arguments.get("return_attention_scores"):
            raise ValueError(  # Keras' message
                "Returning attention scores is not supported when flash "
                "attention is enabled. Please disable flash attention to "
                "access attention scores. Received: "
                "return_attention_scores=True"
            )

    def _check_lengths(self, query_length, source_length):
        lengths = query_length, source_length
        if query_length != source_length and None not in lengths:
            self._groups.check_reach_all("{} and {} tokens".format(*lengths))
        if self.pattern is not None:
            check_pattern_lengths(self.pattern, *lengths)

    def _check_symbolic_lengths(self, *lengths):
        self._check_lengths(*lengths)
        self.synthesizer.check_lengths(*lengths)  # otherwise in its call

    def _limited(self, mask):
        """An `AttentionMask` with the window and the pattern of the layer."""
        return mask._replace(
            window=self.sliding_window, pattern=self._pattern_in_force
        )

    def _context(self, call):
        source = self._groups.project(call.key, self.value(call.value))
        return self._attended(call, source)

    def _attended(self, call, source):
        """The context for keys and values in the form of `HeadGroups`."""
        route = None
        if is_traced() and call.value is not None:
            route = attention_checks.traced_route(call, self.synthesizer)
        context = self._groups.attend(
            call.query,
            *source,
            self._limited(call.mask),
            call.bias,
            dropout=self._active_dropout(call.training),
            return_weights=call.with_scores,
            route=route,
            flash_attention=self.flash_attention,
            normalizer=self.normalizer,
        )
        if self.gate is None:
            return context
        context, *weights = context if call.with_scores else (context,)
        # Zero times NaN, a possible gate, is not zero.
        context = masks.zero_padding(
            context * self.gate(call.query), call.mask.queries
        )
        return (context, *weights) if weights else context

    def _without_padding(self, call):
        if self.synthesizer.reads_tokens or self.gate is not None:
            return super()._without_padding(call)
        value = masks.zero_padding(call.value, call.mask.keys)
        return call._replace(value=value)

    # --- decoding -------------------------------------------------------------

    @property
    def cache_dim(self) -> Any:
        """Features per head of a cached token, a tuple for groups of heads."""
        return self._groups.cache_dim

    def _cache_shapes(self, start=0):
        shapes = self._groups.cache_shapes
        if self._cached_reach is None:
            return shapes
        return last_tokens.shapes(self._cached_reach, shapes[1:])

    def make_cache(self, batch_size, length):
        """Returns an empty cache for `length` tokens.

        Returns:
            Tensor `(B, length, H, cache_dim)`, or with groups of heads a tuple
            of such tensors. H is `num_key_value_heads` if heads share them. For
            a local pattern and synthesizers that need no positions, a
            dictionary of the last `tokens`, `(B, window, H, cache_dim)`, and
            their `positions`, `(B, window)`, -1 without a token. It supports no
            attention masks and biases, and takes each token once
            (`overwrites_cache` is False).
        """
        cache = super().make_cache(batch_size, length)
        is_whole = self._cached_reach is None
        return cache if is_whole else last_tokens.without_tokens(cache)

    def _check_decodes(self, start, use_causal_mask):
        super()._check_decodes(start, use_causal_mask)
        if start is None:
            if self.pattern is not None:
                raise ValueError(
                    "A pattern is for the positions of one sequence: pass the "
                    "first one as `start`. Leave out the pattern for "
                    f"cross-attention. Received: start=None, {self.pattern}"
                )
            self._groups.check_reach_all("a cache without a `start`")

    def _call_cached(self, call, cache, start):
        reach = self._cached_reach
        if reach is None:
            return super()._call_cached(call, cache, start)
        query = masks.zero_nonfinite_padding(call.query, call.mask.keys)
        call = call._replace(query=query)
        tokens = masks.zero_padding(self.remember(query), call.mask.keys)
        source, is_token, cache = last_tokens.joined(
            cache, tokens, call.mask, reach
        )
        if isinstance(start, int) and start == 0:
            source = tokens
        else:
            mask = call.mask._replace(keys=is_token > 0, start=reach)
            call = call._replace(mask=mask)
        return self.attention_output(self._cached_context(call, source)), cache

    def remember(self, source):
        """Returns the cache of a source for cross-attention.

        Returns:
            As `make_cache` without a window, keys before values.
        """
        self._check_built()
        projected = self._groups.project(source, self.value(source))
        return self._groups.to_cache(*projected)

    def _cached_context(self, call, cache):
        return self._attended(call, self._groups.from_cache(cache))

    # --- MultiHeadAttention's names for its projections -----------------------

    def __dir__(self):
        # Keras saves a layer under the first of these names. The paths of
        # weights in a file must not depend on these aliases.
        return [x for x in super().__dir__() if not x.endswith("_dense")]

    @property
    def query_dense(self) -> keras.Layer | None:
        return getattr(self.synthesizer, "query", None)

    @property
    def key_dense(self) -> keras.Layer | None:
        return getattr(self.synthesizer, "key", None)

    @property
    def value_dense(self) -> keras.Layer:
        return self.value

    @property
    def output_dense(self) -> keras.Layer:
        return self.attention_output

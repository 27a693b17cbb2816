"""The base class of mixers: layers that can replace attention in a block."""

from typing import Any

import keras
from keras import ops

from keras_synth._backend.execution import (
    is_compiled_by_torch,
    is_placeholder,
)
from keras_synth._backend.internals import as_input
from keras_synth._backend.layer import Layer
from keras_synth.attention import masks
from keras_synth.attention.positions import as_position
from keras_synth.mixers.call import (
    OBSERVERS,
    by_name,
    check_cache,
    check_decoding,
    check_dtype,
    check_longest,
    check_room,
    checked_axes,
    is_padding,
    normalized,
    of_cache,
)
from keras_synth.types import Size, Tensor, WeightAxes

# Arguments of `call`, and the attributes that allow them.
_NEEDS = {
    "attention_mask": "supports_attention_mask",
    "attention_bias": "supports_attention_bias",
    "return_attention_scores": "supports_attention_scores",
    "use_causal_mask": "supports_causal_mask",
}
_NO_TENSORS = {"training", "use_causal_mask", "return_attention_scores"}


class Mixer(Layer):
    """Base class of layers with the call of `keras.layers.MultiHeadAttention`.

    Encoder and decoder blocks accept any mixer. A subclass implements `call`
    with MultiHeadAttention's arguments and `attention_bias`. For decoding it
    also implements `make_cache` and `call_with_cache`, and `remember` for
    cross-attention. The class attributes below declare unsupported arguments,
    for which calls raise a ValueError. All mixers support padding masks. For a
    mixer without heads and cross-attention, derive from the simpler
    `SelfMixer`.

    Attributes:
        supports_causal_mask: Boolean, whether there is a causal form, in which
            no token sees a later one. Decoders need it.
        supports_cross_attention: Boolean, whether `value` and `key` can be
            other tensors than `query`.
        supports_attention_mask: Boolean, whether `attention_mask` is supported.
        supports_attention_bias: Boolean, whether `attention_bias` is supported.
        supports_attention_scores: Boolean, whether the layer can return
            attention weights.
        overwrites_cache: Boolean, whether tokens replace those in the cache at
            the same positions. False for a state that sums up the past:
            generation passes each token once, and the mixer must ignore tokens
            that `value_mask` hides.
        sees_padding: Boolean, whether outputs depend on the length of the
            padding; `keras_synth.fold` must then keep the length.
        weight_axes: Dictionary from names of weights to the device axes along
            which they can be cut, as for a `Synthesizer`.

    Example:

    >>> @keras.saving.register_keras_serializable()
    ... class Mean(keras_synth.mixers.Mixer):
    ...     supports_causal_mask = False
    ...     supports_attention_mask = False
    ...     supports_attention_bias = False
    ...     supports_attention_scores = False
    ...
    ...     def call(self, query, value=None, value_mask=None, **kwargs):
    ...         mean = keras.layers.GlobalAveragePooling1D(keepdims=True)
    ...         return keras.ops.broadcast_to(
    ...             mean(value, mask=value_mask), query.shape)
    >>> Mean()(keras.random.normal((2, 10, 64))).shape
    (2, 10, 64)
    """

    supports_causal_mask = True
    supports_cross_attention = True
    supports_attention_mask = True
    supports_attention_bias = True
    supports_attention_scores = True
    overwrites_cache = True
    sees_padding = False
    weight_axes: WeightAxes = {}
    attention_axes: tuple[int, ...] | None = None
    num_heads: int | None = None
    max_length: int | None = None  # tokens
    _decodes_in_order = True  # only with a causal mask
    _rank: int | None = 3  # number of axes of its tensors
    _output_shape = None  # of a token, by default the query's

    def __call__(
        self,
        query: Tensor,
        value: Tensor | None = None,
        key: Tensor | None = None,
        *args: Any,
        mask: Tensor | None = None,
        **kwargs: Any,
    ) -> Tensor:
        if args:
            if mask is not None:
                kwargs["mask"] = mask
            kwargs = by_name(type(self).call, args, kwargs)
            mask = kwargs.pop("mask", None)
        tensors = {"value": value, "key": key, "mask": mask}
        given = kwargs | {k: x for k, x in tensors.items() if x is not None}
        self._check_supported({"query": query, **given})
        # Before Keras converts one array to two tensors.
        if not self.supports_cross_attention:
            given = {k: given[k] for k in given.keys() - {"value", "key"}}
        own_call = type(self).call is not Mixer.call
        # Whether there are other tensors, whose masks Keras passes.
        others = any(given[x] is not None for x in given.keys() - _NO_TENSORS)
        if self.supports_cross_attention if own_call else others:
            # Here, so that Keras passes the masks of both tensors.
            if value is None and mask is not None:
                pair = map(masks.as_boolean, (kwargs.get("value_mask"), mask))
                given["value_mask"] = masks.both(*pair)
            if given.setdefault("value", query) is query:
                # Otherwise Keras would make two tensors of it.
                query = given["value"] = as_input(self, query)
        return super().__call__(query, **given)

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
        is_alone = value is None
        value = query if is_alone else value
        key = value if key is None else key
        axes = self._checked_axes(query, value, key)
        if is_placeholder(query):
            sizes = query, value, return_attention_scores
            spec = self._output_spec(axes, *sizes)
            return keras.tree.map_structure(
                lambda x: ops.zeros(x.shape, x.dtype), spec
            )
        # `None` for an unknown length.
        self._check_lengths(axes.length(query.shape), axes.length(value.shape))
        of_query = {"query_mask": query_mask, "mask": mask}
        of_source = {"value_mask": value_mask, "key_mask": key_mask}
        if is_alone:  # otherwise it is already a mask of the source
            of_source["mask"] = mask
        call = normalized(
            axes,
            (query, value, key),
            (of_query, of_source),
            (attention_mask, attention_bias),
            num_heads=self.num_heads,
            causal=use_causal_mask,
            with_scores=return_attention_scores,
            training=training,
        )
        # A compiler cannot keep the value.
        observe = None if is_compiled_by_torch() else OBSERVERS.get()[-1]
        output = observe(self, call) if observe else self._call_flat(call)
        if not return_attention_scores:
            return axes.unflatten(output, query)
        output, scores = output
        scores = axes.unflatten_scores(scores, query, value)
        return axes.unflatten(output, query), scores

    # --- for mixers of this package -------------------------------------------

    def _call_flat(self, call):
        """Returns the result of a `Call`, along one axis of tokens.

        Tensor `(B, T, d)`, or a tuple of it and the weights `(B, H, T, S)`.
        """
        raise NotImplementedError(
            f"{type(self).__name__} does not implement `call`."
        )

    def _call_cached(self, call, cache, start):
        """Returns the result of `call_with_cache`.

        The mask of the `Call` is for the query and the places of the cache, or
        only for the query if the cache is a state.
        """
        raise NotImplementedError(_no_cache(self))

    def _cache_shapes(self, start=0):
        """Shapes of a cache, or with `start=None` of the result of `remember`.

        Shapes omit the batch; `None` is the length.
        """
        raise NotImplementedError(_no_cache(self))

    def _check_decodes(self, start, use_causal_mask):
        """Raises if this way of decoding is not supported."""
        if start is None and self.supports_cross_attention:
            return
        check_decoding(self, start)
        if self._decodes_in_order and not use_causal_mask:
            raise ValueError(
                f"{type(self).__name__} decodes only with a causal mask. Leave "
                "out `use_causal_mask`, or pass True. Received: "
                f"use_causal_mask={use_causal_mask}"
            )

    def _checked_axes(self, query, value, key):
        """The `AttentionAxes` of tensors, or raises if they do not fit."""
        check_dtype("query", query)
        if value is not query:
            check_dtype("value", value)
        if key is not value:
            check_dtype("key", key)
        shape = query.shape
        source = shape if value is query else value.shape
        own = source if key is value else key.shape
        return checked_axes(self.attention_axes, self._rank, shape, source, own)

    def _check_lengths(self, query_length, source_length):
        """Raises if a sequence of known length is too long."""
        check_longest(query_length, self.max_length)
        check_longest(source_length, self.max_length)

    def _check_symbolic_lengths(self, query_length, source_length):
        self._check_lengths(query_length, source_length)

    def _output_spec(self, axes, query, value, with_scores):
        """The `keras.KerasTensor`s of `call`'s outputs."""
        features = self._output_shape or query.shape[-1:]
        output = keras.KerasTensor(
            (*query.shape[:-1], *features), dtype=self.compute_dtype
        )
        if not with_scores:
            return output
        shape = axes.scores_shape(query.shape, value.shape, self.num_heads)
        return output, keras.KerasTensor(shape, dtype="float32")

    # --------------------------------------------------------------------------

    def _check_supported(self, arguments, cached=False):
        """Raises for arguments of `call` that this mixer does not support."""
        query = arguments["query"]
        for name, attribute in _NEEDS.items():
            wanted = arguments.get(name)
            if wanted is None or wanted is False or getattr(self, attribute):
                continue
            is_mask = name == "attention_mask" and not cached
            if is_mask and is_padding(wanted, query):
                continue
            shape = getattr(wanted, "shape", None)
            received = name if shape is None else f"{name}.shape"
            padding = ", pass padding as `value_mask` (batch, length)"
            raise ValueError(
                f"{type(self).__name__} does not support `{name}`. Leave it "
                f"out{padding if name == 'attention_mask' else ''}, or use a "
                "mixer that does, such as SyntheticAttention. "
                f"Received: {received}={wanted if shape is None else shape}"
            )
        if self.supports_cross_attention:
            return
        for name in ("value", "key"):
            other = arguments.get(name)
            if other is not None and other is not query:
                raise ValueError(
                    f"{type(self).__name__} mixes the tokens of one sequence. "
                    f"Leave `{name}` out, or pass the same tensor as `query`. "
                    "For cross-attention use a mixer that supports it, such as "
                    f"SyntheticAttention. Received: another `{name}` of shape "
                    f"{tuple(other.shape)}"
                )

    def make_cache(self, batch_size: Size, length: int) -> Tensor:
        """Returns an empty cache for decoding.

        Args:
            batch_size: Integer or scalar integer tensor, `B`.
            length: Integer, the maximum number of tokens.

        Returns:
            A tensor `(B, ...)`, or a nested structure of such tensors.
        """
        return keras.tree.map_shape_structure(
            lambda shape: ops.zeros(
                (batch_size, *(length if n is None else n for n in shape)),
                self.compute_dtype,
            ),
            self._cache_shapes(),
        )

    def call_with_cache(
        self,
        query: Tensor,
        cache: Any,
        start: Size | None = None,
        value_mask: Tensor | None = None,
        position: Size = 0,
        attention_mask: Tensor | None = None,
        use_causal_mask: bool = True,
        attention_bias: Tensor | None = None,
    ) -> Tensor:
        """Mixes tokens with those in a cache.

        Args:
            query: Tensor `(B, T, d)`, the tokens at positions `start` to
                `start + T - 1`.
            cache: From `make_cache` or this method, or from `remember` if
                `start` is `None`.
            start: Integer or scalar integer tensor, position of the first
                token; each token sees those up to its own position. `None` for
                cross-attention, which sees the whole cache and does not change
                it.
            value_mask: Boolean, False for padding: `(B, T)` for only these
                tokens, or `(B, S)` for the whole cache.
            position: Integer or scalar integer tensor, position of the first
                token if `start` is `None`.
            attention_mask: Boolean `(B, T, S)` or `(B, 1 or H, T, S)`, True
                means "may attend"; if `call` supports it.
            use_causal_mask: Whether tokens see only positions up to their own,
                if `start` is given. Otherwise they see all positions up to the
                last query.
            attention_bias: Float tensor that broadcasts to `(B, H, T, S)`,
                added to the logits; if `call` supports it.

        Returns:
            `(output, cache)`: tensor `(B, T, d)`, and the cache with the new
            tokens.

        Raises:
            ValueError: If the layer is not built, or the cache does not fit the
                layer or the tokens.
        """
        self._check_built()
        start, position = as_position(start), as_position(position)
        check_dtype("query", query)
        checked_axes(None, 3, *[query.shape] * 3)
        self._check_decodes(start, use_causal_mask)
        check_cache(cache, self._cache_shapes(start), query.shape[0])
        places = None
        if start is None or self.overwrites_cache:  # not a state
            places = keras.tree.flatten(cache)[-1]
            check_room(query, places, start)
            self._check_lengths(places.shape[1], places.shape[1])
        given = {
            "query": query,
            "attention_mask": attention_mask,
            "attention_bias": attention_bias,
        }
        self._check_supported(given, cached=True)
        query = ops.convert_to_tensor(query)
        if 0 in query.shape[:2]:
            features = self._output_shape or query.shape[-1:]
            shape = (*ops.shape(query)[:2], *features)
            return ops.zeros(shape, self.compute_dtype), cache
        call = of_cache(
            query,
            places,
            start,
            value_mask=value_mask,
            pairs=(attention_mask, attention_bias),
            num_heads=self.num_heads,
            causal=bool(use_causal_mask),
            position=position,
        )
        return self._call_cached(call, cache, start)

    def remember(self, source: Tensor) -> Tensor:
        """Returns the cache of a source for cross-attention.

        It includes padding, which the mask of `call_with_cache` hides.

        Args:
            source: Tensor `(B, S, d)`.

        Returns:
            A tensor `(B, ...)`, or a nested structure of such tensors, which
            can differ from that of `make_cache`.
        """
        raise NotImplementedError(_no_cache(self))


def _no_cache(mixer):
    return f"{type(mixer).__name__} cannot decode, because it has no cache."

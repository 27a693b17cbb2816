"""The contract of a mixer: a layer that replaces attention in a block."""

from typing import Any

import keras
from keras import ops

from keras_synth._backend.configs import Configured
from keras_synth._backend.execution import is_placeholder
from keras_synth._backend.rematerialized import Rematerialized
from keras_synth.attention import masks
from keras_synth.mixers.call import (
    by_name,
    check_cache,
    check_dtype,
    check_longest,
    check_room,
    checked_axes,
    is_padding,
    normalized,
    observer,
    of_cache,
)
from keras_synth.types import Size, Tensor, WeightAxes

# What `call` may be given, and the attribute that allows it.
_NEEDS = {
    "attention_mask": "supports_attention_mask",
    "attention_bias": "supports_attention_bias",
    "return_attention_scores": "supports_attention_scores",
    "use_causal_mask": "supports_causal_mask",
}


class Mixer(Configured, Rematerialized, keras.layers.Layer):
    """A layer called like `keras.layers.MultiHeadAttention`.

    Encoder and decoder blocks take any mixer. A subclass implements `call` with
    MultiHeadAttention's arguments and `attention_bias`; one that decodes
    implements `make_cache` and `call_with_cache` too, and `remember` for
    cross-attention. What it cannot honour it declares by the class attributes
    below, and calls that ask for it are refused. All honour padding masks.
    Without heads and a second sequence a `SelfMixer` is shorter.

    Attributes:
        supports_causal_mask: Boolean, whether there is a form in which no
            token sees a later one. Decoders need it.
        supports_cross_attention: Boolean, whether `value` and `key` may be
            other tensors than `query`.
        supports_attention_mask: Boolean, whether an `attention_mask` of any
            pattern is honoured.
        supports_attention_bias: Boolean, whether there are logits to add an
            `attention_bias` to.
        supports_attention_scores: Boolean, whether there are attention
            weights to return.
        overwrites_cache: Boolean, whether tokens that are read again at the
            same positions replace what the cache held there. False for a state
            that sums up the past: generation shows it each token once, and it
            must leave tokens out that `value_mask` forbids.
        sees_padding: Boolean, whether outputs depend on how much padding there
            is: `keras_synth.fold` must then keep the length.
        weight_axes: Dictionary from names of weights to the axes along which
            devices may cut them, as of a `Synthesizer`.

    Example:

    >>> @keras.saving.register_keras_serializable()
    ... class Mean(keras_synth.mixers.Mixer):
    ...     supports_causal_mask = False
    ...     supports_attention_mask = False
    ...     supports_attention_bias = False
    ...     supports_attention_scores = False
    ...
    ...     def call(self, query, value=None, key=None, query_mask=None,
    ...              value_mask=None, key_mask=None, **kwargs):
    ...         real = 1.0
    ...         if value_mask is not None:
    ...             real = keras.ops.cast(value_mask, value.dtype)[..., None]
    ...         total = keras.ops.sum(real * value, 1, keepdims=True)
    ...         ones = real * keras.ops.ones_like(value)
    ...         count = keras.ops.sum(ones, 1, keepdims=True)
    ...         return keras.ops.zeros_like(query) + total / count
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
    _rank: int | None = 3  # of the tensors that it is called with
    _output_shape = None  # of a token; that of a query's by default

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
        # Before Keras makes tensors, two of one array.
        if not self.supports_cross_attention:
            given = {k: given[k] for k in given.keys() - {"value", "key"}}
        own_call = type(self).call is not Mixer.call
        if self.supports_cross_attention if own_call else _has_tensors(given):
            # Here, so that Keras hands over the masks of both tensors.
            if value is None and mask is not None:
                own = kwargs.get("value_mask")
                own, mask = map(masks.as_boolean, (own, mask))
                given["value_mask"] = masks.both(own, mask)
            given.setdefault("value", query)
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
            spec = self._output_spec(
                axes, query, value, return_attention_scores
            )
            return keras.tree.map_structure(
                lambda x: ops.zeros(x.shape, x.dtype), spec
            )
        # `None` where a length is not known in advance.
        self._check_lengths(axes.length(query.shape), axes.length(value.shape))
        of_query = {"query_mask": query_mask, "mask": mask}
        of_source = {"value_mask": value_mask, "key_mask": key_mask}
        if is_alone:  # otherwise it is among the source's masks already
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
        observe = observer()
        output = observe(self, call) if observe else self._call_flat(call)
        if not return_attention_scores:
            return axes.unflatten(output, query)
        output, scores = output
        scores = axes.unflatten_scores(scores, query, value)
        return axes.unflatten(output, query), scores

    # --- what a mixer of this package says of itself --------------------------

    def _call_flat(self, call):
        """Returns what a `Call` asks for, of one axis of tokens.

        Tensor `(B, T, d)`, or a tuple of it and the weights `(B, H, T, S)`.
        """
        raise NotImplementedError(
            f"{type(self).__name__} does not implement `call`."
        )

    def _call_cached(self, call, cache, start):
        """Returns what `call_with_cache` does.

        The mask of the `Call` is of the query and the places of the cache, or
        of the query where the cache is a state of the past.
        """
        raise NotImplementedError(_no_cache(self))

    def _cache_shapes(self, start=0):
        """Shapes of a cache, or with `start=None` of what `remember` returns.

        Without the batch; `None` is the length.
        """
        raise NotImplementedError(_no_cache(self))

    def _check_decodes(self, query, start, use_causal_mask):
        """Raises unless it can decode in this way."""

    def _checked_axes(self, query, value, key):
        """The `AttentionAxes` of tensors; raises if they do not fit."""
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
        """Raises if a sequence is too long, as far as lengths are known."""
        check_longest(query_length, self.max_length)
        check_longest(source_length, self.max_length)

    def _output_spec(self, axes, query, value, with_scores):
        """What `call` returns, as `keras.KerasTensor`s."""
        features = self._output_shape or query.shape[-1:]
        output = keras.KerasTensor(
            (*query.shape[:-1], *features), dtype=self.compute_dtype
        )
        if not with_scores:
            return output
        shape = axes.scores_shape(query.shape, value.shape, self.num_heads)
        return output, keras.KerasTensor(shape, dtype="float32")

    # --------------------------------------------------------------------------

    def _check_supported(self, arguments):
        """Raises for arguments of `call` that this mixer cannot honour."""
        query = arguments["query"]
        for name, attribute in _NEEDS.items():
            wanted = arguments.get(name)
            if wanted is None or wanted is False or getattr(self, attribute):
                continue
            if name == "attention_mask" and is_padding(wanted, query):
                continue
            shape = getattr(wanted, "shape", None)
            received = name if shape is None else f"{name}.shape"
            raise ValueError(
                f"{type(self).__name__} cannot honour `{name}`. Leave it out, "
                "or take a mixer that can, such as SyntheticAttention. "
                f"Received: {received}={wanted if shape is None else shape}"
            )
        if self.supports_cross_attention:
            return
        for name in ("value", "key"):
            other = arguments.get(name)
            if other is not None and other is not query:
                raise ValueError(
                    f"{type(self).__name__} mixes the tokens of one sequence: "
                    f"`{name}` must be the very same tensor as `query`, or "
                    "left out. For cross-attention take a mixer that has it, "
                    f"such as SyntheticAttention. Received: another `{name}` "
                    f"of shape {tuple(other.shape)}"
                )

    def make_cache(self, batch_size: Size, length: int) -> Tensor:
        """Returns an empty cache for decoding.

        Args:
            batch_size: Integer or scalar integer tensor, `B`.
            length: Integer, the most tokens to decode.

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
        """Mixes tokens with those that a cache remembers.

        Args:
            query: Tensor `(B, T, d)`, the tokens at positions `start` to
                `start + T - 1`.
            cache: As `make_cache` or this method returns it, or `remember`
                where `start` is `None`.
            start: Integer or scalar integer tensor, where the tokens go; each
                then sees those up to its own. `None` leaves the cache as it
                is, and all of it is seen: cross-attention.
            value_mask: Boolean `(B, T)`, False for padding: those before count
                as real. Or for all `S` that the cache has room for.
            position: Integer or scalar integer tensor, position of the first
                token where `start` is `None`.
            attention_mask: Boolean `(B, T, S)` or `(B, 1 or H, T, S)`, True
                means "may attend"; refused where `call` refuses it.
            use_causal_mask: Whether, where `start` is given, tokens see
                positions up to their own only; otherwise all up to the
                query's last.
            attention_bias: Float tensor that broadcasts to `(B, H, T, S)`,
                added to the logits; refused where `call` refuses it.

        Returns:
            `(output, cache)`: tensor `(B, T, d)` as of `call`, and the cache
            with the tokens in it.

        Raises:
            ValueError: If the layer is not built, the cache is not this
                layer's, or the tokens do not fit into it.
        """
        self._check_built()
        self._check_decodes(query, start, use_causal_mask)
        check_cache(cache, self._cache_shapes(start))
        places = None
        if start is None or self.overwrites_cache:  # a state has none
            places = keras.tree.flatten(cache)[-1]
            check_room(query, places, start)
            self._check_lengths(places.shape[1], places.shape[1])
        self._check_supported(
            {
                "query": query,
                "attention_mask": attention_mask,
                "attention_bias": attention_bias,
            }
        )
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
        """Returns what cross-attention must remember of a source.

        Padding is not left out of it: its mask comes when it is attended to.

        Args:
            source: Tensor `(B, S, d)`.

        Returns:
            A tensor `(B, ...)`, or a nested structure of such tensors, not
            necessarily that of `make_cache`.
        """
        raise NotImplementedError(_no_cache(self))

    def _check_built(self):
        if not self.built:
            raise ValueError(
                f"{type(self).__name__} makes its weights when it is first "
                "called: call it, or `build` it with the shape of its input, "
                "before it decodes. Received: a layer that is not built"
            )


def _has_tensors(arguments):
    """Whether there are others than the query, whose mask Keras hands over."""
    return any(
        x is not None and name not in _NO_TENSORS
        for name, x in arguments.items()
    )


_NO_TENSORS = {"training", "use_causal_mask", "return_attention_scores"}


def _no_cache(mixer):
    return f"{type(mixer).__name__} has no cache: it cannot decode."

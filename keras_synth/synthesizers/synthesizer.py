"""The contract of a synthesizer."""

import functools
import gc
import inspect
import weakref
from collections.abc import Callable
from typing import Any

import keras

from keras_synth._backend.checks import (
    check_optional,
    check_positive,
    check_seed,
)
from keras_synth._backend.configs import Configured
from keras_synth._backend.internals import sublayers
from keras_synth._backend.seeds import add_table
from keras_synth._backend.tensors import axis_size
from keras_synth.attention.logits import Logits
from keras_synth.attention.positions import check_length, window
from keras_synth.types import Identifier, Shape, Size, Tensor, WeightAxes

LONG_INPUTS = ("error", "tile")

# Weights are found by their paths: by files, layout maps and dtype policies. A
# counter such as Keras' would make paths depend on what was built before.
DEFAULT_NAME = "synthesizer"


class Synthesizer(Configured, keras.layers.Layer):
    """Turns tokens, or nothing, into attention logits.

    A subclass implements `call` and, if it looks at the source at all,
    `project_keys`; all else belongs to `SyntheticAttention`.

    Args:
        num_heads: Integer, `H`.
        max_length: Integer, the paper's N: tokens that the learned tables
            hold. `None` if there is no such bound.
        long_inputs: `"error"`, or `"tile"` to repeat the learned positions
            beyond `max_length`.
        seed: Optional integer that makes the initial values reproducible;
            an initializer that has a seed of its own keeps it.
        name: String, by default `"synthesizer"`; a mixture calls the parts
            that have no other name `"part_0"`, `"part_1"`, ...
        **kwargs: Keyword arguments of `keras.layers.Layer`.

    Attributes:
        key_dim: Integer, features per head and source token that a decoding
            cache holds in addition to the values.
        reads_tokens: Boolean, whether logits depend on any token.
        is_bias: Boolean, whether its logits are not scaled by the alphas of a
            mixture: `S = bias + sum_i alpha_i S_i`.
        needs_float32: Boolean, whether its logits fall without bound with the
            distance: see `Logits`.
        reach: Integer, how far away tokens may be that it has logits for:
            attention leaves farther ones out. `None` if it has them for all.
        remembers_last: Boolean, whether a cache of the last tokens will do
            where no more are seen: its keys follow from tokens or `keys_at`.
        weight_axes: Dictionary from a weight's path below the layer
            (`"hidden/kernel"`) to what devices may cut its first axes along:
            `"model"` for heads and widths, `"data"` for the model width,
            `None` for an axis that stays whole, as all others do.
        last_weights: Tuple of names of attributes: weights whose zeros make
            all logits zero, with which `keras_synth.surgery.graft` begins.
        position_axes: Dictionary from the name of an attribute, a weight, to
            its axes that `keras_synth.surgery.lengthen` makes longer.

    Example:

    A head that prefers the first token, by a trained number:

    >>> from keras_synth.logits import Logits
    >>> class FirstToken(keras_synth.synthesizers.Synthesizer):
    ...     reads_tokens = False
    ...     weight_axes = {"strength": ("model",)}
    ...
    ...     def build(self, query_shape, source_shape=None):
    ...         self.strength = self.add_weight(
    ...             name="strength", shape=(self.num_heads,))
    ...
    ...     def call(self, query, keys=None, start=0, length=None):
    ...         first = keras.ops.one_hot(0, length)  # (S,)
    ...         bias = self.strength[:, None, None] * first
    ...         return Logits(bias=bias[None])  # (1, H, 1, S)
    >>> layer = keras_synth.layers.SyntheticAttention(
    ...     2, 8, synthesizer=FirstToken(num_heads=2))
    >>> layer(keras.random.normal((3, 10, 16))).shape
    (3, 10, 16)
    """

    key_dim = 0
    reads_tokens = True
    is_bias = False
    needs_float32 = False
    reach: int | None = None
    remembers_last = False
    weight_axes: WeightAxes = {}
    last_weights: tuple[str, ...] = ()
    position_axes: dict[str, tuple[int, ...]] = {}

    def __init__(
        self,
        num_heads: int,
        max_length: int | None = None,
        long_inputs: str = "error",
        seed: int | None = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name or DEFAULT_NAME, **kwargs)
        self.seed = check_seed("seed", seed)
        self.num_heads = check_positive("num_heads", num_heads)
        max_length = check_optional("max_length", max_length)
        if long_inputs not in LONG_INPUTS:
            raise ValueError(
                f"`long_inputs` must be one of {LONG_INPUTS}. "
                f"Received: long_inputs={long_inputs!r}"
            )
        self.max_length = max_length
        self.long_inputs = long_inputs
        self.supports_masking = True
        self._owner: weakref.ref | None = None
        self._learned: set[str] = set()  # paths of weights that are trained

    def head_groups(self) -> Any:
        """Returns the synthesizers of groups of heads; by default itself."""
        return (self,)

    def attach_to(self, owner: keras.Layer) -> None:
        """Makes it a part of one layer, or raises if it is of another.

        Weights of two layers would be saved once and could not be loaded.
        """
        if self._owned_by_other(owner):
            gc.collect()  # frees unused layers, which hold cycles
            if self._owned_by_other(owner):
                raise ValueError(
                    "A synthesizer object belongs to one layer. Give each "
                    "layer its own, by a name, a config or "
                    "`from_config(synthesizer.get_config())`. Received: "
                    f"{self!r}, which is a part of {self._owner()!r}"
                )
        self._owner = weakref.ref(owner)

    def _owned_by_other(self, owner):
        return self._owner is not None and self._owner() not in (None, owner)

    def build(
        self, query_shape: Shape, source_shape: Shape | None = None
    ) -> None:
        """Creates the weights.

        Args:
            query_shape: Shape `(B, T, d)`; `B` and `T` may be `None`.
            source_shape: Shape `(B, S, d)`, by default that of the query.
        """
        self.built = True

    def project_keys(self, source: Tensor) -> Tensor:
        """Returns the keys of a source, to be cached when decoding.

        Args:
            source: Tensor `(B, S, d)`.

        Returns:
            Tensor `(B, S, H, key_dim)`, or `None` if `key_dim` is 0.
        """
        return None

    def tables(self) -> dict[str, Tensor]:
        """Returns its learned tables, those of layers within left out.

        Returns:
            Dictionary from names to tensors.
        """
        inside = {
            id(weight) for layer in sublayers(self) for weight in layer.weights
        }
        own = [w for w in self.weights if id(w) not in inside]
        return {w.name: w for w in own}

    def keys_at(self, keys: Tensor, positions: Tensor, start: Size) -> Tensor:
        """Returns keys of tokens that are not at the positions from 0 on.

        Args:
            keys: Tensor `(B, S, H, key_dim)` from `project_keys`, or `None`.
            positions: Integer tensor `(B, S)`.
            start: Integer or scalar integer tensor, position of the first
                query token.

        Returns:
            What `call` takes as `keys`; by default the keys themselves.
        """
        return keys

    def rematerialized_call(
        self, layer_call: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Callable[..., Any]:
        """Returns `layer_call`: the layer around it is computed again."""
        return layer_call

    def call(
        self,
        query: Tensor,
        keys: Tensor | None = None,
        *,
        start: Size = 0,
        length: int | None = None,
    ) -> Logits:
        """Returns the logits of each query token over the source.

        Args:
            query: Tensor `(B, T, d)`.
            keys: Tensor `(B, S, H, key_dim)` from `project_keys`, or `None`.
            start: Integer or scalar integer tensor, position of the first
                query token; not 0 when decoding.
            length: Integer or scalar integer tensor, source length `S`. By
                default the query's length.

        Returns:
            `Logits`.
        """
        raise NotImplementedError

    def as_function(self, query: Tensor) -> Callable[..., Logits]:
        """Returns what the layer around it calls: `call`, where that will do.

        Where operations run one by one, what Keras does around a call takes
        longer than the call, and the layer around it has done it.
        """
        if not self.built or self.activity_regularizer is not None:
            return self
        # Hooks are those of PyTorch's modules, which are called with the layer.
        hooks = getattr(self, "_forward_hooks", None)
        hooks = hooks or getattr(self, "_forward_pre_hooks", None)
        if hooks or _is_filled_in(type(self).call):
            return self
        dtype = keras.backend.standardize_dtype(query.dtype)
        return self.call if dtype == self.compute_dtype else self

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            f"{type(self).__name__} returns `Logits`, which cannot be part of "
            "a Functional model by themselves. Use it inside "
            "`keras_synth.layers.SyntheticAttention`."
        )

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor) -> None:
        return None  # masks are a matter of attention, not of logits

    def check_lengths(
        self,
        target_length: Size | None,
        source_length: Size | None,
        start: Size = 0,
    ) -> None:
        """Raises if lengths `T` and `S`, as far as known, are too long."""
        if self.max_length is None or self.long_inputs == "tile":
            return
        check_length("Source", source_length, self.max_length)
        check_length("Query", target_length, self.max_length, start)

    def lengths(self, query: Tensor, start: Size, length: int) -> Any:
        """Returns the checked `(T, S)` of a call: integers where known."""
        target_length = axis_size(query, 1)
        source_length = target_length if length is None else length
        if self.max_length is not None:
            self.check_lengths(target_length, source_length, start)
        return target_length, source_length

    def window(
        self, table: Tensor, axis: int, start: Size, length: int
    ) -> Tensor:
        """Returns `length` positions of a table along `axis`, from `start`."""
        return window(table, axis, start, length, self.long_inputs == "tile")

    def add_table(
        self, name: str, shape: Shape, initializer: Identifier, **kwargs: Any
    ) -> Tensor:
        """Adds a learned table, which no mixed precision casts."""
        initializer = keras.initializers.get(initializer)
        return add_table(self, name, shape, initializer, **kwargs)

    def add_weight(self, *args: Any, **kwargs: Any) -> Tensor:
        weight = super().add_weight(*args, **kwargs)
        if kwargs.get("trainable", True):
            self._learned.add(weight.path)
        return weight

    def enable_lora(self, rank: int) -> None:
        """Makes its own weights trainable beside LoRA of its projections.

        Tables of positions by positions get an update of low rank instead.

        Args:
            rank: Integer, the rank of such updates.

        Raises:
            ValueError: If it has no weights yet, or `rank` is not positive.
        """
        check_positive("rank", rank)
        if not self.built:
            raise ValueError(
                "A synthesizer needs weights before LoRA can be enabled: build "
                f"the layer around it first. Received: {self!r}"
            )
        for weight in self.weights:
            if weight.path in self._learned:
                weight.trainable = True

    def get_build_config(self) -> dict[str, Any]:
        # The layer around it builds it: paths of weights begin with that one's.
        return None

    def serialized(self) -> dict[str, Any]:
        """Returns its config, without a dtype that is the outer layer's."""
        config = keras.saving.serialize_keras_object(self)
        owner = None if self._owner is None else self._owner()
        if owner is None:
            return config
        dtype = "dtype", keras.dtype_policies.serialize(owner.dtype_policy)
        own = {k: v for k, v in config["config"].items() if (k, v) != dtype}
        return {**config, "config": own}

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        config["num_heads"] = self.num_heads
        if self.max_length is not None:
            config["max_length"] = self.max_length
            config["long_inputs"] = self.long_inputs
        if self.seed is not None:
            config["seed"] = self.seed
        return config


@functools.cache
def _is_filled_in(call):
    """Whether Keras gives a `call` more than its caller does."""
    return not {"training", "mask"}.isdisjoint(
        inspect.signature(call).parameters
    )


def with_dtype(config, dtype):
    """Returns a config with a dtype, unless it has one of its own."""
    own = config.get("config")
    if not isinstance(own, dict) or dtype is None:
        return config
    return {**config, "config": {"dtype": dtype, **own}}

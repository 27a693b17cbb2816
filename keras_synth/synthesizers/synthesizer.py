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
from keras_synth._backend.internals import sublayers
from keras_synth._backend.layer import Layer
from keras_synth._backend.seeds import add_table
from keras_synth._backend.tensors import axis_size
from keras_synth.attention.logits import Logits, check_logits
from keras_synth.attention.positions import check_length, window
from keras_synth.types import Identifier, Shape, Size, Tensor, WeightAxes

LONG_INPUTS = ("error", "tile")

# Files, layout maps and dtype policies find weights by their paths. With a
# counter such as Keras', paths would depend on the layers built before.
DEFAULT_NAME = "synthesizer"


class Synthesizer(Layer):
    """Base class: turns tokens, or nothing, into attention logits.

    A subclass implements `call` and, if it reads the source, `project_keys`.
    `SyntheticAttention` does the rest.

    Args:
        num_heads: Integer, `H`.
        max_length: Integer, the paper's N, the length of the learned tables in
            tokens. `None` if any length is allowed.
        long_inputs: `"error"`, or `"tile"` to repeat the learned positions
            beyond `max_length`.
        seed: Optional integer that makes the initial values reproducible. An
            initializer with its own seed keeps it.
        name: String, by default `"synthesizer"`. Default names of the parts of
            a mixture are `"part_0"`, `"part_1"`, ...
        **kwargs: Keyword arguments of `keras.layers.Layer`.

    Attributes:
        key_dim: Integer, features per head and source token in a decoding
            cache, in addition to the values.
        num_key_value_heads: Integer, heads of the keys in a decoding cache if
            they are not `num_heads`, or `None`.
        reads_tokens: Boolean, whether logits depend on any token.
        is_bias: Boolean, whether a mixture adds the logits without an alpha:
            `S = bias + sum_i alpha_i S_i`.
        needs_float32: Boolean, whether logits fall without bound with the
            distance; see `Logits`.
        reach: Integer, the largest distance with logits, in tokens; attention
            ignores farther tokens. `None` if all pairs have logits.
        remembers_last: Boolean, whether a cache of only the visible tokens is
            enough: logits depend on distances, not on positions.
        weight_axes: Dictionary from a weight's path in the layer
            (`"hidden/kernel"`) to the device axes along which its first axes
            can be cut: `"model"` for heads and widths, `"data"` for the model
            width, `None` for no cut. Other axes are not cut.
        last_weights: Tuple of names of attributes: weights that
            `keras_synth.surgery.graft` sets to zero to make all logits zero.
        position_axes: Dictionary from the name of a weight's attribute to the
            axes that `keras_synth.surgery.lengthen` makes longer.

    Example:

    Heads that prefer the first token by a trained number:

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
    ...         first = keras.ops.one_hot(
    ...             0, length, dtype=self.compute_dtype)  # (S,)
    ...         bias = self.strength[:, None, None] * first
    ...         return Logits(bias=bias[None])  # (1, H, 1, S)
    >>> layer = keras_synth.layers.SyntheticAttention(
    ...     2, 8, synthesizer=FirstToken(num_heads=2))
    >>> layer(keras.random.normal((3, 10, 16))).shape
    (3, 10, 16)
    """

    key_dim = 0
    num_key_value_heads: int | None = None
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
        self._learned: set[str] = set()  # paths of trained weights
        self._is_of_package = type(self).__module__.startswith("keras_synth.")
        # Whether Keras passes more arguments to `call` than its caller.
        named = {*inspect.signature(type(self).call).parameters}
        self._is_filled_in = bool(named & {"training", "mask"})

    def head_groups(self) -> Any:
        """Returns the synthesizers of groups of heads, by default itself."""
        return (self,)

    def attach_to(self, owner: keras.Layer) -> None:
        """Makes it a part of a layer, or raises if it is part of another.

        Keras saves weights of two layers once, and cannot load them.
        """
        if self._owned_by_other(owner):
            gc.collect()  # frees unused layers, which contain cycles
            if self._owned_by_other(owner):
                raise ValueError(
                    "A synthesizer can be part of only one layer. Make another "
                    "one for each layer, from a name, a config or "
                    "`from_config(synthesizer.get_config())`. Received: "
                    f"{self!r}, which is part of {self._owner()!r}"
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
            source_shape: Shape `(B, S, d)`, by default the query's.
        """

    def project_keys(self, source: Tensor) -> Tensor:
        """Returns the keys of a source, which decoding caches.

        Args:
            source: Tensor `(B, S, d)`.

        Returns:
            Tensor `(B, S, H, key_dim)`, or `None` if `key_dim` is 0.
        """
        return None

    def tables(self) -> dict[str, Tensor]:
        """Returns the learned tables, except those of inner layers.

        Returns:
            Dictionary from names to tensors.
        """
        inside = {
            id(weight) for layer in sublayers(self) for weight in layer.weights
        }
        own = [w for w in self.weights if id(w) not in inside]
        return {w.name: w for w in own}

    def rematerialized_call(
        self, layer_call: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Callable[..., Any]:
        """Returns `layer_call`: the layer around is rematerialized."""
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
        """Returns the function that the layer around calls: `call` if possible.

        In eager execution Keras' work around a call takes longer than the call,
        and the layer around has already done it.
        """
        needs_layer = (
            not self.built
            or self.activity_regularizer is not None
            # Hooks of PyTorch's modules.
            or getattr(self, "_forward_hooks", None)
            or getattr(self, "_forward_pre_hooks", None)
            or getattr(self, "_backward_hooks", None)
            or getattr(self, "_backward_pre_hooks", None)
            or self._is_filled_in
            or keras.backend.standardize_dtype(query.dtype)
            != self.compute_dtype
        )
        call = self if needs_layer else self.call
        if self._is_of_package:
            return call
        return functools.partial(self._checked_call, call)

    def _checked_call(self, call, query, *, length, **kwargs):
        logits = call(query, length=length, **kwargs)
        name, shape = type(self).__name__, tuple(query.shape)
        check_logits(logits, name, shape, length, self.num_heads)
        return logits

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            f"{type(self).__name__} returns `Logits`, which cannot be the "
            "output of a layer in a Functional model. Use it inside "
            "`keras_synth.layers.SyntheticAttention`."
        )

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor) -> None:
        return None  # attention applies masks, not logits

    def check_lengths(
        self,
        target_length: Size | None,
        source_length: Size | None,
        start: Size = 0,
    ) -> None:
        """Raises if known lengths `T` and `S` are too long."""
        if self.max_length is None or self.long_inputs == "tile":
            return
        check_length("Source", source_length, self.max_length)
        check_length("Query", target_length, self.max_length, start)

    def lengths(self, query: Tensor, start: Size, length: int) -> Any:
        """Returns the checked `(T, S)` of a call, integers if known."""
        target_length = axis_size(query, 1)
        source_length = target_length if length is None else length
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
        """Adds a learned table, which mixed precision does not cast."""
        initializer = keras.initializers.get(initializer)
        return add_table(self, name, shape, initializer, **kwargs)

    def add_weight(self, *args: Any, **kwargs: Any) -> Tensor:
        weight = super().add_weight(*args, **kwargs)
        if kwargs.get("trainable", True):
            self._learned.add(weight.path)
        return weight

    def enable_lora(self, rank: int) -> None:
        """Enables LoRA of its tables, and makes its other weights trainable.

        Tables of positions by positions get an update of low rank.

        Args:
            rank: Integer, the rank of updates.

        Raises:
            ValueError: If the layer is not built, or `rank` is not positive.
        """
        check_positive("rank", rank)
        if not self.built:
            raise ValueError(
                "Build the layer around the synthesizer before you enable "
                f"LoRA. Received: {self!r}"
            )
        for weight in self.weights:
            if weight.path in self._learned:
                weight.trainable = True

    def get_build_config(self) -> dict[str, Any]:
        # The layer around builds it, so that paths of weights begin with its
        # own.
        return None

    def serialized(self) -> dict[str, Any]:
        """Returns its config, without the dtype that the outer layer gives."""
        config = keras.saving.serialize_keras_object(self)
        owner = None if self._owner is None else self._owner()
        if owner is None:
            return config
        given, own = owner.dtype_policy, dict(config["config"])
        if isinstance(given, keras.dtype_policies.DTypePolicyMap) and self.path:
            given = given[self.path]
        given = keras.dtype_policies.serialize(given)
        if _unnumbered(own.get("dtype")) == _unnumbered(given):
            del own["dtype"]
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


def _unnumbered(config):
    """A config without the number by which a file refers to it again."""
    if not isinstance(config, dict):
        return config
    return {k: v for k, v in config.items() if k != "shared_object_id"}


def with_dtype(config, dtype):
    """Returns a config with a dtype, unless it already has one."""
    own = config.get("config")
    if not isinstance(own, dict) or dtype is None:
        return config
    return {**config, "config": {"dtype": dtype, **own}}

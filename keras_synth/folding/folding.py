"""`fold`: a model for inference."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import keras

from keras_synth._backend.checks import check_boolean, check_positive
from keras_synth._backend.internals import (
    cloned,
    compiled_like,
    is_functional,
    sublayers,
)
from keras_synth.attention import normalizers
from keras_synth.attention.positions import shortest
from keras_synth.folding.plain import check_plain, plain_model
from keras_synth.folding.synthesizers import (
    copy_variables,
    copy_vocabulary,
    fold_synthesizer,
)
from keras_synth.layers import SynthesizerDecoder, SynthesizerEncoder
from keras_synth.mixers import Mixer, SyntheticAttention
from keras_synth.synthesizers import Synthesizer
from keras_synth.types import Tensor


def fold(
    model: keras.Layer, max_length: int | None = None, plain: bool = False
) -> keras.Layer:
    """Returns a model for inference with equal outputs and less computation.

    - Synthesizers that read no token (R, FR, Fix, relative positions and
      their mixtures) become one table of attention weights, `softmax(S)`. If
      the logits of a row span more than 46, or T5's relative positions are
      added, they become a table of logits.
    - Alphas of mixtures are multiplied into keys and tables, unless the mixture
      is quantized.
    - Tables, including learned positions, are cut to `max_length`.

    Its weights are fixed.

    Args:
        model: A built `SyntheticAttention`, block, backbone or task of this
            library, or a `keras.Sequential` or functional `keras.Model` with
            such layers.
        max_length: Optional integer, the length of the longest sequence, in
            tokens; by default the model's own.
        plain: Whether the new model is a functional `keras.Model` of stock
            Keras layers and operations. Its file loads without this package.
            All sequences have `max_length` tokens; some may be padding. The
            plain form of a task is the graph from token ids to outputs,
            without the preprocessor.

    Returns:
        A new model of the same class, or a functional model with `plain`.

    Raises:
        ValueError: If the model has no weights yet, or no layer of this
            package; if a table would have no maximum length; if a layer with
            attention is not registered with `folded_config`; or if texts would
            be padded to another length and a mixer counts padding (`"fnet"`).
            With `plain`, if a part has no plain form.

    Example:

    >>> layer = keras_synth.layers.SyntheticAttention(
    ...     4, 16, synthesizer="R+FR", max_length=128)
    >>> x = keras.random.normal((2, 32, 64))
    >>> expected = layer(x)
    >>> folded = keras_synth.fold(layer, max_length=32)
    >>> bool(keras.ops.max(keras.ops.abs(folded(x) - expected)) < 1e-5)
    True
    >>> folded.count_params() < layer.count_params()
    True
    >>> plain = keras_synth.fold(layer, max_length=32, plain=True)
    >>> [type(part).__name__ for part in plain.layers[1:5]]
    ['Dense', 'Reshape', 'Permute', 'EinsumDense']
    """
    if max_length is not None:
        check_positive("max_length", max_length)
    check_boolean("plain", plain)
    if not isinstance(model, keras.Layer):
        raise ValueError(
            f"`model` must be a Keras layer or model. Received: model={model!r}"
        )
    if not model.built:
        raise ValueError(
            "Folding needs weights. Build the model, or call it on an input, "
            f"before `fold`. Received: {model!r}"
        )
    parts = (Mixer, Synthesizer)
    if not any(isinstance(x, parts) for x in [model, *sublayers(model)]):
        raise ValueError(
            "Folding needs a layer of keras_synth. Convert the model first, as "
            'in fold(surgery.graft(model, "V")). Received: '
            f"{model!r} without such a layer"
        )
    if plain:
        check_plain(model)
    folding = Folding(max_length)
    folded = folding.rebuilt(model)
    copy_variables(model, folded, folding.fill)
    folded.trainable = False
    if plain:
        return plain_model(folded, max_length)
    return compiled_like(model, folded)


@dataclasses.dataclass(frozen=True)
class Folding:
    """One call of `fold`, the argument of `folded_config`.

    Attributes:
        max_length: Optional integer, the length of the longest sequence, in
            tokens.
        softmax: Whether nothing is added to the logits of attention.
        fills: Dictionary: `id` of a synthesizer -> the function that sets the
            weights of its folded form.
        layers: Dictionary: `id` of a layer -> the folded layer.

    Example:

    >>> layer = keras_synth.layers.SyntheticAttention(
    ...     4, 16, synthesizer="R", max_length=128)
    >>> layer.build((None, None, 64))
    >>> folding = keras_synth.folding.Folding(max_length=32)
    >>> folding.config(layer)["config"]["max_length"]
    32
    """

    max_length: int | None
    softmax: bool = True
    fills: dict[int, Callable[[Any], None]] = dataclasses.field(
        default_factory=dict
    )
    layers: dict[int, Any] = dataclasses.field(default_factory=dict)

    def up_to(self, max_length: int | None) -> "Folding":
        """Returns the same for sequences up to a bound."""
        length = shortest(self.max_length, max_length)
        return dataclasses.replace(self, max_length=length)

    def rebuilt(self, layer: Tensor, **options: Any) -> Tensor:
        """Returns the folded layer, before its weights are copied."""
        # Models may share a layer with the models in them.
        if id(layer) not in self.layers:
            self.layers[id(layer)] = self._rebuilt(layer, options)
        return self.layers[id(layer)]

    def _rebuilt(self, layer, options):
        if is_functional(layer):
            return cloned(layer, self.rebuilt)
        config = {**folded_config(layer, self), **options}
        folded = type(layer).from_config(config)
        copy_vocabulary(layer, folded)
        if not getattr(folded, "built", True):  # operations are not
            folded.build_from_config(layer.get_build_config())
        keep_sampler(layer, folded)
        return folded

    def config(self, layer: Tensor) -> dict[str, Any]:
        """Returns the folded layer as a config with its class."""
        config = keras.saving.serialize_keras_object(layer)
        # The code that makes a layer from the config also builds it.
        config = {k: v for k, v in config.items() if k != "build_config"}
        return {**config, "config": folded_config(layer, self)}

    def synthesizer(self, synthesizer: Tensor) -> Any:
        """Returns the folded synthesizer as a config with its class."""
        folded, fill = fold_synthesizer(
            synthesizer, self.max_length, self.softmax
        )
        self.fills[id(synthesizer)] = fill
        return keras.saving.serialize_keras_object(folded)

    def fill(self, layer: Tensor, target: Tensor) -> bool:
        """Sets the weights of a folded synthesizer; False for other layers."""
        fill = self.fills.get(id(layer))
        if fill is not None:
            fill(target)
        return fill is not None


@functools.singledispatch
def folded_config(layer: Tensor, folding: Folding) -> dict[str, Any]:
    """Returns the config of a layer for inference.

    Register a function for a custom layer class that makes attention layers
    from its config.

    Args:
        layer: Layer with weights.
        folding: `Folding`, which folds parts: `folding.config(part)`.

    Raises:
        ValueError: If the layer contains attention, and no function is
            registered for its class.

    Example:

    >>> @keras.saving.register_keras_serializable("example")
    ... class Doubled(keras.layers.Wrapper):  # the wrapped one is `layer`
    ...     def call(self, x):
    ...         return 2 * self.layer(x)
    >>> @keras_synth.folding.folded_config.register(Doubled)
    ... def fold_doubled(layer, folding):
    ...     return {**layer.get_config(), "layer": folding.config(layer.layer)}
    >>> layer = Doubled(keras_synth.layers.SyntheticAttention(
    ...     4, 16, synthesizer="R", max_length=128))
    >>> layer.build((None, None, 64))
    >>> keras_synth.fold(layer, max_length=32).layer.synthesizer
    <TableSynthesizer name=synthesizer, built=True>
    """
    inside = [x for x in sublayers(layer) if isinstance(x, SyntheticAttention)]
    if inside:
        name = type(layer).__name__
        raise ValueError(
            f"{name} contains {inside[0].name!r}, and its class is not "
            "registered. Decorate with "
            f"`@keras_synth.folding.folded_config.register({name})` a function "
            "of the layer and a `Folding` that returns the layer's config with "
            f"configs of folded parts. Received: {layer!r}"
        )
    return layer.get_config()


@folded_config.register(SyntheticAttention)
def _attention(layer, folding):
    folding = folding.up_to(layer.max_length)
    if layer.normalizer != normalizers.SOFTMAX:
        folding = dataclasses.replace(folding, softmax=False)
    pattern, length = layer.pattern, folding.max_length
    if pattern is not None:
        pattern = pattern if length is None else pattern.cut(length)
        pattern = keras.saving.serialize_keras_object(pattern)
    synthesizer = folding.synthesizer(layer.synthesizer)
    if synthesizer["config"].get("long_inputs") == "error":
        length = synthesizer["config"]["max_length"]  # a custom one stays long
    return {
        **layer.get_config(),
        "synthesizer": synthesizer,
        "max_length": None if layer.max_length is None else length,
        "pattern": pattern,
    }


@folded_config.register(SynthesizerEncoder)
def _block(block, folding):
    folding = folding.up_to(block.max_length)
    return {
        **block.get_config(),
        "synthesizer": folding.config(block.attention),
        "max_length": None if block.max_length is None else folding.max_length,
    }


@folded_config.register(SynthesizerDecoder)
def _decoder(block, folding):
    config = _block(block, folding)
    length = shortest(block.max_source_length, folding.max_length)
    config["max_source_length"] = length
    if block.cross_attention is not None:
        folding = dataclasses.replace(folding, softmax=True)
        config["cross_synthesizer"] = folding.config(block.cross_attention)
    return config


def keep_sampler(task: Any, made: Any) -> None:
    """Compiles a new task with the sampler of the original, if it has one."""
    if getattr(task, "sampler", None) is not None:
        made.compile(sampler=task.sampler)

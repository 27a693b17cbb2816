"""Configs from signatures: the arguments of a layer's `__init__`."""

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import keras

from keras_synth._backend.policies import with_policies
from keras_synth.types import Mixin

_KINDS = {
    "activation": keras.activations,
    "initializer": keras.initializers,
    "regularizer": keras.regularizers,
    "constraint": keras.constraints,
}
_VARIABLE = (
    inspect.Parameter.VAR_POSITIONAL,
    inspect.Parameter.VAR_KEYWORD,
)
_PLAIN = (type(None), bool, int, float, str)


class Configured(Mixin):
    """A layer whose config has the arguments of its `__init__`.

    Each argument is an attribute of the same name, possibly with `_` before it,
    or an option of the layer's `_projections`. A class with its own
    `get_config` adds its arguments there.
    """

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        if hasattr(self, "_projections"):
            # A Keras layer has another `activity_regularizer`.
            config |= self._projections.get_config()
        for cls, own in _signatures(type(self)):
            if "get_config" not in vars(cls):
                config |= _values(self, [x for x in own if x not in config])
        return with_policies(self, config)


def config_of(
    layer: Any, cls: type, config: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the config of a base with the arguments of a class.

    An argument is the attribute of the same name. Existing entries of the
    config do not change.
    """
    names = [name for name in own_parameters(cls) if name not in config]
    return {**config, **_values(layer, names)}


def arguments_of(cls: type, scope: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments of a constructor from its `locals()`."""
    return {name: scope[name] for name in own_parameters(cls)}


def parameters_of(
    cls: type, end: type = keras.layers.Layer
) -> dict[str, inspect.Parameter]:
    """Returns the parameters of a class and its bases before `end`, by name."""
    found: dict[str, inspect.Parameter] = {}
    for _, own in _signatures(cls, end):
        found |= {k: v for k, v in own.items() if k not in found}
    return found


def _signatures(
    cls: type, end: type = keras.layers.Layer
) -> Iterator[tuple[type, dict[str, inspect.Parameter]]]:
    """Classes and their parameters, as long as `**kwargs` pass them on."""
    for base in inspect.getmro(cls):
        if base is end:
            break
        if "__init__" not in vars(base):
            continue
        yield base, own_parameters(base)
        if all(p.kind is not p.VAR_KEYWORD for p in _constructor(base)):
            break


def own_parameters(cls):
    """Parameters of a constructor, without `*args` and `**kwargs`, by name."""
    return {p.name: p for p in _constructor(cls) if p.kind not in _VARIABLE}


def _constructor(cls):
    # Not of the class: the metaclass of Flax NNX hides that.
    _, *own = inspect.signature(cls.__init__).parameters.values()
    return own


def _values(layer, names):
    """The arguments of a layer, in the form of a config."""
    config = {}
    for name in names:
        kept = name if hasattr(layer, name) else f"_{name}"
        if not hasattr(layer, kept):
            raise NotImplementedError(
                f"The config of {type(layer).__name__} needs each argument as "
                f"an attribute. Set `self.{name}`, or add the argument in the "
                f"class's `get_config`. Received: {layer!r} without it"
            )
        config[name] = serialized(name, getattr(layer, kept))
    return config


def serialized(name: str, value: Any) -> Any:
    """Returns the value of an argument in the form of a config.

    A method `serialized` of the value overrides this.
    """
    if hasattr(value, "serialized"):
        return value.serialized()
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, (list, tuple)):
        return type(value)(serialized(name, x) for x in value)
    if isinstance(value, dict):
        return value  # already a config
    kind = kind_of(name)
    if kind is None:
        return keras.saving.serialize_keras_object(value)
    return kind.serialize(value)


def kind_of(name: str) -> Any:
    """Returns Keras' module for the values of an argument, or `None`."""
    return _KINDS.get(name.rsplit("_", 1)[-1])

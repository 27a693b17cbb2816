"""Configs from signatures: a layer's config is what its `__init__` takes."""

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
    """A layer whose config holds what its `__init__` takes.

    Each argument is an attribute of the same name, which may begin with `_`,
    or an option of the layer's `_projections`. A class with a `get_config` of
    its own adds its arguments there.
    """

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        if hasattr(self, "_projections"):
            # A Keras layer has an `activity_regularizer` of its own.
            config |= self._projections.get_config()
        for cls, own in _signatures(type(self)):
            if "get_config" not in vars(cls):
                config |= _values(self, [x for x in own if x not in config])
        return with_policies(self, config)


def config_of(
    layer: Any, cls: type, config: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns a config with the arguments of a constructor.

    An argument is the attribute of the same name. What the config holds already
    stays as it is.

    Args:
        layer: A layer, model or preprocessor.
        cls: The class whose `get_config` this is called from.
        config: Dictionary, what the base's `get_config` returned.

    Raises:
        NotImplementedError: If there is no attribute of that name.
    """
    names = [name for name in _own_parameters(cls) if name not in config]
    return {**config, **_values(layer, names)}


def arguments_of(cls: type, scope: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments of a constructor, of its `locals()`."""
    return {name: scope[name] for name in _own_parameters(cls)}


def parameters_of(cls: type) -> dict[str, inspect.Parameter]:
    """Returns the parameters of a layer's class and of its bases, by name.

    Those of Keras' own classes are left out.
    """
    found: dict[str, inspect.Parameter] = {}
    for _, own in _signatures(cls):
        found |= {k: v for k, v in own.items() if k not in found}
    return found


def _signatures(
    cls: type,
) -> Iterator[tuple[type, dict[str, inspect.Parameter]]]:
    """Classes and their parameters, as far as `**kwargs` hand them on."""
    for base in inspect.getmro(cls):
        if base is keras.layers.Layer:
            break
        if "__init__" not in vars(base):
            continue
        yield base, _own_parameters(base)
        kinds = {p.kind for p in inspect.signature(base).parameters.values()}
        if inspect.Parameter.VAR_KEYWORD not in kinds:
            break


def _own_parameters(cls):
    """Parameters of a constructor but `*args` and `**kwargs`, by name."""
    _, *own = inspect.signature(cls.__init__).parameters.values()
    return {p.name: p for p in own if p.kind not in _VARIABLE}


def _values(layer, names):
    """What a layer was made with, as a config holds it."""
    config = {}
    for name in names:
        kept = name if hasattr(layer, name) else f"_{name}"
        if not hasattr(layer, kept):
            raise NotImplementedError(
                f"A config holds every argument of {type(layer).__name__}, as "
                f"an attribute of its name. Set `self.{name}`, or add it in a "
                f"`get_config` of the class. Received: {layer!r} without it"
            )
        config[name] = serialized(name, getattr(layer, kept))
    return config


def serialized(name: str, value: Any) -> Any:
    """Returns the value of an argument as a config holds it.

    One with a method `serialized` says itself how.
    """
    if hasattr(value, "serialized"):
        return value.serialized()
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, (list, tuple)):
        return type(value)(serialized(name, x) for x in value)
    if isinstance(value, dict):
        return value  # a config already
    kind = kind_of(name)
    if kind is None:
        return keras.saving.serialize_keras_object(value)
    return kind.serialize(value)


def kind_of(name: str) -> Any:
    """Returns Keras' module for the values of an argument, or `None`."""
    return _KINDS.get(name.rsplit("_", 1)[-1])

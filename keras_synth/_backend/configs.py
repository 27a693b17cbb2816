"""Configs by the signature: a layer's `get_config` is its `__init__`."""

import functools
import inspect
from collections.abc import Mapping
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


class Options:
    """Arguments of a layer that it passes on to its parts."""

    def get_config(self) -> dict[str, Any]:
        raise NotImplementedError


class Configured(Mixin):
    """A layer whose config holds what its `__init__` takes.

    Each argument is an attribute of the same name, which may begin with `_`,
    or an option of the layer's `_projections`. A class with a `get_config` of
    its own adds its arguments there.
    """

    def get_config(self) -> dict[str, Any]:
        names = [
            name
            for cls, own in _signatures(type(self))
            if "get_config" not in vars(cls)
            for name in own
        ]
        found = {name: _value(self, name) for name in names}
        config = {
            name: serialized(name, value)
            for name, value in found.items()
            if value is not _MISSING
        }
        options = getattr(self, "_projections", None)
        if isinstance(options, Options):
            # A Keras layer has an `activity_regularizer` of its own.
            config |= options.get_config()
        return with_policies(self, {**super().get_config(), **config})


def parameters_of(cls):
    """Returns the parameters of a layer's class, without those of Keras'.

    Those that its `**kwargs` go to are among them.

    Returns:
        Dictionary from names to `inspect.Parameter`s.
    """
    found = {}
    for _, own in _signatures(cls):
        found = {**found, **{k: v for k, v in own.items() if k not in found}}
    return found


def _signatures(cls):
    """Classes and their parameters, as far as `**kwargs` hand them on."""
    for base in inspect.getmro(cls):
        if base is keras.layers.Layer:
            break
        if "__init__" not in vars(base):
            continue
        own = [*inspect.signature(base.__init__).parameters.values()][1:]
        yield base, {p.name: p for p in own if p.kind not in _VARIABLE}
        if not own or own[-1].kind is not inspect.Parameter.VAR_KEYWORD:
            break


def config_of(
    layer: Any, cls: type, config: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns a config with the arguments of a constructor.

    An argument is the attribute of the same name: initializers, regularizers,
    constraints and activations in the form that `keras.saving` has for them,
    others as they are. What the base's config holds already stays as it is.

    Args:
        layer: A layer, model or preprocessor.
        cls: The class whose constructor is meant: one that the layer is an
            instance of, whose `get_config` this is called from.
        config: Dictionary, what the base's `get_config` returned: of the
            bases to which `**kwargs` go.

    Returns:
        A new dictionary.

    Example:

    ```python
    def get_config(self):
        return config_of(self, FeedForward, super().get_config())
    ```
    """
    own = [name for name in parameters(cls) if name not in config]
    return {
        **config,
        **{name: serialized(name, getattr(layer, name)) for name in own},
    }


def arguments_of(cls: type, scope: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments of a constructor by name.

    Args:
        cls: The class.
        scope: What `locals()` returned in its `__init__`.
    """
    return {name: scope[name] for name in parameters(cls)}


@functools.cache
def parameters(cls: Any) -> tuple[str, ...]:
    """Returns the names of a constructor's parameters, `*args` left out."""
    _, *own = inspect.signature(cls.__init__).parameters.values()
    return tuple(one.name for one in own if one.kind not in _VARIABLE)


def serialized(name, value):
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
    kind = _KINDS.get(name.rsplit("_", 1)[-1], keras.saving)
    if kind is keras.saving:
        return keras.saving.serialize_keras_object(value)
    return kind.serialize(value)


_MISSING = object()


def _value(layer, name):
    """What a layer was made with, as it keeps it."""
    return getattr(layer, name, getattr(layer, f"_{name}", _MISSING))

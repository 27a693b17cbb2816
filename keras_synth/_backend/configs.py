"""Configs of layers, from the parameters of their constructors."""

import functools
import inspect
from collections.abc import Mapping
from typing import Any

import keras

_SERIALIZED = (
    keras.initializers.Initializer,
    keras.regularizers.Regularizer,
    keras.constraints.Constraint,
)


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
        **{name: _serialized(getattr(layer, name)) for name in own},
    }


def arguments_of(cls: type, scope: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments of a constructor by name.

    Args:
        cls: The class.
        scope: What `locals()` returned in its `__init__`.
    """
    return {name: scope[name] for name in parameters(cls)}


@functools.cache
def parameters(cls: type) -> tuple[str, ...]:
    """Returns the names of a constructor's parameters, `*args` left out."""
    _, *own = inspect.signature(cls.__init__).parameters.values()
    several = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    return tuple(one.name for one in own if one.kind not in several)


def _serialized(value):
    if isinstance(value, _SERIALIZED):
        return keras.saving.serialize_keras_object(value)
    return keras.activations.serialize(value) if callable(value) else value

"""Public functions, classes and methods say their types.

A method that overrides another need not repeat them.
"""

import importlib
import inspect

import pytest

import keras_synth

pytestmark = pytest.mark.once

OTHERS = ("__version__", "fold", "register")  # which are not modules
PUBLIC = [name for name in keras_synth.__all__ if name not in OTHERS]


def functions(module):
    """`(name, function)` of all that users of a module call or override."""
    found = {}
    for name in getattr(module, "__all__", None) or own_names(module):
        thing = getattr(module, name)
        if inspect.ismodule(thing):
            found |= functions(thing)
        elif inspect.isclass(thing):
            found |= methods(thing)
        elif callable(thing):
            found[f"{module.__name__}.{name}"] = inspect.unwrap(thing)
    return found


def own_names(module):
    return [
        name
        for name, thing in vars(module).items()
        if getattr(thing, "__module__", None) == module.__name__
        and not name.startswith("_")
    ]


def methods(cls):
    """Methods of a class and of its bases here, whoever they are."""
    found = {}
    for at, base in enumerate(cls.__mro__):
        if not base.__module__.startswith("keras_synth."):
            continue
        for name, thing in vars(base).items():
            if isinstance(thing, property):
                thing = thing.fget
            thing = inspect.unwrap(getattr(thing, "__func__", thing))
            # Not what dataclasses and named tuples generate.
            written = inspect.isfunction(thing) and (
                thing.__code__.co_filename == inspect.getsourcefile(base)
            )
            called = name in ("__init__", "__call__") or name[0] != "_"
            overrides = name != "__init__" and any(
                name in vars(other) for other in cls.__mro__[at + 1 :]
            )
            if written and called and not overrides:
                found[f"{base.__module__}.{base.__qualname__}.{name}"] = thing
    return found


def without_types(function):
    """Names of the parameters that have no annotation, "return" as well."""
    signature = inspect.signature(function)
    missing = [
        name
        for name, parameter in signature.parameters.items()
        if parameter.annotation is inspect.Parameter.empty
        and name not in ("self", "cls")
    ]
    if signature.return_annotation is inspect.Signature.empty:
        missing.append("return")
    return missing


@pytest.mark.parametrize("name", PUBLIC)
def test_all_public_signatures_are_annotated(name):
    found = functions(importlib.import_module(f"keras_synth.{name}"))
    assert found
    missing = {
        name: names
        for name, function in found.items()
        if (names := without_types(function))
    }
    assert not missing

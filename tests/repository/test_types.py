"""Public functions, classes and methods say their types.

A method that overrides another need not repeat them.
"""

import inspect

import public
import pytest

pytestmark = pytest.mark.once

pytest.importorskip("keras_hub")


def functions():
    """`(name, function)` of all that users call or override."""
    for name, thing in public.names().items():
        if name in public.NAMES:
            continue  # for whoever extends the package
        if inspect.isclass(thing):
            bases = thing.__mro__
            for at, base in enumerate(bases):
                if base.__module__.startswith("keras_synth."):
                    yield from methods(base, bases[at + 1 :])
        elif callable(thing):
            yield name, inspect.unwrap(thing)


def methods(cls, bases):
    """The methods that a class has and none of its bases has."""
    for name, thing in vars(cls).items():
        thing = getattr(thing, "fget", getattr(thing, "__func__", thing))
        thing = inspect.unwrap(thing)
        # Not what dataclasses and named tuples generate.
        is_written = inspect.isfunction(thing) and (
            thing.__code__.co_filename == inspect.getsourcefile(cls)
        )
        is_public = name in ("__init__", "__call__") or name[0] != "_"
        is_override = name != "__init__" and any(
            name in vars(base) for base in bases
        )
        if is_written and is_public and not is_override:
            yield f"{cls.__qualname__}.{name}", thing


def test_all_public_signatures_are_annotated():
    missing, count = {}, 0
    for name, function in functions():
        signature, count = inspect.signature(function), count + 1
        types = {x.name: x.annotation for x in signature.parameters.values()}
        types |= {"return": signature.return_annotation}
        missing[name] = [
            key
            for key, found in types.items()
            if found is inspect.Signature.empty and key not in ("self", "cls")
        ]
    assert count > 300
    assert not {name: keys for name, keys in missing.items() if keys}

"""Mixers by name: the table of names, `get` and `check`."""

import inspect
import sys
from typing import Any

import keras

from keras_synth import identifiers, synthesizers
from keras_synth._backend.configs import parameters_of
from keras_synth.attention import normalizers, patterns
from keras_synth.attention.projections import Projections
from keras_synth.identifiers import did_you_mean, formatted
from keras_synth.mixers.additive import AdditiveAttention
from keras_synth.mixers.big_bird import BigBirdAttention
from keras_synth.mixers.compressed import CompressedAttention
from keras_synth.mixers.dynamic_convolution import DynamicConvolution
from keras_synth.mixers.fourier import FourierMixer
from keras_synth.mixers.gated_mlp import GatedMLP
from keras_synth.mixers.light_convolution import LightConvolution
from keras_synth.mixers.linear import LinearAttention
from keras_synth.mixers.linformer import LinformerAttention
from keras_synth.mixers.local import LocalAttention
from keras_synth.mixers.longformer import LongformerAttention
from keras_synth.mixers.mixer import Mixer
from keras_synth.mixers.mlp import MLPMixer
from keras_synth.mixers.performer import PerformerAttention
from keras_synth.mixers.pooling import PoolingMixer
from keras_synth.mixers.reformer import ReformerAttention
from keras_synth.mixers.relu import ReLUAttention
from keras_synth.mixers.routing import RoutingAttention
from keras_synth.mixers.sinkhorn import SinkhornAttention
from keras_synth.mixers.sparse import StridedAttention
from keras_synth.mixers.synthetic_attention import SyntheticAttention
from keras_synth.synthesizers import Synthesizer
from keras_synth.synthesizers import names as synthesizer_names
from keras_synth.types import Identifier

# One line per name. Its options are the arguments of the class.
_MIXERS = {
    "attention": SyntheticAttention,
    "big_bird": BigBirdAttention,
    "fnet": FourierMixer,
    "light_conv": LightConvolution,
    "dynamic_conv": DynamicConvolution,
    "pooling": PoolingMixer,
    "mlp_mixer": MLPMixer,
    "gmlp": GatedMLP,
    "linear": LinearAttention,
    "compressed": CompressedAttention,
    "linformer": LinformerAttention,
    "performer": PerformerAttention,
    "reformer": ReformerAttention,
    "routing": RoutingAttention,
    "sinkhorn": SinkhornAttention,
    "additive": AdditiveAttention,
    "relu": ReLUAttention,
    "local": LocalAttention,
    "longformer": LongformerAttention,
    "strided": StridedAttention,
}

_KNOWN = ", ".join(f'"{name}"' for name in _MIXERS)
_EXPECTED = f"{synthesizer_names.EXPECTED}; or a mixer, {_KNOWN}"

_GIVEN = ("num_heads", "key_dim", "max_length")
_LAYER = ("dtype", "name", "trainable")


def get(
    identifier: Identifier,
    num_heads: int | None = None,
    key_dim: int | None = None,
    max_length: int | None = None,
    *,
    defaults: dict[str, Any] | None = None,
    **options: Any,
) -> keras.Layer:
    """Makes a mixer from what a user may write.

    Args:
        identifier: A `Mixer`, which is returned as it is; a config dictionary
            of one; its name (`"fnet"`), with options in brackets; or a
            synthesizer: whatever `keras_synth.synthesizers.get` takes, such as
            `"FR(rank=32) + V"`, for a `SyntheticAttention` around it.
        num_heads: Integer, `H`. Mixers with heads need it.
        key_dim: Integer, features per head, `k`. Mixers with heads need it.
        max_length: Integer, the most tokens; length-bound mixers need it.
        defaults: Optional dictionary of options for those mixers that have
            them and do not set them otherwise. Mixers and their configs stay
            as they are.
        **options: Options of the name, in place of brackets, and arguments of
            the layer: `dtype`, `name`, and of a `SyntheticAttention` all of
            its arguments. An integer `seed` makes dropout and the initial
            values of named synthesizers reproducible.

    Returns:
        A layer with the call of `keras.layers.MultiHeadAttention`, a new one
        for each name or config.

    Raises:
        ValueError: If a name or an option is unknown, what a name needs is
            missing, or an object or config does not fit the other arguments.

    Example:

    >>> keras_synth.mixers.get("fnet", name="mixer")
    <FourierMixer name=mixer, built=False>
    >>> keras_synth.mixers.get(
    ...     "attention(R + V, pattern='local(window=16)', normalizer='relu')",
    ...     num_heads=8, key_dim=64, max_length=512, name="attention")
    <SyntheticAttention name=attention, built=False>
    >>> keras_synth.mixers.get("FR + V", num_heads=8, key_dim=64,
    ...                        max_length=512, name="attention")
    <SyntheticAttention name=attention, built=False>
    """
    given = dict(zip(_GIVEN, (num_heads, key_dim, max_length), strict=True))
    defaults = defaults or {}
    cls = mixer_class(identifier)
    if is_named(identifier):
        arguments = _arguments(cls, identifier, given, defaults, options)
        return _named(cls, identifier, arguments, options)
    if not is_mixer(identifier):
        return _attention(identifier, given, {**defaults, **options})
    if options:
        raise ValueError(
            "Options are for names: objects and configs have their own. "
            f"Received: {identifier!r} with {formatted(options)}"
        )
    if isinstance(identifier, dict):
        identifier = keras.saving.deserialize_keras_object(identifier)
    _check_agreement(num_heads, getattr(identifier, "num_heads", None))
    return identifier


def check(identifier, num_heads, max_length=None):
    """Raises what `get` would raise before it makes a mixer.

    No layer is made for it. What a class says to the values of its options,
    only `get` can tell.

    Args:
        identifier: As for `get`.
        num_heads: Integer, `H`.
        max_length: Integer, in tokens; `None` if not known.

    Raises:
        ValueError: As `get` does.
    """
    cls = mixer_class(identifier)
    if is_named(identifier):
        given = {"num_heads": num_heads, "key_dim": 1, "max_length": max_length}
        own = _arguments(cls, identifier, given, {}, {})
        _check_choices(own, num_heads, own.get("max_length"))
    elif isinstance(identifier, dict) and is_mixer(identifier):
        _check_agreement(num_heads, identifier["config"].get("num_heads"))
    elif is_mixer(identifier):
        _check_agreement(num_heads, getattr(identifier, "num_heads", None))
    else:
        synthesizer_names.check(identifier, num_heads, max_length)


def mixer_class(identifier):
    """Returns the class of the mixer that `get` would make.

    Its attributes say what the mixer supports, before there is one.

    Args:
        identifier: As for `get`.

    Raises:
        ValueError: If it is unknown.
    """
    if isinstance(identifier, str):
        return _class_named(identifier)
    if isinstance(identifier, Mixer):
        return type(identifier)
    cls = _class_of_config(identifier)
    if isinstance(cls, type) and issubclass(cls, Mixer):
        return cls
    synthesizer = isinstance(identifier, (Synthesizer, dict))
    if not synthesizer:
        raise ValueError(
            "A mixer must be a keras_synth.mixers.Mixer, a Synthesizer, a "
            f"config of one, or a name: {_EXPECTED}. Received: {identifier!r}"
        )
    return SyntheticAttention


def _class_named(identifier):
    terms = identifiers.read(identifier, _EXPECTED)
    names = [term.name.lower() for term in terms]
    for term, name in zip(terms, names, strict=True):
        known = [*_MIXERS, *synthesizer_names.SPELLINGS]
        if name not in known:
            raise ValueError(
                f"Unknown synthesizer {term.name!r}."
                f"{did_you_mean(name, known)} Expected {_EXPECTED}. "
                f"Received: {identifier!r}"
            )
    found = [name for name in names if name in _MIXERS]
    if not found:
        return SyntheticAttention
    if len(names) > 1:
        found = [x for x in found if x not in synthesizer_names.SPELLINGS]
        if not found:
            return SyntheticAttention
        raise ValueError(
            f'"{found[0]}" has no logits to add: sums are of synthesizers '
            f"alone. Received: {identifier!r}"
        )
    if terms[0].heads is not None:
        raise ValueError(
            "Numbers of heads stand within heads alone, and before "
            f"synthesizers alone. Received: {identifier!r}"
        )
    if terms[0].parts and "synthesizer" not in parameters_of(_MIXERS[found[0]]):
        raise ValueError(
            f'"{found[0]}" takes options with their names alone, option=value. '
            f"Received: {identifier!r}"
        )
    return _MIXERS[found[0]]


def is_named(identifier):
    """Whether it is the name of a mixer: no synthesizer and no sum of them."""
    if not isinstance(identifier, str):
        return False
    first, *others = identifiers.read(identifier, _EXPECTED)
    return not others and first.name.lower() in _MIXERS


def _class_of_config(identifier):
    if not isinstance(identifier, dict) or "config" not in identifier:
        return None
    name = identifier.get("registered_name") or identifier.get("class_name")
    cls = keras.saving.get_registered_object(name)
    module = sys.modules.get(identifier.get("module"))
    return cls or getattr(module, str(identifier.get("class_name")), None)


def is_mixer(identifier):
    """Whether it is a mixer or a config of one."""
    cls = _class_of_config(identifier)
    return isinstance(identifier, Mixer) or (
        isinstance(cls, type) and issubclass(cls, Mixer)
    )


def _named(cls, identifier, arguments, options):
    try:
        return cls(**_with_synthesizer(arguments))
    except ValueError:
        raise
    except Exception as error:  # a value of any type may stand in brackets
        raise ValueError(
            f"Cannot make a mixer with such options: {error} "
            f"Received: {identifier!r} with {formatted(options)}"
        ) from error


def _arguments(cls, identifier, given, defaults, options):
    """Returns the arguments that a class is made with, checked by name."""
    (term,) = identifiers.read(identifier, _EXPECTED)
    # A synthesizer needs no name in brackets.
    synthesizer = identifiers.spelled(term.parts)
    parts = {"synthesizer": synthesizer} if term.parts else {}
    names = [*parts, *term.options, *options]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(
            f"Pass {twice} once: in brackets or as keyword arguments, not "
            f"both. Received: {identifier!r} with {formatted(options)}"
        )
    parameters = parameters_of(cls)
    known = [*parameters, *_LAYER]
    options = {**parts, **term.options, **options}
    for option in options:
        if option not in known:
            raise ValueError(
                f'"{term.name}" has no option `{option}`.'
                f"{did_you_mean(option, known)} "
                f"It has the options {', '.join(known)}."
                f" Received: {option} with {identifier!r}"
            )
    arguments = {
        **{k: v for k, v in given.items() if k in known and v is not None},
        **{k: v for k, v in defaults.items() if k in known},
        **options,
    }
    for name, parameter in parameters.items():
        if parameter.default is parameter.empty and name not in arguments:
            raise ValueError(
                f'The mixer "{term.name}" needs `{name}`; it is never '
                f"inferred. Pass {name}=<a value>. Received: {identifier!r}"
            )
    return arguments


def _check_choices(arguments, num_heads, max_length):
    """Raises unless there are such a synthesizer, pattern and normalizer."""
    if "synthesizer" in arguments:
        synthesizer = arguments["synthesizer"]
        synthesizer_names.check(synthesizer, num_heads, max_length)
    if arguments.get("pattern") is not None:
        patterns.get(arguments["pattern"])
    if "normalizer" in arguments:
        normalizers.get(arguments["normalizer"])


def _attention(identifier, given, options):
    """Makes a `SyntheticAttention` around a synthesizer."""
    known = (*inspect.signature(SyntheticAttention).parameters, *_LAYER)
    layer = {k: v for k, v in options.items() if k in known}
    own = {k: v for k, v in options.items() if k not in known}
    arguments = {**given, **layer, "synthesizer": identifier}
    return SyntheticAttention(**_with_synthesizer(arguments, own))


def _with_synthesizer(arguments, options=None):
    """Arguments of a mixer whose synthesizer has options, or the mixer's seed.

    Args:
        arguments: Dictionary of the mixer's arguments.
        options: Optional dictionary of the synthesizer's own.
    """
    identifier, seed = arguments.get("synthesizer"), arguments.get("seed")
    options = dict(options or {})
    if isinstance(identifier, str) and seed is not None:
        options["seed"] = seed
    if not options:
        return arguments
    shared = ("dtype", *Projections.defaults)
    made = synthesizers.get(
        identifier,
        **{name: arguments.get(name) for name in _GIVEN},
        use_bias=arguments.get("use_bias", True),
        defaults={k: v for k, v in arguments.items() if k in shared},
        **options,
    )
    return {**arguments, "synthesizer": made}


def _check_agreement(num_heads, own_heads):
    if None not in (num_heads, own_heads) and num_heads != own_heads:
        raise ValueError(
            "The mixer must have as many heads as the layer around it. "
            f"Received: num_heads={num_heads}, mixer.num_heads={own_heads}"
        )

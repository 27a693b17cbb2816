"""Mixers by name: `get` and `check`; `__init__.py` has the names."""

from typing import Any

import keras

from keras_synth import synthesizers
from keras_synth._backend.configs import parameters_of
from keras_synth.attention import normalizers, patterns
from keras_synth.attention.projections import Projections
from keras_synth.identifiers import read
from keras_synth.mixers.mixer import Mixer
from keras_synth.mixers.synthetic_attention import SyntheticAttention
from keras_synth.registry import (
    Entry,
    Registry,
    check_agreement,
    check_no_options,
    class_of,
    merged,
)
from keras_synth.synthesizers import Synthesizer
from keras_synth.synthesizers import registry as of_synthesizers
from keras_synth.synthesizers.registry import with_projections
from keras_synth.types import Identifier

MIXERS = Registry(
    "mixer",
    Mixer,
    layer=("dtype", "name", "trainable"),
    parameters=lambda cls: with_projections(parameters_of(cls)),
    listing="keras_synth.mixers.names()",
)
ATTENTION = Entry("attention", SyntheticAttention)
# Options of an attention layer that its synthesizer has, too.
_SHARED = ("dtype", "seed", *Projections.defaults)


def names() -> list[str]:
    """Returns the names of all mixers, those of synthesizers left out."""
    return [*MIXERS.entries]


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
    sizes = {"num_heads": num_heads, "key_dim": key_dim}
    sizes["max_length"] = max_length
    defaults = defaults or {}
    term = _term(identifier)
    if term is None and is_mixer(identifier):
        check_no_options(identifier, options)
        if isinstance(identifier, dict):
            identifier = keras.saving.deserialize_keras_object(identifier)
        check_agreement("mixer", identifier, num_heads, None)
        return identifier
    if term is None:
        entry, made = ATTENTION, identifier
        own = {*options} - {*MIXERS.options(entry)}
        if own:
            shared = {**defaults, **options}
            made = synthesizers.get(
                identifier,
                **sizes,
                use_bias=shared.get("use_bias", True),
                defaults={k: v for k, v in shared.items() if k in _SHARED},
                **{k: options.pop(k) for k in own},
            )
        options["synthesizer"] = made
    else:
        entry = MIXERS.find(term.name)
        options = _options(entry, term, options, identifier)
    arguments = MIXERS.arguments(entry, options, sizes, defaults, identifier)
    return MIXERS.make(entry, arguments, identifier)


def check(
    identifier: Identifier, num_heads: int, max_length: int | None = None
) -> None:
    """Raises what `get` would raise before it makes a mixer.

    No layer is made. Only `get` checks the values of options, and configs.
    """
    term = _term(identifier)
    if term is None and is_mixer(identifier):
        check_agreement("mixer", identifier, num_heads, None)
    elif term is None:
        of_synthesizers.check(identifier, num_heads, max_length)
    else:
        entry = MIXERS.find(term.name)
        sizes = {"num_heads": num_heads, "key_dim": 1, "max_length": max_length}
        own = _options(entry, term, {}, identifier)
        own = MIXERS.arguments(entry, own, sizes, {}, identifier)
        if "synthesizer" in own:
            length = own.get("max_length")
            of_synthesizers.check(own["synthesizer"], num_heads, length)
        if own.get("pattern") is not None:
            patterns.get(own["pattern"])
        normalizers.get(own.get("normalizer", "softmax"))


def mixer_class(identifier: Identifier) -> type[Mixer]:
    """Returns the class of the mixer that `get` would make, or raises.

    Its attributes say what the mixer supports, before there is one.
    """
    term = _term(identifier)
    if term is not None:
        return MIXERS.find(term.name).cls
    if isinstance(identifier, str):
        of_synthesizers.tree(identifier)
        return SyntheticAttention
    cls = class_of(identifier) or Synthesizer
    if not issubclass(cls, (Mixer, Synthesizer)):
        raise of_synthesizers.not_one(identifier, "Mixer or Synthesizer")
    return cls if issubclass(cls, Mixer) else SyntheticAttention


def is_mixer(identifier: Identifier) -> bool:
    """Whether it is a mixer, a config of one, or a name of no synthesizer."""
    is_named = _term(identifier) is not None
    return is_named or issubclass(class_of(identifier) or object, Mixer)


def _term(identifier):
    """The term of a mixer's name; `None` for everything else."""
    if not isinstance(identifier, str):
        return None
    known = f"{of_synthesizers.expected()}; or a mixer: {MIXERS.described()}"
    term, *others = read(identifier, known)
    found = not others and MIXERS.find(term.name)
    if found and term.heads is not None:
        raise ValueError(
            "Numbers of heads are only allowed inside of heads(...), before "
            f"synthesizers. Received: {identifier!r}"
        )
    return term if found else None


def _options(entry, term, options, identifier):
    """Options of a mixer's name; a sum in its brackets is a synthesizer."""
    inner = " + ".join(part.text for part in term.parts)
    if inner and "synthesizer" not in MIXERS.options(entry):
        raise ValueError(
            f'"{entry.name}" takes options by name, option=value, and '
            f"contains no synthesizer. Received: {identifier!r}"
        )
    if inner:
        own = term._replace(options={"synthesizer": inner})
        options = merged(own, options, identifier)
    return merged(term, options, identifier)

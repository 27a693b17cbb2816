"""Mixers by name: `get` and `check`; `__init__.py` has the names."""

from typing import Any

import keras

from keras_synth import synthesizers
from keras_synth._backend.configs import parameters_of
from keras_synth.attention import normalizers, patterns
from keras_synth.identifiers import Term, read
from keras_synth.mixers.mixer import Mixer
from keras_synth.mixers.synthetic_attention import SyntheticAttention
from keras_synth.registry import (
    Entry,
    Registry,
    check_agreement,
    class_of,
    merged,
)
from keras_synth.synthesizers import Synthesizer
from keras_synth.synthesizers import registry as of_synthesizers
from keras_synth.synthesizers.registry import (
    SHARED,
    SYNTHESIZERS,
    with_projections,
)
from keras_synth.types import Identifier

MIXERS = Registry(
    "mixer",
    Mixer,
    layer=("dtype", "name", "trainable"),
    parameters=lambda cls: with_projections(parameters_of(cls)),
    names="a name from `keras_synth.mixers.names()`",
)
ATTENTION = Entry("attention", SyntheticAttention)


def names() -> list[str]:
    """Returns the names of all mixers, without those of synthesizers."""
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
    """Makes a mixer from a name, a config or an object.

    Args:
        identifier: A `Mixer`, which is returned unchanged; its config; its name
            (`"fnet"`), with options in brackets; or an identifier of
            `keras_synth.synthesizers.get`, such as `"FR(rank=32) + V"`, for a
            `SyntheticAttention` around it.
        num_heads: Integer, `H`. Required for mixers with heads.
        key_dim: Integer, features per head, `k`. Required for mixers with
            heads.
        max_length: Integer, longest sequence, in tokens. Required for
            length-bound mixers.
        defaults: Optional dictionary of default options for the mixers that
            have them. Mixers and their configs do not use it.
        **options: Options of the name, instead of brackets, and `dtype`, `name`
            and, for a `SyntheticAttention`, all of its arguments. An integer
            `seed` makes dropout and the initial values of named synthesizers
            reproducible.

    Returns:
        A layer with the call of `keras.layers.MultiHeadAttention`. Names and
        configs make a new one.

    Raises:
        ValueError: If a name or option is unknown, a required argument is
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
    sizes: dict[str, Any] = {"num_heads": num_heads, "key_dim": key_dim}
    sizes["max_length"] = max_length
    defaults = defaults or {}
    term = _term(identifier)
    if term is None and is_mixer(identifier):
        mixer = MIXERS.loaded(identifier, options)
        check_agreement("mixer", mixer, num_heads, None)
        return mixer
    if term is None:
        entry, made = ATTENTION, identifier
        own = {*options} - {*MIXERS.options(entry)}
        if own:
            shared = {**defaults, **options}
            made = synthesizers.get(
                identifier,
                **sizes,
                defaults={k: v for k, v in shared.items() if k in SHARED},
                **{k: options.pop(k) for k in own},
            )
        around = Term(entry.name, {"synthesizer": made})
        options = merged(around, options, identifier)
    else:
        entry = MIXERS.find(term.name)
        options = _options(entry, term, options, identifier)
    arguments = MIXERS.arguments(entry, options, sizes, defaults, identifier)
    return MIXERS.make(entry, arguments, identifier)


def check(
    identifier: Identifier, num_heads: int, max_length: int | None = None
) -> None:
    """Raises the errors that `get` raises before it makes a mixer.

    It makes no layer. Only `get` checks the values of options, and configs.
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
    """Returns the class of the mixer that `get` makes, or raises.

    Attributes of the class say what the mixer will support.
    """
    term = _term(identifier)
    if term is not None:
        return MIXERS.find(term.name).cls
    if isinstance(identifier, str):
        of_synthesizers.tree(identifier)
        return SyntheticAttention
    cls = class_of(identifier) or Synthesizer
    if not issubclass(cls, (Mixer, Synthesizer)):
        raise SYNTHESIZERS.wrong_type(identifier, "Mixer or Synthesizer")
    return cls if issubclass(cls, Mixer) else SyntheticAttention


def is_mixer(identifier: Identifier) -> bool:
    """Whether it is a mixer, its config, or its name."""
    is_named = _term(identifier) is not None
    return is_named or issubclass(class_of(identifier) or object, Mixer)


def _term(identifier):
    """The term of a mixer's name, or `None` for other identifiers."""
    if not isinstance(identifier, str):
        return None
    known = f"{SYNTHESIZERS.described()}; or a mixer: {MIXERS.described()}"
    term, *others = read(identifier, known)
    found = not others and MIXERS.find(term.name)
    if found and term.heads is not None:
        raise ValueError(
            "Head counts are allowed only inside heads(...), before "
            f"synthesizers. Received: {identifier!r}"
        )
    return term if found else None


def _options(entry, term, options, identifier):
    """Options of a mixer's name; a sum in its brackets is a synthesizer."""
    inner = " + ".join(part.text for part in term.parts)
    if inner and "synthesizer" not in MIXERS.options(entry):
        raise ValueError(
            f'"{entry.name}" does not contain a synthesizer. Write options as '
            f"option=value. Received: {identifier!r}"
        )
    if inner:
        own = term._replace(options={"synthesizer": inner})
        options = merged(own, options, identifier)
    return merged(term, options, identifier)

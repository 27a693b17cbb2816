"""Synthesizers by name: the table of names, `get` and `check`."""

import functools
import inspect
from typing import Any, NamedTuple

import keras

from keras_synth import identifiers
from keras_synth._backend.seeds import derived
from keras_synth.attention.projections import Projections
from keras_synth.identifiers import Term, did_you_mean, formatted
from keras_synth.synthesizers.additive import AdditiveSynthesizer
from keras_synth.synthesizers.composite import CompositeSynthesizer
from keras_synth.synthesizers.dense import DenseSynthesizer
from keras_synth.synthesizers.dot_product import DotProductSynthesizer
from keras_synth.synthesizers.factorized_dense import (
    FactorizedDenseSynthesizer,
)
from keras_synth.synthesizers.hand_made import (
    GaussianSynthesizer,
    PatternSynthesizer,
)
from keras_synth.synthesizers.heads import HeadGroupsSynthesizer
from keras_synth.synthesizers.local_dense import LocalDenseSynthesizer
from keras_synth.synthesizers.mixture import MixtureSynthesizer
from keras_synth.synthesizers.random import (
    FactorizedRandomSynthesizer,
    RandomSynthesizer,
)
from keras_synth.synthesizers.relative import (
    AlibiSynthesizer,
    RelativeSynthesizer,
    T5RelativeSynthesizer,
)
from keras_synth.synthesizers.synthesizer import (
    Synthesizer,
    unbuilt_from_config,
)
from keras_synth.types import Identifier


class _Name(NamedTuple):
    """What a name stands for."""

    letter: str | None  # the paper's
    cls: type
    fixed: dict = {}  # arguments that are no options of the name

    @property
    def composite(self):
        return issubclass(self.cls, CompositeSynthesizer)


# One line per name. Its options are the arguments of the class.
_NAMES = {
    "dot_product": _Name("V", DotProductSynthesizer),
    "dense": _Name("D", DenseSynthesizer),
    "random": _Name("R", RandomSynthesizer),
    "fixed_random": _Name("Fix", RandomSynthesizer, {"fixed": True}),
    "factorized_dense": _Name("FD", FactorizedDenseSynthesizer),
    "factorized_random": _Name("FR", FactorizedRandomSynthesizer),
    "local_dense": _Name(None, LocalDenseSynthesizer),
    "relative": _Name(None, RelativeSynthesizer),
    "alibi": _Name(None, AlibiSynthesizer),
    "t5_relative": _Name(None, T5RelativeSynthesizer),
    "gaussian": _Name(None, GaussianSynthesizer),
    "pattern": _Name(None, PatternSynthesizer),
    "additive": _Name(None, AdditiveSynthesizer),
    "mixture": _Name(None, MixtureSynthesizer),
    "heads": _Name(None, HeadGroupsSynthesizer),
}

SPELLINGS = {name: name for name in _NAMES} | {
    entry.letter.lower(): name for name, entry in _NAMES.items() if entry.letter
}

_KNOWN = ", ".join(
    f'"{name}" ("{entry.letter}")' if entry.letter else f'"{name}"'
    for name, entry in _NAMES.items()
    if not entry.composite
)
EXPECTED = (
    f'{_KNOWN}, a sum of them such as "FR(rank=32) + V", or groups of heads '
    'such as "heads(V=4, R=4)"'
)

# Which argument of `get` a class takes as which.
_GIVEN = {
    "num_heads": "num_heads",
    "key_dim": "key_dim",
    "hidden_dim": "key_dim",
    "max_length": "max_length",
}

# Options of a sum that reach its parts, and those of layers.
_SHARED = ("dtype", "seed", "use_bias", *Projections.defaults)
_LAYER = ("dtype", "name", "seed", "trainable")


def get(
    identifier: Identifier,
    num_heads: int | None = None,
    key_dim: int | None = None,
    max_length: int | None = None,
    use_bias: bool = True,
    *,
    defaults: dict[str, Any] | None = None,
    **options: Any,
) -> Synthesizer:
    """Makes a synthesizer from a name, a config or an object.

    Args:
        identifier: A `Synthesizer`, which is returned as it is; a config
            dictionary of one; a name (`"dot_product"`, `"dense"`, `"random"`,
            `"fixed_random"`, `"factorized_dense"`, `"factorized_random"`) or
            the paper's letters for it (V, D, R, Fix, FD, FR), in any case; or
            a sum of names for a mixture: `"R+V"`, `"random + dot_product"`.
            A name may have options in brackets, the arguments of its class as
            Python literals: `"FR(rank=32) + V"`. A mixture with options, or
            within another, is written
            `"mixture(dense + V, share_queries=True)"`.
        num_heads: Integer, `H`. Names need it.
        key_dim: Integer, features per head; the `hidden_dim` of "dense" and
            "factorized_dense". These and "dot_product" need it.
        max_length: Integer, the paper's N, in tokens. All names need it but
            "dot_product".
        use_bias: Whether projections and predicted logits have a bias, unless
            brackets set it.
        defaults: Optional dictionary of options for those parts of a name or
            sum that have them and do not set them otherwise. Objects and
            configs stay as they are.
        **options: Options of the name, in place of brackets. With a sum, those
            of the mixture (`per_head`, `share_queries`, `name`), and for all
            parts that have them `dtype`, `seed` and the options of the
            projections, unless brackets set them.
            An integer `seed` makes the initial values reproducible; each
            weight has its own.

    Returns:
        A `Synthesizer`, a new one for each name or config.

    Raises:
        ValueError: If a name or an option is unknown, what a name needs is
            missing, or an object or config does not fit the other arguments.

    Example:

    >>> synthesizer = keras_synth.synthesizers.get(
    ...     "FR(rank=32) + V", num_heads=8, key_dim=64, max_length=512)
    >>> [type(part).__name__ for part in synthesizer.synthesizers]
    ['FactorizedRandomSynthesizer', 'DotProductSynthesizer']
    """
    defaults = {"use_bias": use_bias, **_checked_defaults(defaults)}
    if isinstance(identifier, str):
        given = {
            "num_heads": num_heads,
            "key_dim": key_dim,
            "max_length": max_length,
        }
        tree = _tree(identifier, options)
        _check_tree(tree, given, identifier)
        made = _made(tree, given, defaults)
    elif options:
        raise ValueError(
            "Options are for names: objects and configs have their own. "
            f"Received: {identifier!r} with {formatted(options)}"
        )
    else:
        made = _object(identifier)
    _check_agreement(
        num_heads, max_length, made.num_heads, made.max_length, made.long_inputs
    )
    return made


def check(identifier, num_heads, max_length=None):
    """Raises what `get` would raise before it makes a synthesizer.

    No layer is made and no random seed drawn; values of options are checked
    by `get` alone.

    Args:
        identifier: As for `get`.
        num_heads: Integer, `H`.
        max_length: Integer, the paper's N, in tokens; `None` if not known.

    Raises:
        ValueError: As `get` does.
    """
    if isinstance(identifier, str):
        given = {"num_heads": num_heads, "key_dim": 1, "max_length": max_length}
        tree = _tree(identifier, {})
        _check_tree(tree, given, identifier)
        _check_config({"config": tree.options}, num_heads, max_length)
    elif isinstance(identifier, Synthesizer):
        _check_agreement(
            num_heads,
            max_length,
            identifier.num_heads,
            identifier.max_length,
            identifier.long_inputs,
        )
    elif _may_be_config(identifier):
        _check_config(identifier, num_heads, max_length)
    else:
        raise _no_synthesizer(identifier)


def _tree(identifier, options):
    """Reads a string; the options are those of the whole."""
    terms = [
        _with_full_names(term, identifier)
        for term in identifiers.read(identifier, EXPECTED)
    ]
    if any(term.heads for term in terms):
        raise _misplaced_count(identifier)
    whole = terms[0]
    if len(terms) > 1:
        whole = Term("mixture", {}, tuple(terms))
    common = {*_SHARED, *_LAYER} - {*whole.options}
    if whole.options and not common.issuperset(options):
        raise ValueError(
            f'Pass the options of "{whole.name}" in brackets or as keyword '
            f"arguments, not both. Received: {identifier!r} with "
            f"{formatted(options)}. {_has(whole)}"
        )
    return whole._replace(options={**whole.options, **options})


def _with_full_names(term, identifier):
    spelling = term.name.lower()
    if spelling not in SPELLINGS:
        hint = did_you_mean(spelling, SPELLINGS)
        raise ValueError(
            f"Unknown synthesizer {term.name!r}.{hint} Expected {EXPECTED}. "
            f"Received: {identifier!r}"
        )
    name = SPELLINGS[spelling]
    composite = _NAMES[name].composite
    if name == "heads":
        term = _with_groups(term, identifier)
    if composite and not term.parts:
        raise ValueError(
            'A mixture stands around its parts, "mixture(R + V)", and heads '
            'around their groups, "heads(V=4, R=4)". '
            f"Received: {identifier!r}"
        )
    if term.parts and not composite:
        raise ValueError(
            f'"{name}" takes options with their names alone, option=value. '
            f'Only a mixture stands around parts: "mixture(R + V)". '
            f"{_has(Term(name))} Received: {identifier!r}"
        )
    if name != "heads" and any(part.heads for part in term.parts):
        raise _misplaced_count(identifier)
    parts = tuple(_with_full_names(part, identifier) for part in term.parts)
    return Term(name, term.options, parts, term.heads)


def _with_groups(term, identifier):
    """Makes parts of `heads(V=4, R=4)`, as of `heads(4 * V + 4 * R)`."""
    named = {k: v for k, v in term.options.items() if k.lower() in SPELLINGS}
    groups = [Term(k, heads=v) for k, v in named.items()]
    groups = (*groups, *term.parts)
    for group in groups:
        if not isinstance(group.heads, int) or group.heads is True:
            raise ValueError(
                "Each group needs its number of heads: "
                '"heads(V=4, R=4)" or "heads(4 * V + 4 * FR(rank=32))". '
                f"Received: {group.name}={group.heads!r} in {identifier!r}"
            )
    options = {k: v for k, v in term.options.items() if k not in named}
    return Term(term.name, options, groups, term.heads)


def _misplaced_count(identifier):
    return ValueError(
        "Numbers of heads stand within heads alone: "
        '"heads(4 * V + 4 * FR(rank=32))". '
        f"Received: {identifier!r}"
    )


def _check_tree(term, given, identifier):
    """Raises for unknown options, and if what a class needs is missing."""
    for option in term.options:
        if option not in _options(term):
            raise _unknown_option(option, term, identifier)
    for part in term.parts:
        _check_tree(part, _of_part(part, given), identifier)
    counts = [part.heads for part in term.parts if part.heads]
    if counts and given["num_heads"] not in (None, sum(counts)):
        raise ValueError(
            "The groups of heads must add up to the heads of the layer. "
            f"Received: num_heads={given['num_heads']}, {sum(counts)} heads "
            f"in {identifier!r}"
        )
    for argument in _arguments(term.name):
        need = _GIVEN.get(argument)
        if need and argument not in term.options and given[need] is None:
            raise ValueError(
                f"The synthesizer {term.name!r} needs `{need}`; it is never "
                f"inferred. Pass {need}=<a positive integer>. "
                f"Received: {need}=None"
            )


def _of_part(part, given):
    """What `get` was given, for a part that may have heads of its own."""
    return {**given, "num_heads": part.heads or given["num_heads"]}


def _made(term, given, defaults):
    """Makes a synthesizer of a tree that was checked."""
    name, cls, own = term.name, _NAMES[term.name].cls, _options(Term(term.name))
    options = {**defaults, **term.options}
    arguments = {k: v for k, v in options.items() if k in own}
    if _NAMES[name].composite:
        shared = {k: v for k, v in term.options.items() if k in _SHARED}
        shared = {**defaults, **shared}
        seed = arguments.pop("seed", None)
        arguments["synthesizers"] = [
            _made(
                part,
                _of_part(part, given),
                {**shared, "seed": derived(seed, f"{cls.place}_{i}")},
            )
            for i, part in enumerate(term.parts)
        ]
    for argument in _arguments(name):
        if argument in _GIVEN:
            arguments.setdefault(argument, given[_GIVEN[argument]])
    try:
        return cls(**_NAMES[name].fixed, **arguments)
    except ValueError:
        raise
    except Exception as error:  # a value of any type may stand in brackets
        raise ValueError(
            f'Cannot make "{name}" with such options: {error} '
            f"Received: {formatted(term.options)}"
        ) from error


@functools.cache
def _arguments(name):
    """The arguments of a name's class, those of its layer and `fixed` aside."""
    entry = _NAMES[name]
    signature = inspect.signature(entry.cls.__init__)
    return tuple(
        argument
        for argument, parameter in list(signature.parameters.items())[1:]
        if parameter.kind is not parameter.VAR_KEYWORD
        and argument not in entry.fixed
    )


def _options(term):
    """What may stand in the brackets of a name."""
    arguments = _arguments(term.name)
    options = [x for x in arguments if x not in ("num_heads", "synthesizers")]
    if "use_bias" in arguments:  # it has projections
        options += Projections.defaults
    options += _LAYER
    for part in term.parts:
        options += [x for x in _options(part) if x in _SHARED]
    return list(dict.fromkeys(options))


def _checked_defaults(defaults):
    known = {x for name in _NAMES for x in _options(Term(name))} - {"name"}
    unknown = sorted({*(defaults or {})} - known)
    if unknown:
        raise ValueError(
            "`defaults` must hold options that a synthesizer has: "
            f"{', '.join(sorted(known))}. Received: {', '.join(unknown)}"
        )
    return dict(defaults or {})


def _object(identifier):
    if isinstance(identifier, dict):
        identifier = unbuilt_from_config(identifier)
    if not isinstance(identifier, Synthesizer):
        raise _no_synthesizer(identifier)
    return identifier


def _may_be_config(identifier):
    """Whether it is a synthesizer's config, or one of an unknown class."""
    if not isinstance(identifier, dict):
        return False
    if not isinstance(identifier.get("config"), dict):
        return False
    name = identifier.get("registered_name") or identifier.get("class_name")
    cls = keras.saving.get_registered_object(name)
    if isinstance(cls, type):
        return issubclass(cls, Synthesizer)
    return not str(identifier.get("module")).startswith("keras.")


def _check_config(identifier, num_heads, max_length):
    """Raises if a config, or options in brackets, do not fit the layer."""
    config = identifier["config"]
    parts = [x for x in config.get("synthesizers", ()) if _may_be_config(x)]
    own_heads, heads_of_parts = config.get("num_heads"), num_heads
    if identifier.get("class_name") == HeadGroupsSynthesizer.__name__:
        own = [part["config"].get("num_heads") for part in parts]
        own_heads = None if None in own else sum(own)
        heads_of_parts = None
    _check_agreement(
        num_heads,
        max_length,
        own_heads,
        config.get("max_length"),
        config.get("long_inputs"),
    )
    for part in parts:
        _check_config(part, heads_of_parts, None)


def _check_agreement(num_heads, max_length, own_heads, own_length, long_inputs):
    """Raises unless a synthesizer fits the layer that it is made for."""
    if None not in (num_heads, own_heads) and num_heads != own_heads:
        raise ValueError(
            "The synthesizer must have as many heads as the layer. "
            f"Received: num_heads={num_heads}, "
            f"synthesizer.num_heads={own_heads}"
        )
    if None in (max_length, own_length) or long_inputs == "tile":
        return
    if max_length != own_length:
        raise ValueError(
            "Leave out `max_length` for a synthesizer that has its own, pass "
            'the same, or let the synthesizer repeat it with long_inputs="tile"'
            f". Received: max_length={max_length}, "
            f"synthesizer.max_length={own_length}"
        )


def _unknown_option(option, term, identifier):
    wanted = [x for part in term.parts for x in _options(part)]
    hint = did_you_mean(option, _options(term))
    if option in wanted:
        hint = (
            " It is an option of a part: write it in the part's brackets, as "
            'in "FR(rank=32) + V".'
        )
    return ValueError(
        f'"{term.name}" has no option `{option}`.{hint} {_has(term)} '
        f"Received: {option} with {identifier!r}"
    )


def _no_synthesizer(identifier):
    return ValueError(
        "A synthesizer must be a Synthesizer, a config of one, or a name: "
        f"{EXPECTED}. Received: {identifier!r}"
    )


def _has(term):
    return f'"{term.name}" has the options {", ".join(_options(term))}.'

"""Synthesizers by name: `get` and `check`; `__init__.py` has the names."""

import inspect
import re
import types
from typing import Any

from keras_synth._backend.configs import parameters_of
from keras_synth._backend.seeds import derived
from keras_synth.attention.projections import Projections
from keras_synth.identifiers import Term, read
from keras_synth.registry import (
    Registry,
    check_agreement,
    class_of,
    did_you_mean,
    merged,
    registry_of,
)
from keras_synth.synthesizers.synthesizer import Synthesizer
from keras_synth.types import Identifier


def with_projections(parameters):
    """Adds the options of projections if a class has them."""
    if "use_bias" not in parameters or "kernel_initializer" in parameters:
        return parameters
    return parameters | {
        k: inspect.Parameter(k, inspect.Parameter.KEYWORD_ONLY, default=v)
        for k, v in Projections.defaults.items()
    }


SYNTHESIZERS = Registry(
    "synthesizer",
    Synthesizer,
    layer=("dtype", "name", "seed", "trainable"),
    parameters=lambda cls: with_projections(parameters_of(cls, Synthesizer)),
    names="a name from `keras_synth.synthesizers.names()`, or a sum such as "
    '"FR(rank=32) + V"',
    for_lists=' A sum is one string: write "R + V" for ["R", "V"].',
)
# Options of a sum, or of the layer around it, that apply to its parts.
SHARED = ("dtype", "seed", "use_bias", *Projections.defaults)


def names() -> list[str]:
    """Returns the names of all synthesizers, without the letters."""
    return [*SYNTHESIZERS.entries]


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
        identifier: A `Synthesizer`, which is returned unchanged; its config; a
            name such as `"dense"`, or the paper's letter (V, D, R, Fix, FD,
            FR), ignoring case; or a sum of names for a mixture. Options of a
            name are the arguments of its class, in brackets as Python literals:
            `"FR(rank=32) + V"`. Write a mixture with options, or within
            another, as `"mixture(dense + V, share_queries=True)"`.
        num_heads: Integer, `H`. Required for names.
        key_dim: Integer, features per head; the `hidden_dim` of "dense" and
            "factorized_dense". Required for these and "dot_product".
        max_length: Integer, the paper's N, in tokens. Required for names with
            tables of positions.
        use_bias: Whether projections and predicted logits have a bias. Options
            in brackets override it.
        defaults: Optional dictionary of default options for the parts of a name
            or sum that have them. Objects and configs do not use it.
        **options: Options of the name, instead of brackets. For a sum, options
            of the mixture (`per_head`, `share_queries`, `name`), and `dtype`,
            `seed` and the options of projections for all parts. Options in
            brackets override these. An integer `seed` makes the initial values
            reproducible, and different for each weight.

    Returns:
        A `Synthesizer`. Names and configs make a new one.

    Raises:
        ValueError: If a name or option is unknown, a required argument is
            missing, or an object or config does not fit the other arguments.

    Example:

    >>> synthesizer = keras_synth.synthesizers.get(
    ...     "FR(rank=32) + V", num_heads=8, key_dim=64, max_length=512)
    >>> [type(part).__name__ for part in synthesizer.synthesizers]
    ['FactorizedRandomSynthesizer', 'DotProductSynthesizer']
    """
    sizes = {"num_heads": num_heads, "key_dim": key_dim}
    sizes["max_length"] = max_length
    if isinstance(identifier, str):
        defaults = {"use_bias": use_bias, **(defaults or {})}
        _check_defaults(defaults)
        spec = _spec(tree(identifier), options, sizes, defaults, identifier)
        made = _make(spec, identifier)
    else:
        made = SYNTHESIZERS.loaded(identifier, options)
    check_agreement("synthesizer", made, num_heads, max_length)
    return made


def check(
    identifier: Identifier, num_heads: int, max_length: int | None = None
) -> None:
    """Raises the errors that `get` raises before it makes a synthesizer.

    It makes no layer and draws no random seed. Only `get` checks the values of
    options, and configs.
    """
    own = identifier
    if isinstance(identifier, str):
        sizes = {"num_heads": num_heads, "key_dim": 1, "max_length": max_length}
        _, arguments, _ = _spec(tree(identifier), {}, sizes, {}, identifier)
        own = types.SimpleNamespace(**arguments)
    elif not issubclass(class_of(identifier) or Synthesizer, Synthesizer):
        raise SYNTHESIZERS.wrong_type(identifier)
    check_agreement("synthesizer", own, num_heads, max_length)


def tree(identifier: str) -> Term:
    """Reads a name or a sum of names, or raises if one is unknown.

    Returns:
        `Term` with full names; a sum is a `"mixture"`.
    """
    terms = read(identifier, SYNTHESIZERS.described())
    terms = tuple(_resolved(term, identifier) for term in terms)
    return terms[0] if len(terms) == 1 else Term("mixture", {}, terms)


def _resolved(term, identifier, in_heads=False):
    """A term with full names, and groups of heads as parts."""
    entry = SYNTHESIZERS.find(term.name)
    if entry is None:
        raise _unknown(term, identifier)
    options, parts = term.options, term.parts
    if entry.name == "heads":
        # `heads(V=4, R=4)` is `heads(4 * V + 4 * R)`.
        groups = [k for k in options if SYNTHESIZERS.find(str(k))]
        parts = (*(Term(k, heads=options[k]) for k in groups), *parts)
        options = {k: v for k, v in options.items() if k not in groups}
    if ("synthesizers" in SYNTHESIZERS.parameters(entry)) != bool(parts):
        raise ValueError(
            'Only "mixture" and "heads" contain other names, and they require '
            'them: "mixture(R + V)", "heads(V=4, R=4)". Received: '
            f"{identifier!r}"
        )
    if (type(term.heads) is int) != in_heads:
        raise ValueError(
            "Each group inside heads(...) needs a number of heads, and no "
            'other name accepts one: "heads(V=4, R=4)", "heads(4 * V + 4 * '
            f'FR(rank=32))". Received: {term.heads} for "{term.name}" in '
            f"{identifier!r}"
        )
    inner = (_resolved(x, identifier, entry.name == "heads") for x in parts)
    return Term(entry.name, options, tuple(inner), term.heads, term.text)


def _spec(term, options, sizes, defaults, identifier):
    """The entry of a term, its checked arguments, and a spec of each part."""
    entry = SYNTHESIZERS.entries[term.name]
    options = merged(term, options, identifier)
    of_parts = {x for part in term.parts for x in _options(part)}
    own = {*SYNTHESIZERS.options(entry)}
    misplaced = sorted({*options} & of_parts - {*own, *SHARED})
    if misplaced:
        raise ValueError(
            f"{misplaced} is an option of a part. Write it in the brackets of "
            f'that part, as in "FR(rank=32) + V". Received: {identifier!r}'
        )
    shared = {k: v for k, v in options.items() if k in SHARED}
    rest = {k: v for k, v in options.items() if k in own or k not in of_parts}
    arguments = SYNTHESIZERS.arguments(entry, rest, sizes, defaults, identifier)
    counts = [part.heads for part in term.parts if part.heads]
    if counts and sizes["num_heads"] not in (None, sum(counts)):
        raise ValueError(
            "The heads of all groups must add up to the heads of the layer. "
            f"Received: num_heads={sizes['num_heads']}, {sum(counts)} heads in "
            f"{identifier!r}"
        )
    if not term.parts:
        return entry, arguments, ()
    seed = arguments.pop("seed", None)
    parts = []
    for i, part in enumerate(term.parts):
        heads = part.heads or sizes["num_heads"]
        own_seed = derived(seed, f"{entry.cls.place}_{i}")
        inherited = {**defaults, **shared, "seed": own_seed}
        own_sizes = {**sizes, "num_heads": heads}
        parts.append(_spec(part, {}, own_sizes, inherited, identifier))
    return entry, arguments, parts


def _make(spec, identifier):
    entry, arguments, parts = spec
    if parts:
        made = [_make(part, identifier) for part in parts]
        arguments = {**arguments, "synthesizers": made}
    return SYNTHESIZERS.make(entry, arguments, identifier)


def _options(term):
    """Options of a term and of all its parts."""
    inner = [x for part in term.parts for x in _options(part)]
    return [*SYNTHESIZERS.options(SYNTHESIZERS.entries[term.name]), *inner]


def _check_defaults(defaults):
    entries = SYNTHESIZERS.entries.values()
    known = {x for entry in entries for x in SYNTHESIZERS.options(entry)}
    unknown = sorted({*defaults} - known | {*defaults} & {"name"})
    if unknown:
        raise ValueError(
            "`defaults` must contain options of synthesizers: "
            f"{', '.join(sorted(known))}. Received: {', '.join(unknown)}"
        )


def _unknown(term, identifier):
    """The error for an unknown name or the name of a mixer."""
    mixers = registry_of("mixer")
    if mixers.find(term.name) is None:
        near = [*SYNTHESIZERS.spellings(), *mixers.spellings()]
        hint = _as_sum(term.name) or did_you_mean(term.name, near)
        return ValueError(
            f"Unknown synthesizer {term.name!r}.{hint} Expected "
            f"{SYNTHESIZERS.described()}; or, if mixers are allowed, "
            f"{mixers.described()}. "
            f"Received: {identifier!r}"
        )
    hint = ""
    if registry_of("pattern").find(term.name):
        synthesizer = " + ".join(part.text for part in term.parts) or "V"
        options = ", ".join(f"{k}={v!r}" for k, v in term.options.items())
        hint = (
            f" SyntheticAttention has a pattern for it: synthesizer="
            f'"{synthesizer}", pattern="{term.name}({options})".'
        )
    return ValueError(
        f'"{term.name}" is a mixer, not a synthesizer, and cannot be part of '
        f'a sum.{hint} Blocks and models accept synthesizer="{term.text}"; '
        f'keras_synth.mixers.get("{term.text}", ...) makes the layer. '
        f"Received: {identifier!r}"
    )


def _as_sum(name):
    """Suggests "R+V" for "RV", or returns an empty string."""
    entries = SYNTHESIZERS.entries.values()
    letters = {x.letter.lower(): x.letter for x in entries if x.letter}
    one = "|".join(sorted(letters, key=len, reverse=True))
    word = name.lower().replace("_", "")
    if not re.fullmatch(f"({one})+", word):
        return ""
    parts = "+".join(letters[x] for x in re.findall(one, word))
    return f" Did you mean {parts!r}?"

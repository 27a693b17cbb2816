"""Objects by name.

Each kind of object (synthesizers, mixers, patterns and normalizers) has a
`Registry`. It lists `Entry`s: a name and a class, whose arguments are the
options of the name.
"""

import difflib
import inspect
import keyword
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras

from keras_synth._backend.configs import parameters_of
from keras_synth.identifiers import Term, read

SIZES = ("num_heads", "key_dim", "max_length")
# Arguments of classes that sizes fill in.
_SIZE_OF = {"hidden_dim": "key_dim"}
# Arguments that are not options: the layer's size, and the sum in brackets.
_NOT_OPTIONS = ("num_heads", "synthesizers")
_registries: list["Registry"] = []


class Entry(NamedTuple):
    """A name and the maker of its object.

    Attributes:
        name: String.
        maker: Class, or function annotated with the class it returns; its
            `**kwargs` are arguments of that class.
        letter: String, the paper's spelling, or `None`.
        fixed: Dictionary of arguments that are not options of the name.
    """

    name: str
    maker: Callable[..., Any]
    letter: str | None = None
    fixed: dict = {}

    @property
    def cls(self) -> type:
        """The class of the object."""
        if inspect.isclass(self.maker):
            return self.maker
        return inspect.signature(self.maker).return_annotation


class Registry:
    """The names of one kind of object.

    Args:
        kind: String, `"synthesizer"`.
        base: Base class of all entries.
        layer: Sequence of arguments common to all classes.
        parameters: Function from a class to its `inspect.Parameter`s by name.
        names: Optional string, what errors say instead of a long list of names.
        for_lists: String, what the error for a list adds.
    """

    def __init__(
        self,
        kind: str,
        base: type,
        layer: Sequence[str] = (),
        parameters: Callable[[type], dict] = parameters_of,
        names: str | None = None,
        for_lists: str = "",
    ) -> None:
        self.kind = kind
        self.base = base
        self.entries: dict[str, Entry] = {}
        self._layer = layer
        self._parameters = parameters
        self._names = names
        self._for_lists = for_lists
        _registries.append(self)

    def add(self, *entries: Entry) -> None:
        """Adds entries in the order of lists."""
        self.entries |= {entry.name: entry for entry in entries}

    def spellings(self) -> dict[str, Entry]:
        """Returns the entries by name and by letter in lower case."""
        entries = self.entries.values()
        return {x.letter.lower(): x for x in entries if x.letter} | self.entries

    def find(self, spelling: str) -> Entry | None:
        """Returns the entry of a name or letter, ignoring case, or `None`."""
        return self.spellings().get(spelling.lower())

    def described(self) -> str:
        """Returns all letters and names for an error."""
        letters = [f'"{x.letter}"' for x in self.entries.values() if x.letter]
        names = [f'"{name}"' for name in self.entries]
        return ", ".join(letters + ([self._names] if self._names else names))

    def wrong_type(self, identifier: Any, kinds: str | None = None) -> Any:
        """Returns the error for an identifier of another type."""
        is_list = isinstance(identifier, (list, tuple))
        hint = self._for_lists if is_list else ""
        return ValueError(
            f"`{self.kind}` must be a {kinds or self.base.__name__}, a config "
            f"of one, {self.described()}.{hint} Received: "
            f"{self.kind}={identifier!r}"
        )

    def parameters(self, entry: Entry) -> dict[str, inspect.Parameter]:
        """Returns the arguments of an entry except the fixed ones."""
        own: dict[str, inspect.Parameter] = {}
        if entry.maker is not entry.cls:
            own = dict(inspect.signature(entry.maker).parameters)
        if not own or own.pop("kwargs", None):
            own = {**own, **self._parameters(entry.cls), **own}
        return {k: v for k, v in own.items() if k not in entry.fixed}

    def options(self, entry: Entry) -> list[str]:
        """Returns the arguments that can be options in brackets."""
        names = dict.fromkeys([*self.parameters(entry), *self._layer])
        return [name for name in names if name not in _NOT_OPTIONS]

    def arguments(
        self,
        entry: Entry,
        options: dict,
        sizes: dict,
        defaults: dict,
        identifier: Any,
    ) -> dict[str, Any]:
        """Returns the arguments for an object, except the parts in brackets.

        Args:
            entry: `Entry`.
            options: Dictionary, the options of the name.
            sizes: Dictionary of arguments for all names; unknown ones are
                `None`.
            defaults: Dictionary of options for the names that have them.
            identifier: The original name, for errors.
        """
        known = self.options(entry)
        for option in options:
            if option not in known:
                raise self._unknown_option(entry, option, options, identifier)
        found = {k: v for k, v in defaults.items() if k in known} | options
        for name, parameter in self.parameters(entry).items():
            is_needed = parameter.default is parameter.empty
            size = _SIZE_OF.get(name, name) if is_needed else name
            if name in found or name == "synthesizers":
                continue
            if sizes.get(size) is not None:
                found[name] = sizes[size]
            elif is_needed:
                raise ValueError(
                    f'The {self.kind} "{entry.name}" needs `{size}`. Pass '
                    f"{size}=<a value>. Received: {size}=None with "
                    f"{identifier!r}"
                )
        return found

    def make(self, entry: Entry, arguments: dict, identifier: Any) -> Any:
        """Makes an object from the result of `arguments`."""
        return _made(
            f'"{entry.name}" with these options',
            identifier,
            lambda: entry.maker(**entry.fixed, **arguments),
        )

    def get(self, identifier: Any, operator: Any = ()) -> list:
        """Returns a list of the objects that names or a config describe.

        Args:
            identifier: A name, names joined by the operator, an object, or a
                config of one.
            operator: Optional class of `ast`, such as `ast.BitOr`.
        """
        if isinstance(identifier, str):
            terms = read(identifier, self.described(), operator)
            return [self._named(term, identifier) for term in terms]
        return [self.loaded(identifier)]

    def loaded(self, identifier: Any, options: dict | None = None) -> Any:
        """Returns an object, or that of a config; neither accepts options."""
        if options:
            raise ValueError(
                "Only names accept options; objects and configs have their "
                f"own. Received: {identifier!r} with {options}"
            )
        made = identifier
        if isinstance(identifier, dict):
            load = keras.saving.deserialize_keras_object
            made = _made("the object", identifier, lambda: load(identifier))
        if not isinstance(made, self.base):
            raise self.wrong_type(identifier)
        return made

    def _named(self, term, identifier):
        entry = self.find(term.name)
        if entry is None or term.parts or term.heads:
            raise ValueError(
                f"Unknown {self.kind} {term.name!r}."
                f"{did_you_mean(term.name, self.spellings())} Expected "
                f"{self.described()}. Received: {identifier!r}"
            )
        arguments = self.arguments(entry, term.options, {}, {}, identifier)
        return self.make(entry, arguments, identifier)

    def _unknown_option(self, entry, option, options, identifier):
        known = self.options(entry)
        words = (
            f'"{entry.name}" has no option `{option}`.'
            f"{did_you_mean(str(option), known)}"
        )
        if option is None:  # a value without a name
            own = [x for x in known if x not in SIZES] or ["option"]
            words = (
                "Options need names: write "
                f'"{entry.letter or entry.name}({own[0]}={options[None]!r})".'
            )
        return ValueError(
            f'{words} The options of "{entry.name}" are '
            f"{', '.join(known) or '(none)'}. Received: {identifier!r}"
        )


def _made(what, identifier, make):
    """The result of `make`; all its errors become a `ValueError`."""
    try:
        return make()
    except ValueError:
        raise
    except Exception as error:  # options can have values of any type
        raise ValueError(
            f"Cannot make {what}: {error} Received: {identifier!r}"
        ) from error


def register(name: str, cls: type) -> None:
    """Registers a name for your own class.

    The name then works like the package's names of this kind, with the
    arguments of the class as options in brackets. To load saved models, also
    register the class with `keras.saving.register_keras_serializable`.

    Args:
        name: String, an identifier in lower case. You can register your own
            name again, but not a name of the package.
        cls: Class derived from `keras_synth.synthesizers.Synthesizer`,
            `keras_synth.mixers.Mixer`, `keras_synth.mixers.patterns.Pattern`
            or `keras_synth.mixers.normalizers.Normalizer`.

    Raises:
        ValueError: If the name belongs to the package or is not an identifier,
            or if the class is not derived from these.

    Example:

    >>> class Half(keras_synth.mixers.SelfMixer):
    ...     def mix(self, x, padding_mask=None, causal=False, training=None):
    ...         return x / 2
    >>> keras_synth.register("half", Half)
    >>> keras_synth.mixers.get("half", name="mixer")
    <Half name=mixer, built=False>
    """
    derived_from = cls.__mro__ if inspect.isclass(cls) else ()
    own = [x for x in _registries if x.base in derived_from]
    if not own:
        bases = ", ".join(x.base.__name__ for x in _registries)
        raise ValueError(
            f"The class must be derived from one of {bases}. Received: {cls!r}"
        )
    readable = isinstance(name, str) and re.fullmatch(
        r"[a-z](\w*[^\W_])?", name
    )
    if not readable or name != name.lower() or keyword.iskeyword(name):
        raise ValueError(
            "A name must be an identifier in lower case, such as "
            f'"cosine_similarity". Received: {name!r}'
        )
    shared = ("synthesizer", "mixer")  # whose names have the same uses
    kinds = shared if own[0].kind in shared else (own[0].kind,)
    for registry in [x for x in _registries if x.kind in kinds]:
        entry = registry.find(name)
        if entry and entry.maker.__module__.startswith("keras_synth."):
            raise ValueError(
                f"{name!r} is the name of a {registry.kind} of keras_synth. "
                f"Choose another name. Received: {name!r}"
            )
        registry.entries.pop(name, None)
    own[0].entries[name] = Entry(name, cls)


def registry_of(kind: str) -> Registry:
    """Returns the registry of a kind whose module is imported."""
    return next(x for x in _registries if x.kind == kind)


def class_of(identifier: Any) -> type | None:
    """Returns the class of a config or an object, or `None` if unknown."""
    if not isinstance(identifier, dict) or "config" not in identifier:
        return type(identifier)
    name = str(identifier.get("class_name"))
    registered = identifier.get("registered_name") or name
    module = sys.modules.get(str(identifier.get("module")))
    cls = keras.saving.get_registered_object(str(registered))
    cls = cls or getattr(module, name, None)
    return cls if inspect.isclass(cls) else None


def merged(term: Term, options: dict, identifier: str) -> dict:
    """Returns the options in brackets and the keyword arguments together."""
    twice = sorted({*map(str, term.options)} & {*options})
    if twice:
        raise ValueError(
            f"Pass {twice} either in brackets or as keyword arguments, "
            f"not both. Received: {identifier!r} with {options}"
        )
    return {**term.options, **options}


def check_agreement(
    kind: str, own: Any, num_heads: int | None, max_length: int | None
) -> None:
    """Raises if an object, or its arguments, do not fit the layer around."""
    heads = getattr(own, "num_heads", None)
    length = getattr(own, "max_length", None)
    if None not in (num_heads, heads) and num_heads != heads:
        raise ValueError(
            f"The {kind} and the layer around it must have the same number of "
            f"heads. Received: num_heads={num_heads}, {kind}.num_heads={heads}"
        )
    if getattr(own, "long_inputs", None) == "tile":
        return
    if None not in (max_length, length) and max_length != length:
        raise ValueError(
            f"The {kind} has its own `max_length`. Leave the argument out, "
            "pass the same value, or make the synthesizer with "
            f'long_inputs="tile". Received: max_length={max_length}, '
            f"{kind}.max_length={length}"
        )


def did_you_mean(word: str, words: Sequence[str]) -> str:
    """Returns a sentence with the nearest known words, or an empty string."""
    near = difflib.get_close_matches(word.lower(), words, n=2)
    return f" Did you mean {' or '.join(map(repr, near))}?" if near else ""

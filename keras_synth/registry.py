"""Objects by name: what a name is made of, and who may add one.

Each kind of object has a `Registry`: synthesizers, mixers, patterns and
normalizers. A line of it is an `Entry`, a name and a class, whose arguments
are the options of the name. Names are read, checked and made, in this order.
"""

import difflib
import inspect
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras

from keras_synth._backend.configs import parameters_of
from keras_synth.identifiers import Term, read

SIZES = ("num_heads", "key_dim", "max_length")
# Arguments that are filled in from sizes where a class needs them.
_SIZE_OF = {"hidden_dim": "key_dim"}
# Arguments that are not options: the sum in brackets, and a size of layers.
_NOT_OPTIONS = ("num_heads", "synthesizers")
_registries: list["Registry"] = []


class Entry(NamedTuple):
    """A name, and how to make the object that it names.

    Attributes:
        name: String.
        maker: Class, or function that is annotated with the class it returns;
            its `**kwargs` go to that class.
        letter: String, a second spelling (the paper's), or `None`.
        fixed: Dictionary of arguments that are not options of the name.
    """

    name: str
    maker: Callable[..., Any]
    letter: str | None = None
    fixed: dict = {}

    @property
    def cls(self) -> type:
        """The class of what is made."""
        if inspect.isclass(self.maker):
            return self.maker
        return inspect.signature(self.maker).return_annotation


class Registry:
    """The names of one kind of object.

    Args:
        kind: String, `"synthesizer"`.
        base: Class that all others are derived from.
        layer: Sequence of arguments that all classes take besides their own.
        parameters: Function from a class to its `inspect.Parameter`s by name.
    """

    def __init__(
        self,
        kind: str,
        base: type,
        layer: Sequence[str] = (),
        parameters: Callable[[type], dict] = parameters_of,
    ) -> None:
        self.kind = kind
        self.base = base
        self.entries: dict[str, Entry] = {}
        self._layer = layer
        self._parameters = parameters
        _registries.append(self)

    def add(self, *entries: Entry) -> None:
        """Adds entries, in the order in which they are listed."""
        self.entries |= {entry.name: entry for entry in entries}

    def spellings(self) -> dict[str, Entry]:
        """Returns the entries by their names, and by letters in lower case."""
        entries = self.entries.values()
        return {x.letter.lower(): x for x in entries if x.letter} | self.entries

    def find(self, spelling: str) -> Entry | None:
        """Returns the entry of a name or letter in any case, or `None`."""
        return self.spellings().get(spelling.lower())

    def described(self) -> str:
        """Returns all names as an error lists them."""
        return ", ".join(
            f'"{x.name}" ("{x.letter}")' if x.letter else f'"{x.name}"'
            for x in self.entries.values()
        )

    def parameters(self, entry: Entry) -> dict[str, inspect.Parameter]:
        """Returns the arguments of an entry, those that are fixed left out."""
        own: dict[str, inspect.Parameter] = {}
        if entry.maker is not entry.cls:
            own = dict(inspect.signature(entry.maker).parameters)
        if not own or own.pop("kwargs", None):
            own = {**own, **self._parameters(entry.cls), **own}
        return {k: v for k, v in own.items() if k not in entry.fixed}

    def options(self, entry: Entry) -> list[str]:
        """Returns the arguments that may be options in brackets."""
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
        """Returns the arguments for an object, but the parts in its brackets.

        Args:
            entry: `Entry`.
            options: Dictionary, the options of the name.
            sizes: Dictionary of arguments for all names; `None` is not known.
            defaults: Dictionary of options for the names that have them.
            identifier: The name as it was written, for errors.
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
                    f'The {self.kind} "{entry.name}" needs `{size}`; it is '
                    f"never inferred. Pass {size}=<a value>. "
                    f"Received: {size}=None with {identifier!r}"
                )
        return found

    def make(self, entry: Entry, arguments: dict, identifier: Any) -> Any:
        """Makes an object, with arguments from `arguments`."""
        try:
            return entry.maker(**entry.fixed, **arguments)
        except ValueError:
            raise
        except Exception as error:  # options may have values of any type
            raise ValueError(
                f'Cannot make "{entry.name}" with such options: {error} '
                f"Received: {identifier!r}"
            ) from error

    def get(self, identifier: Any, operator: Any = ()) -> list:
        """Returns a list of the objects that names or a config describe.

        Args:
            identifier: A name, names joined by the operator, an object, or a
                config of one.
            operator: Class of `ast`, such as `ast.BitOr`; none by default.
        """
        if isinstance(identifier, str):
            terms = read(identifier, self.described(), operator)
            return [self._made(term, identifier) for term in terms]
        if isinstance(identifier, dict):
            identifier = keras.saving.deserialize_keras_object(identifier)
        if not isinstance(identifier, self.base):
            raise ValueError(
                f"A {self.kind} must be a {self.base.__name__}, a config of "
                f"one, or a name: {self.described()}. "
                f"Received: {self.kind}={identifier!r}"
            )
        return [identifier]

    def _made(self, term, identifier):
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
        words = f"has no option `{option}`.{did_you_mean(str(option), known)}"
        if option is None:  # a value without a name
            own = [x for x in known if x not in SIZES] or ["option"]
            words = (
                "takes options by name, as in "
                f'"{entry.letter or entry.name}({own[0]}={options[None]!r})".'
            )
        return ValueError(
            f'"{entry.name}" {words} It has the options '
            f"{', '.join(known) or '(none)'}. Received: {identifier!r}"
        )


def register(name: str, cls: type) -> None:
    """Adds a name of your own.

    The name then works wherever names of this kind do, with the arguments of
    the class as options in brackets. To load files, register the class with
    `keras.saving.register_keras_serializable`, too.

    Args:
        name: String, an identifier in lower case. A name of your own may be
            registered again, a name of the package may not.
        cls: Class derived from `keras_synth.synthesizers.Synthesizer`,
            `keras_synth.mixers.Mixer`, `keras_synth.mixers.patterns.Pattern`
            or `keras_synth.mixers.normalizers.Normalizer`.

    Raises:
        ValueError: If the name belongs to the package or is not an
            identifier, or the class is not derived from any of these.

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
            f"Names belong to classes derived from one of {bases}. "
            f"Received: {cls!r}"
        )
    if not isinstance(name, str) or not re.fullmatch(r"[a-z]\w*", name):
        raise ValueError(
            "A name must be an identifier in lower case, such as "
            f'"cosine_similarity". Received: {name!r}'
        )
    shared = ("synthesizer", "mixer")  # which are named in the same places
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
    """Returns the registry of a kind; its module must have been imported."""
    return next(x for x in _registries if x.kind == kind)


def class_of(identifier: Any) -> type | None:
    """Returns the class of a config or an object; `None` if it is unknown."""
    if not isinstance(identifier, dict) or "config" not in identifier:
        return type(identifier)
    name = str(identifier.get("class_name"))
    registered = identifier.get("registered_name") or name
    module = sys.modules.get(identifier.get("module"))
    cls = keras.saving.get_registered_object(registered)
    cls = cls or getattr(module, name, None)
    return cls if inspect.isclass(cls) else None


def merged(term: Term, options: dict, identifier: str) -> dict:
    """Returns the options in brackets and those passed with the name."""
    twice = sorted({*map(str, term.options)} & {*options})
    if twice:
        raise ValueError(
            f"Pass {twice} once, in brackets or as keyword arguments, not "
            f"both. Received: {identifier!r} with {options}"
        )
    return {**term.options, **options}


def check_agreement(
    kind: str, own: Any, num_heads: int | None, max_length: int | None
) -> None:
    """Raises unless an object, or its arguments, fit the layer around it."""
    if not isinstance(own, dict):
        names = ("num_heads", "max_length", "long_inputs")
        own = {name: getattr(own, name, None) for name in names}
    heads, length = own.get("num_heads"), own.get("max_length")
    if None not in (num_heads, heads) and num_heads != heads:
        raise ValueError(
            f"The {kind} must have as many heads as the layer around it. "
            f"Received: num_heads={num_heads}, {kind}.num_heads={heads}"
        )
    if None in (max_length, length) or own.get("long_inputs") == "tile":
        return
    if max_length != length:
        raise ValueError(
            f"Leave out `max_length` for a {kind} that has its own, pass the "
            'same, or let a synthesizer repeat it with long_inputs="tile". '
            f"Received: max_length={max_length}, {kind}.max_length={length}"
        )


def check_no_options(identifier: Any, options: dict) -> None:
    """Raises if there are options for an object or a config."""
    if options:
        raise ValueError(
            "Options are for names; objects and configs have their own. "
            f"Received: {identifier!r} with {options}"
        )


def did_you_mean(word: str, words: Sequence[str]) -> str:
    """Returns a sentence that asks for the nearest known word, or nothing."""
    near = difflib.get_close_matches(word.lower(), words, n=1)
    return f" Did you mean {near[0]!r}?" if near else ""

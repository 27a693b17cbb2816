"""What all commands have in common: old names of options, and errors."""

import pathlib
import re
import sys

# Arguments that are true or false, and the options that take no value.
_SWITCHES = {
    "header": "--no-header",
    "quoted": "--no-quotes",
    "skip_empty": "--skip-empty",
}
_METAVARS = {int: "N", float: "X", pathlib.Path: "PATH"}


def option_of(name):
    """The option that gives the argument of this name."""
    return _SWITCHES.get(name, f"--{name.replace('_', '-')}")


def adder(parser):
    """Returns a function like `parser.add_argument`, for options with help.

    It shows the default at the end of the help, unless that is nothing, and
    what kind of value the option takes.
    """

    def add(*names, help, **options):
        default = options.get("default")
        if default not in (None, [], ()):
            many = isinstance(default, (list, tuple))
            shown = " ".join(map(str, default)) if many else default
            help = f"{help} (default: {shown})"
        if options.get("type") in _METAVARS:
            options.setdefault("metavar", _METAVARS[options["type"]])
        return parser.add_argument(*names, help=help, **options)

    return add


def require_at_least(parser, settings, **least):
    """Ends the command with one line where a setting is too small.

    Args:
        parser: `argparse.ArgumentParser`.
        settings: What it returned.
        **least: Integers, the smallest values by the names of settings.
    """
    for name, value in least.items():
        given = getattr(settings, name)
        if given < value:
            parser.error(
                f"{option_of(name)} must be at least {value}. Received: {given}"
            )


def character(text):
    """A type of options: one character, a tab as backslash and t."""
    return "\t" if text == "\\t" else text


def arguments(renamed):
    """Returns what the command line says, old names of options made new.

    Args:
        renamed: Dictionary, old name -> new one. A line on standard error
            names the new one; the next release drops the old.
    """
    found = []
    for argument in sys.argv[1:]:
        name, equals, value = argument.partition("=")
        found.append(_new_name(name, renamed) + equals + value)
    return found


def _new_name(name, renamed):
    """Returns the name in use, and says so where another one was given."""
    if name not in renamed:
        return name
    print(
        f"{name} is now called {renamed[name]}; the old name goes "
        "with the next release.",
        file=sys.stderr,
    )
    return renamed[name]


def as_options(error, names):
    """The words of an error, with options in the place of arguments.

    Args:
        error: Exception of a function that the command called.
        names: The names of the options as arguments: `num_heads`.
    """
    words = str(error)
    for name, option in _SWITCHES.items():
        words = re.sub(rf"\b{name}=(True|False)", option, words)
    for name in names:
        option = option_of(name)
        words = words.replace(f"`{name}`", option)
        words = re.sub(rf"(?<![\w/(]){name}= ?", f"{option} ", words)
    return words

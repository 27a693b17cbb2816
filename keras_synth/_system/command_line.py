"""What all commands have in common: old names of options, and errors."""

import contextlib
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


def choice(names, renamed):
    """A type of options: one of some names, old ones made new.

    Args:
        names: List of strings.
        renamed: Dictionary, old name -> new one, for a release.
    """

    def name(text):
        return _tell_of_new_name(text, renamed)

    return {"type": name, "choices": names}


def add_training(add, folder):
    """Adds what scripts ask that train, stop and go on.

    Args:
        add: Function that `adder` returned.
        folder: String, the default of `--output`.
    """
    add(
        "--dtype-policy",
        choices=["float32", "mixed_bfloat16"],
        default="float32",
        help="precision of computing; weights are float32",
    )
    add("--seed", type=int, default=0, help="of weights, batches and dropout")
    add(
        "--output",
        type=pathlib.Path,
        default=pathlib.Path(folder),
        help="folder for models, results and the picture",
    )
    text = "go on after the last epoch on disk"
    add("--resume", action="store_true", help=text)


@contextlib.contextmanager
def errors_in_options(parser, settings):
    """Ends the command with one line where arguments or files do not do."""
    try:
        yield
    except (OSError, TypeError, ValueError) as error:
        parser.error(as_options(error, vars(settings)))


def check_variants(parser, settings, backbone):
    """Ends the command with one line if a model cannot be made.

    Args:
        parser: `argparse.ArgumentParser`.
        settings: What it returned.
        backbone: Class. The models are small but for what settings say.
    """
    with errors_in_options(parser, settings):
        for name in settings.variants:
            backbone(
                vocabulary_size=1,
                num_layers=settings.num_layers,
                num_heads=settings.num_heads,
                hidden_dim=settings.hidden_dim,
                intermediate_dim=1,
                synthesizer=name,
                dropout=settings.dropout,
                max_sequence_length=1,
            )


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


def unfinished(parser, settings, extension=".npz"):
    """Returns the paths of checkpoints, one for each of `--variants`.

    Ends the command with one line if there is one, but no `--resume`.
    """
    paths = [
        settings.output / f"{name}{extension}" for name in settings.variants
    ]
    if any(path.exists() for path in paths) and not settings.resume:
        parser.error(
            f"a run in {settings.output} has not ended. Pass --resume to go "
            "on with it, or another --output"
        )
    return paths


def character(text):
    """A type of options: one character, a tab as backslash and t."""
    return "\t" if text == "\\t" else text


def arguments(renamed):
    """Returns what the command line says, old names of options made new.

    Args:
        renamed: Dictionary, old name -> new one. They are told of on standard
            error, and go with the next release.
    """
    found = []
    for argument in sys.argv[1:]:
        name, equals, value = argument.partition("=")
        found.append(_tell_of_new_name(name, renamed) + equals + value)
    return found


def _tell_of_new_name(name, renamed):
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

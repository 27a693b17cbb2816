"""What the commands here have in common. Imported before Keras."""

import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

# The words for what several commands ask.
HELP = {
    "--batch-size": "B",
    "--dtype": "of weights and inputs",
    "--hidden-dim": "model width, d",
    "--mask": "which keys count",
    "--num-heads": "of an attention layer, H",
    "--num-layers": "blocks in a stack",
    "--output": "folder for tables and pictures",
    "--rounds": "how often each is timed",
    "--routes": "which to time",
    "--sequence-length": "in tokens, T",
    "--shapes": "B x T, in tokens",
    "--variants": "synthesizers",
}


_METAVARS = {int: "N", float: "X", pathlib.Path: "PATH"}


def adder(parser):
    """Returns a function like `parser.add_argument`, with help for all.

    It shows the default at the end of the help, and what kind of value the
    option takes.
    """

    def add(name, help=None, **options):
        help, default = help or HELP[name], options.get("default")
        if default not in (None, [], ()):
            many = isinstance(default, (list, tuple))
            shown = " ".join(map(str, default)) if many else default
            help = f"{help} (default: {shown})"
        if options.get("type") in _METAVARS:
            options.setdefault("metavar", _METAVARS[options["type"]])
        return parser.add_argument(name, help=help, **options)

    return add


def parse(parser):
    """Returns the settings of the command line."""
    return parser.parse_args()

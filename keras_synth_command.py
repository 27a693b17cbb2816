"""The command `keras-synth`.

A module outside of the package, so that `--help` and misspelt names are
answered at once, without importing Keras.
"""

import difflib
import importlib.util
import os
import sys
import textwrap

# Modules of `keras_synth.commands`, and what each does.
COMMANDS = {
    "compare": "train variants, heads, seeds and backends on a task, and "
    "compare them",
    "train": "train one model on a task, and save it as a preset",
    "report": "show the results of earlier comparisons again",
}
EXAMPLES = """\
examples:
  keras-synth compare --task reviews --variants V R D R+V
  keras-synth train --task csv --data mine.csv --text body --label topic
  keras-synth report compare
"""


def main(arguments=None):
    """Runs a command; returns its exit status.

    Args:
        arguments: Optional list of strings, those of the command line.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments or arguments[0] in ("-h", "--help"):
        print(help_text(), end="")
        return 0
    name, *rest = arguments
    if name == "--version":
        from keras_synth.version import __version__

        print(f"keras-synth {__version__}")
        return 0
    if name not in COMMANDS:
        print(f"keras-synth: {_unknown(name)}", file=sys.stderr)
        return 2
    command = importlib.import_module(f"keras_synth.commands.{name}")
    return command.main(rest, f"keras-synth {name}")


def help_text():
    """What `keras-synth --help` prints."""
    lines = ["usage: keras-synth [-h] [--version] COMMAND ...", ""]
    lines += ["Trains and compares Synthesizers on text.", "", "commands:"]
    for name, summary in COMMANDS.items():
        start = f"  {name:10}"
        lines += textwrap.wrap(
            summary, 80, initial_indent=start, subsequent_indent=" " * 12
        )
    lines += ["", "`keras-synth COMMAND --help` lists a command's options.", ""]
    return "\n".join(lines) + "\n" + EXAMPLES


def _unknown(name):
    near = difflib.get_close_matches(name, COMMANDS, 1)
    meant = f"Did you mean {near[0]!r}? " if near else ""
    return (
        f"There is no command {name!r}. {meant}`keras-synth --help` lists them "
        "all."
    )


def script(*arguments, **options):
    """Returns a `keras_synth.commands.script.Script` with these arguments."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from keras_synth.commands.script import Script

    return Script(*arguments, **options)


def run(command=main):
    """Runs a function that returns an exit status, and ends the process."""
    # TensorFlow, which tokenizes on every backend, logs for its developers.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    # Keras' own default backend may not be installed.
    installed = filter(importlib.util.find_spec, ("jax", "tensorflow", "torch"))
    os.environ.setdefault("KERAS_BACKEND", next(installed, "jax"))
    try:
        sys.exit(command())
    except KeyboardInterrupt:
        print(
            "\nStopped; the same command with --resume goes on.",
            file=sys.stderr,
        )
        sys.exit(130)

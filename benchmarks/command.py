"""What the commands here have in common. Imported before Keras."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from keras_synth._system import command_line

RENAMED = {
    "--batch": "--batch-size",
    "--contenders": "--variants",
    "--heads": "--num-heads",
    "--layers": "--num-layers",
    "--length": "--sequence-length",
    "--synthesizers": "--variants",
    "--vocabulary": "--vocabulary-size",
    "--width": "--hidden-dim",
}
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


def adder(parser):
    """Returns a function like `parser.add_argument`, with help for all."""
    add = command_line.adder(parser)

    def add_known(name, help=None, **options):
        return add(name, help=help or HELP[name], **options)

    return add_known


def parse(parser):
    """Returns what the command line says, in old words or in new ones."""
    return parser.parse_args(command_line.arguments(RENAMED))

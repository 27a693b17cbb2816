"""`python -m keras_synth.compare`: the command `keras-synth compare`."""

import sys

import keras_synth_command
from keras_synth.commands import compare


def main():
    """Runs the command; returns the exit status."""
    return compare.main(sys.argv[1:], "python -m keras_synth.compare")


if __name__ == "__main__":
    keras_synth_command.run(main)

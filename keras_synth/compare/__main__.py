"""`python -m keras_synth.compare`: the command `keras-synth`."""

from keras_synth.compare.command import run

if __name__ == "__main__":
    run()

"""The command `keras-synth` as `python -m keras_synth.compare`."""

from keras_synth.compare.command import run

if __name__ == "__main__":
    run()

"""The command `keras-synth`.

A module outside of the package, so that a backend is chosen before Keras is
imported.
"""

import importlib.util
import os
import sys


def main():
    """Runs the command; ends the process."""
    # TensorFlow, which tokenizes on every backend, logs for its developers.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    # Keras' own default backend may not be installed.
    installed = filter(importlib.util.find_spec, ("jax", "tensorflow", "torch"))
    os.environ.setdefault("KERAS_BACKEND", next(installed, "jax"))
    if sys.argv[1:] == ["--version"]:
        from keras_synth.version import __version__

        print(f"keras-synth {__version__}")
        return
    sys.stdout.reconfigure(line_buffering=True)  # in a file or a pipe, too
    try:
        from keras_synth.compare.command import main as command

        status = command()
    except KeyboardInterrupt:
        print("\nStopped; --resume continues.", file=sys.stderr)
        sys.exit(130)
    os._exit(status)  # libraries may wait for their threads


if __name__ == "__main__":
    main()

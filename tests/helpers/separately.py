"""Runs scripts, each in a process, which share an import of Keras.

    python separately.py script.py ...

Prints the path and the error of each script, or `null`, as a line of JSON.
"""

import json
import os
import runpy
import sys
import traceback

import keras  # noqa: F401
import keras_hub  # noqa: F401


def error_of(path):
    """The error of a script in one line, or `None`."""
    try:
        runpy.run_path(path, run_name="__main__")
    except BaseException as error:
        lines = traceback.format_exception_only(error)
        return " ".join("".join(lines).split())


def write(file, path, error):
    os.write(file, f"{json.dumps([path, error])}\n".encode())


if __name__ == "__main__":
    results = os.dup(1)
    os.dup2(2, 1)  # scripts may print
    for path in sys.argv[1:]:
        process = os.fork()
        if not process:
            write(results, path, error_of(path))
            os._exit(0)
        _, status = os.waitpid(process, 0)
        if os.WIFSIGNALED(status):
            write(results, path, f"killed by signal {os.WTERMSIG(status)}")

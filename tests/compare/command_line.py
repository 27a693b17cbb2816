"""The command in a process of its own, as its users run it."""

import json
import os
import signal
import subprocess
import sys
import time

import keras

BACKEND = keras.backend.backend()
# As `python -m keras_synth.compare`. Whoever runs the tests in the background
# may ignore Ctrl-C for them, and JAX does not like `preexec_fn`.
COMMAND = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("keras_synth.compare", run_name="__main__", alter_sys=True)
"""


def start(folder, *arguments, **options):
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, *arguments]
        + ["--backends", BACKEND, "--output", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "COLUMNS": "160"},
        **options,
    )


def run(folder, *arguments):
    process = start(folder, *arguments)
    out, err = process.communicate()
    return process.returncode, out, err


def kill_after_an_epoch(folder, *arguments, how=signal.SIGKILL):
    """Ends the command and its worker once an epoch is on disk."""
    process = start(folder, *arguments, start_new_session=True)
    deadline = time.monotonic() + 120
    while not any((folder / "checkpoints").glob("*.npz")):
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.002)
    os.killpg(process.pid, how)
    _, err = process.communicate()
    return process.returncode, err


def rows(folder):
    lines = (folder / "results.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]

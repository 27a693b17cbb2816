"""The command in a process of its own, as its users run it."""

import json
import os
import signal
import subprocess
import sys
import time

import keras

BACKEND = keras.backend.backend()
COMMAND = ["-m", "keras_synth.compare"]
# The same, to be interrupted. Whoever runs the tests in the background
# may ignore Ctrl-C for them, and JAX does not like `preexec_fn`.
INTERRUPTIBLE = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("keras_synth.compare", run_name="__main__", alter_sys=True)
"""


def start(folder, *arguments, command=COMMAND, **options):
    environment = {**os.environ, "COLUMNS": "80"}
    environment.pop("TF_CPP_MIN_LOG_LEVEL", None)
    return subprocess.Popen(
        [sys.executable, *command, *arguments]
        + ["--backends", BACKEND, "--output", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        **options,
    )


def run(folder, *arguments):
    process = start(folder, *arguments)
    out, err = process.communicate()
    return process.returncode, out, err


def kill_after_an_epoch(folder, *arguments, how=signal.SIGKILL):
    """Ends the command and its worker once an epoch is on disk."""
    command = ["-c", INTERRUPTIBLE]
    process = start(folder, *arguments, command=command, start_new_session=True)
    deadline = time.monotonic() + 900  # other work may be in the way
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

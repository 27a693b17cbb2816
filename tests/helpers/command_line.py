"""The command in a process of its own, as its users run it, or in this one."""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time

import keras
import pytest

from keras_synth.commands import compare
from keras_synth.compare import launchers, worker

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


class Here(launchers.Local):
    """Trains in this process: others import for seconds."""

    def __call__(self, runs, jobs):
        for run in runs:
            spec = json.loads(jobs.write_spec(run).read_text())
            jobs.paths(run)["log"].touch()
            events, started = [], time.time()
            result = worker.perform(spec, events.append)
            result |= {"started": started, "seconds": time.time() - started}
            for event in (*events, {"result": result}):
                yield run, json.loads(json.dumps(event))


def run_here(folder, *arguments, launcher=Here):
    """As `run`, without a process for the command or for its runs."""
    given = ["--backends", BACKEND, "--output", str(folder), *arguments]
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(io.StringIO()) as out,
        contextlib.redirect_stderr(io.StringIO()) as err,
    ):
        patch.setitem(launchers.LAUNCHERS, "local", launcher)
        patch.setenv("COLUMNS", "80")
        try:
            status = compare.main(given, "keras-synth compare")
        except SystemExit as stop:
            status = stop.code
    return status, out.getvalue(), err.getvalue()


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

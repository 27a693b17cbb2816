"""`Local`: runs on this machine."""

import contextlib
import dataclasses
import json
import os
import subprocess
import sys
import time

from keras_synth._system.files import naming_what_is_unwritten
from keras_synth.compare.launchers.launcher import Launcher
from keras_synth.compare.packages import missing

ENDS = {"result", "unwritten"}  # of a run
WITH_INPUT = "--end-with-input"  # of a worker: it ends when this process does


@dataclasses.dataclass(frozen=True)
class Local(Launcher):
    """One run after the other, each a process on this machine."""

    def missing(self, backends):
        return missing(backends)

    def __call__(self, runs, jobs):
        for run in runs:
            yield run, {"note": "starting"}
            yield from ((run, event) for event in _events(run, jobs))


def _events(run, jobs):
    """Trains one model; yields its events."""
    environment = {**os.environ, "KERAS_BACKEND": run.backend}
    environment.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    worker = [sys.executable, "-m", "keras_synth.compare.worker"]
    spec, path = jobs.write_spec(run), jobs.paths(run)["log"]
    # Clocks are set, by hand or by others: a duration is not their matter.
    started, begun, last = time.time(), time.monotonic(), {}
    with contextlib.ExitStack() as opened:
        with naming_what_is_unwritten(path):
            log = opened.enter_context(open(path, "w", encoding="utf-8"))
        process = opened.enter_context(
            subprocess.Popen(
                [*worker, spec, WITH_INPUT],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
            )
        )
        try:
            for line in process.stdout:
                last = json.loads(line)
                if not ENDS & {*last}:
                    yield last
        except BaseException:  # also where nobody wants further events
            process.kill()
            raise
    if "unwritten" in last:
        yield last
    elif process.returncode or "result" not in last:
        yield {"failed": jobs.failure(run)}
    else:
        seconds = time.monotonic() - begun
        times = {"started": round(started), "seconds": seconds}
        yield {"result": {**times, **last["result"]}}

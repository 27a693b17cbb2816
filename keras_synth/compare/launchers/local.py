"""`Local`: runs on this machine."""

import dataclasses
import json
import os
import subprocess
import sys
import time

from keras_synth.compare.launchers.launcher import Launcher
from keras_synth.compare.packages import missing


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
    spec = jobs.write_spec(run)
    command = [sys.executable, "-m", "keras_synth.compare.worker", spec]
    started, result = time.time(), None
    with (
        open(jobs.paths(run)["log"], "w", encoding="utf-8") as log,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, env=environment
        ) as process,
    ):
        try:
            for line in process.stdout:
                event = json.loads(line)
                if "result" in event:
                    result = event["result"]
                else:
                    yield event
        except BaseException:  # also where nobody wants further events
            process.kill()
            raise
    if process.returncode or result is None:
        yield {"failed": jobs.failure(run)}
        return
    seconds = time.time() - started
    times = {"started": round(started), "seconds": seconds}
    yield {"result": {**times, **result}}

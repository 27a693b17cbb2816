"""The launcher of local processes: runs a job, and passes on its events."""

import collections
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import time

from keras_synth.compare import tasks
from keras_synth.compare.results import FORMAT
from keras_synth.files import writing

LAST_LINES = 5  # of a failed run's log, to show


class RunFailed(Exception):
    """A run's process ended without a result."""


def missing(packages):
    """Those of the packages, or backends, that are not installed here."""
    return [x for x in packages if importlib.util.find_spec(x) is None]


class Launcher:
    """Runs trainings, each in a process with its own `KERAS_BACKEND`.

    Args:
        settings: `Settings` of all runs.
        data: Path of the tokenized examples.
        digest: String, what identifies them.
        folder: Path of the folder for checkpoints, weights and logs.
        keep: Optional path of a folder for the preset of the only run. Without
            it, presets are made by objectives that pretrain, in `presets`.
    """

    def __init__(self, settings, data, digest, folder, keep=None):
        self.settings, self.data, self.digest = settings, data, digest
        self.folder, self.keep = pathlib.Path(folder), keep

    def key(self, run):
        """What identifies the result of a run, as JSON knows it."""
        settings = self.settings.to_json()
        return {"settings": settings, **run._asdict(), "data": self.digest}

    def paths(self, run):
        """Where a run keeps its files."""
        # What an older format left half-finished may have other scores.
        name = self.settings.digest(self.digest, run, FORMAT)
        start = self.settings.digest(self.digest, run._replace(backend=""))
        preset = f"{run.variant}-{run.num_heads}-{run.seed}-{run.backend}"
        return {
            "data": pathlib.Path(self.data),
            "weights": self.folder / "initial" / f"{start}.npz",
            "checkpoint": self.folder / "checkpoints" / f"{name}.npz",
            "spec": self.folder / "specs" / f"{name}.json",
            "log": self.folder / "logs" / f"{name}.txt",
            "preset": self.keep or self.folder / "presets" / f"{preset}-{name}",
        }

    def __call__(self, run, on_event):
        """Trains one model; returns its result, a dictionary.

        `on_event` is a function that takes each event, a dictionary. If the
        process fails, `RunFailed` has the last lines of its log.
        """
        paths, settings = self.paths(run), self.settings.to_json()
        paths["log"].parent.mkdir(parents=True, exist_ok=True)
        objective = tasks.TASKS[self.settings.task].objective
        spec = {
            "settings": settings,
            "run": run,
            "paths": paths,
            "keep": bool(self.keep) or objective.keeps,
        }
        with writing(paths["spec"]) as file:
            json.dump(spec, file, default=str)
        started = time.time()
        with open(paths["log"], "w", encoding="utf-8") as log:
            result = self._result(run, paths["spec"], log, on_event)
        if result is None:
            lines = paths["log"].read_text(encoding="utf-8").splitlines()
            last = "\n".join(
                collections.deque(filter(str.strip, lines), LAST_LINES)
            )
            raise RunFailed(f"{run} failed; its log is {paths['log']}:\n{last}")
        return {
            "key": self.key(run),
            "started": round(started),
            "seconds": time.time() - started,
            **result,
        }

    def forget(self, run):
        """Removes the checkpoint of a run whose result is safe."""
        self.paths(run)["checkpoint"].unlink(missing_ok=True)

    def _result(self, run, spec, log, on_event):
        """Returns the result that a run's process ends with, or `None`."""
        environment = {**os.environ, "KERAS_BACKEND": run.backend}
        environment.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        command = [sys.executable, "-m", "keras_synth.compare.worker", spec]
        result = None
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, env=environment
        ) as process:
            try:
                for line in process.stdout:
                    event = json.loads(line)
                    result = event.get("result", result)
                    on_event(event)
            except BaseException:
                process.kill()
                raise
        return result if process.returncode == 0 else None

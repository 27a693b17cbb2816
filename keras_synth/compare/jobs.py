"""What the runs of a grid are to those who launch them: files and keys."""

import json
import pathlib

from keras_synth._system import files
from keras_synth._system.files import writing
from keras_synth.compare import tasks
from keras_synth.compare.results import FORMAT

LAST_LINES = 5  # of a failed run's log, to show
FOLDERS = "data initial checkpoints specs presets presets/* preset reports/*"


def sweep(folder):
    """Removes what killed commands have left half-written in `--output`.

    Args:
        folder: Path.
    """
    files.sweep(folder)
    for pattern in FOLDERS.split():
        for place in folder.glob(pattern):
            files.sweep(place)


class Jobs:
    """The runs of a grid: what identifies each, and where its files are.

    Args:
        settings: `Settings` of all runs.
        data: Path of the tokenized examples.
        digest: String, what identifies them.
        folder: Path of the folder for checkpoints, weights and logs.
        keep: Optional path of a folder for the preset of the only run. Without
            it, presets are made by objectives that pretrain, in `presets`.
        options: Optional dictionary, what the command line said beside the
            settings: of data and `"callbacks"`. It is part of results, but
            not of what they are found by.
    """

    def __init__(self, settings, data, digest, folder, keep=None, options=None):
        self.settings, self.data, self.digest = settings, data, digest
        self.folder, self.keep = pathlib.Path(folder), keep
        self.options = options or {}

    def key(self, run):
        """What identifies the result of a run, as JSON knows it."""
        settings = self.settings.to_json()
        return {"settings": settings, **run._asdict(), "data": self.digest}

    def paths(self, run):
        """Where a run keeps its files."""
        # What an older format left half-finished may have other scores.
        name = self.settings.digest(self.digest, run, FORMAT)
        start = self.settings.digest(self.digest, run._replace(backend=""))
        title = f"{run.variant}-{run.num_heads}-{run.seed}-{run.backend}-{name}"
        return {
            "data": pathlib.Path(self.data),
            "weights": self.folder / "initial" / f"{start}.npz",
            "checkpoint": self.folder / "checkpoints" / f"{name}.npz",
            "spec": self.folder / "specs" / f"{name}.json",
            "events": self.folder / "events" / f"{name}.jsonl",
            "log": self.folder / "logs" / f"{name}.txt",
            "preset": self.keep or self.folder / "presets" / title,
            "callbacks": self.folder / "callbacks" / title,
        }

    def write_spec(self, run):
        """Writes what a worker must know of a run; returns the file's path.

        Its paths are absolute: a worker may stand in another folder.
        """
        paths = {
            name: pathlib.Path(path).absolute()
            for name, path in self.paths(run).items()
        }
        settings = self.settings.to_json()
        if settings.get("init"):
            settings["init"] = pathlib.Path(settings["init"]).absolute()
        objective = tasks.TASKS[self.settings.task].objective
        spec = {
            "settings": settings,
            "run": run,
            "paths": paths,
            "keep": bool(self.keep) or objective.keeps,
            "callbacks": self.options.get("callbacks"),
            # Modules are found where the command was given.
            "folder": pathlib.Path.cwd(),
        }
        with writing(paths["spec"]) as file:
            json.dump(spec, file, default=str)
        with files.naming_what_is_unwritten(paths["log"]):
            paths["log"].parent.mkdir(parents=True, exist_ok=True)
        return paths["spec"]

    def failure(self, run, reason=""):
        """Says that a run failed, with the last lines of its log.

        Args:
            run: `Run`.
            reason: String, what is known of it beside the log.
        """
        log = self.paths(run)["log"]
        # Libraries may write what is no text.
        lines = log.read_text("utf-8", "replace") if log.exists() else ""
        lines = [*filter(str.strip, [*lines.splitlines(), *reason.split("\n")])]
        last = "\n".join(lines[-LAST_LINES:])
        return f"{run} failed; its log is {log}:\n{last}"

    def forget(self, run):
        """Removes what is of no use once a run's result is safe."""
        for name in ("checkpoint", "events"):
            self.paths(run)[name].unlink(missing_ok=True)

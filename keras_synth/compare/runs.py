"""Runs, their identity, and their results."""

import contextlib
import functools
import json
import os
import pathlib
import re
import shutil
import time
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any, NamedTuple

from keras_synth.compare import own
from keras_synth.compare.files import writing
from keras_synth.compare.launching import locally, on_ray
from keras_synth.compare.settings import BACKENDS, digest
from keras_synth.version import __version__

FORMAT = 1  # of a result's file


class Run(NamedTuple):
    """One training."""

    variant: str
    seed: int
    backend: str

    def __str__(self):
        return f"{self.variant}, seed {self.seed}, {self.backend}"


class Comparison(NamedTuple):
    """The common data of all runs.

    Attributes:
        task: `Task`.
        settings: Dictionary.
        data: Path of the arrays.
        data_digest: String, digest of the arrays.
        folder: Path for all files.
        command: String, the command that repeats the comparison.
        presets: Optional dictionary from a variant and a seed to the digest of
            the initial preset.
        callbacks: Optional string, `"module:function"`.
        preset: Whether the only model is saved, in `folder / "preset"`.
        script: Tuple of arguments of `ScriptTask`, or `None`.
        baseline: Dictionary, name and score of a model that reads no text.
    """

    task: Any
    settings: dict
    data: pathlib.Path
    data_digest: str
    folder: pathlib.Path
    command: str
    presets: dict | None = None
    callbacks: str | None = None
    preset: bool = False
    script: tuple | None = None
    baseline: dict | None = None

    def identity(self, run):
        """The identity of a run: contents and versions, but not paths."""
        settings = {k: x for k, x in self.settings.items() if k != "init"}
        return {
            "task": self.task.name,
            **run._asdict(),
            "settings": settings,
            "data": self.data_digest,
            "start": self.presets[run[:2]] if self.presets else "",
            "versions": versions(run.backend),
            "preset": self.preset,
        }

    def spec(self, run):
        """Returns the dictionary for the process of a run."""
        identity = self.identity(run)
        key = digest(FORMAT, identity)
        backend_free = {**identity, "backend": "", "versions": ""}
        slug = re.sub(r"[^\w+.-]+", "_", run.variant).strip("_")
        name = f"{slug}-seed{run.seed}-{run.backend}-{key[:8]}"
        folder, settings = self.folder.absolute(), self.settings
        if settings.get("init"):
            settings = {**settings, "init": os.path.abspath(settings["init"])}
        preset = ""
        if self.preset:
            preset = str(folder / "preset")
        elif self.task.keeps:
            preset = str(folder / "presets" / name)
        return {
            **identity,
            "name": name,
            "data": str(self.data.absolute()),
            "weights": str(folder / "initial" / f"{digest(backend_free)}.npz"),
            "log": str(folder / "logs" / f"{name}.txt"),
            "callbacks": self.callbacks,
            "callback_folder": str(folder / "callbacks" / name),
            "folder": os.getcwd(),  # of users' modules
            "preset": preset,
            "command": self.command,
            "script": self.script,
            "settings": settings,
        }

    def path(self, run):
        """The path of a run's result."""
        return self.folder / "runs" / f"{self.spec(run)['name']}.json"

    def is_done(self, run):
        """Whether the result, and the preset if one is saved, exist."""
        preset = self.spec(run)["preset"]
        return self.path(run).exists() and (
            not preset or pathlib.Path(preset).is_dir()
        )

    def write(self, run, result):
        """Writes the result of a run atomically."""
        content = {
            "format": FORMAT,
            **self.identity(run),
            "score": self.task.score(self.settings)._asdict(),
            "baseline": self.baseline,
            "command": self.command,
            "result": result,
        }
        with writing(self.path(run)) as file:
            json.dump(content, file, indent=1)


def versions(backend):
    """Returns the versions of packages that affect results."""
    found = {"keras_synth": __version__}
    for name in ("keras", backend):
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def installed(backends):
    """Returns the backends, or the default one, or raises if one is missing."""
    if not backends:
        found = os.environ.get("KERAS_BACKEND")
        backends = [found or next(filter(find_spec, BACKENDS), "jax")]
    for backend in backends:
        if backend not in BACKENDS or not find_spec(backend):
            raise ValueError(
                f"Backends must be installed ones of {', '.join(BACKENDS)}. "
                f"Received: {backend}"
            )
    return backends


def run_all(
    make, variants, seeds, backends, folder, resume, jobs=1, ray=None, gpus=0
):
    """Executes all runs without a result, and reports all results.

    Args:
        make: Function from a folder to a `Comparison`.
        variants: Strings.
        seeds: Integers.
        backends: Names; empty for the default one.
        folder: Path for all files.
        resume: Whether to keep existing results.
        jobs: Integer, number of simultaneous runs.
        ray: Address of a Ray cluster, `"local"` or `None`.
        gpus: Integer, GPUs of each run on Ray.

    Returns:
        The exit status of the command.
    """
    import filelock
    from rich.console import Console

    from keras_synth.compare.report import report

    console, folder = Console(stderr=True), pathlib.Path(folder)
    wanted = [
        Run(variant, seed, backend)
        for seed in dict.fromkeys(seeds)
        for variant in dict.fromkeys(variants)
        for backend in dict.fromkeys(installed(backends))
    ]
    launcher = functools.partial(locally, jobs=jobs)
    if ray:
        launcher = functools.partial(on_ray, address=ray, gpus=gpus)
    folder.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(folder / ".lock")
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout as error:
        raise ValueError(
            f"Another process writes to {folder}. Wait until it ends, or pass "
            "another --output"
        ) from error
    with lock:
        for left_over in folder.rglob(".*-partial"):  # of a killed process
            if left_over.is_dir():
                shutil.rmtree(left_over, ignore_errors=True)
            else:
                left_over.unlink(missing_ok=True)
        comparison = make(folder)
        todo = [x for x in wanted if not comparison.is_done(x)]
        done = f"{len(wanted) - len(todo)} of {len(wanted)}"
        if len(todo) < len(wanted):
            if not resume:
                raise ValueError(
                    f"{folder} already has results of these runs. Pass "
                    "--resume to keep them, or another --output. Received: "
                    f"{done} finished runs"
                )
            console.print(f"{done} are done")
        if comparison.callbacks:
            own.callbacks(comparison.callbacks, comparison.spec(wanted[0]))
        failed = complete(comparison, todo, launcher, console)
        if failed < len(wanted):
            report(folder, console)
    return 1 if failed else 0


def complete(comparison, todo, launcher, console):
    """Executes runs; returns the number of failures.

    Args:
        comparison: `Comparison`.
        todo: List of `Run`.
        launcher: `locally` or `on_ray`, a function of specs by run, and of a
            function of events.
        console: `rich.console.Console`.
    """
    from rich import progress  # here, so that commands start faster

    failed, began = 0, time.monotonic()
    score = comparison.task.score(comparison.settings)
    columns = [
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
        progress.TextColumn("{task.fields[note]}"),
    ]
    with progress.Progress(*columns, console=console) as shown:
        whole = shown.add_task("all runs", total=len(todo), note="")
        lines: dict = {}

        def emit(run, event):
            if run not in lines:
                lines[run] = shown.add_task(str(run), total=None, note="")
            shown.update(lines[run], **event)

        specs = {run: comparison.spec(run) for run in todo}
        # If it is stopped, it ends all processes.
        with contextlib.closing(launcher(specs, emit)) as ended:
            for count, (run, result) in enumerate(ended, 1):
                try:
                    found = result()
                except Exception as error:
                    error = getattr(error, "cause", error)  # Ray's
                    if isinstance(error, OSError):
                        raise error from None
                    failed += 1
                    console.print(f"{run} {error}", style="red", markup=False)
                else:
                    comparison.write(run, found)
                    figure = score.scale * found["score"]
                    console.print(
                        f"{run}: {score.name} {figure:.{score.digits}f}"
                        f"{score.unit}",
                        highlight=False,
                    )
                if count == 1 and len(todo) > 1:
                    seconds = (time.monotonic() - began) * (len(todo) - 1)
                    console.print(
                        f"The other {len(todo) - 1} runs need about "
                        f"{seconds / 60:.1f} minutes, one at a time",
                        highlight=False,
                    )
                shown.advance(whole)
                if run in lines:
                    shown.remove_task(lines.pop(run))
    return failed

"""Runs: their identity, processes and results."""

import concurrent.futures
import contextlib
import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import NamedTuple

import keras

from keras_synth.compare import own
from keras_synth.compare.data import read_arrays
from keras_synth.compare.files import digest, digest_of_files, writing
from keras_synth.compare.task import Score
from keras_synth.version import __version__

BACKENDS = ("jax", "tensorflow", "torch")
LAST_LINES = 5  # of a failed run's error, or of its log
# Files of `writing`, and folders of presets, after a process was killed.
LEFT_OVER = (".*-????????-partial", ".????????.partial")
LONGEST = 100  # letters of a variant in names of files
RAY_RETRIES = 3  # of a run whose machine died


class Run(NamedTuple):
    """One training."""

    variant: str
    seed: int
    backend: str

    def __str__(self):
        return f"{self.variant}, seed {self.seed}, {self.backend}"


def make_specs(
    task,
    settings,
    arrays,
    folder,
    wanted,
    command,
    presets=None,
    callbacks=None,
    preset=False,
    script=None,
):
    """Returns the dictionaries for the processes of runs, by run.

    It raises if there are too few examples. `arrays` is the path of those of
    all runs, `presets` has digests of initial presets by variant and seed, and
    `script` has the arguments of `ScriptTask`. With `preset`, the only model is
    saved in `folder / "preset"`.
    """
    data, folder = digest_of_files([arrays]), folder.absolute()
    examples = read_arrays(arrays)
    task.batches(examples, settings, 0)
    common = {
        "score": task.score(settings)._asdict(),
        "validation": task.validation,
        "baseline": examples.notes["baseline"],
        "command": command,
    }
    specs = {}
    for order, run in enumerate(wanted):
        code = own.digest_of_code("" if script else run.variant, callbacks)
        # Contents and versions, but no paths.
        identity = {
            "task": task.name,
            **run._asdict(),
            "settings": {k: x for k, x in settings.items() if k != "init"},
            "data": data,
            "start": presets[run[:2]] if presets else "",
            "code": code,
            "versions": versions(run.backend),
        }
        start = digest({**identity, "backend": "", "versions": ""})
        slug = re.sub(r"[^\w+.-]+", "_", run.variant).strip("_")[:LONGEST]
        name = f"{slug}-seed{run.seed}-{run.backend}-{digest(identity)[:8]}"
        where = f"presets/{name}" if task.keeps else ""
        where = "preset" if preset else where
        specs[run] = {
            **run._asdict(),
            "task": task.name,
            "settings": settings,
            "command": command,
            "name": name,
            "arrays": str(arrays.absolute()),
            "weights": str(folder / "initial" / f"{start}.npz"),
            "preset": str(folder / where) if where else "",
            "result": str(folder / "runs" / f"{name}.json"),
            "log": str(folder / "logs" / f"{name}.txt"),
            "callbacks": callbacks,
            "callback_folder": str(folder / "callbacks" / name),
            "folder": os.getcwd(),  # of users' modules
            "script": script,
            # In the file of the result.
            "record": {**identity, **common, "order": order},
        }
    return specs


def is_done(spec):
    """Whether the result, and the preset if one is saved, exist.

    The preset of another run of `keras-synth train` does not count.
    """
    card = pathlib.Path(spec["preset"], "README.md")
    is_saved = card.is_file() and spec["name"] in card.read_text("utf-8")
    return os.path.exists(spec["result"]) and (is_saved or not spec["preset"])


def versions(backend):
    """Returns the versions of packages that affect results."""
    found = {"keras_synth": __version__}
    for name in ("keras", backend):
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def grid(variants, seeds, backends):
    """Returns all runs; without backends, those of the default one."""
    _check("variants", variants, str, '["V", "R"]')
    _check("seeds", seeds, int, "[0, 1]")
    if not 0 <= min(seeds) <= max(seeds) < 2**32:  # NumPy's
        raise ValueError(
            "`seeds` must be integers from 0 to 2**32 - 1. Received: "
            f"seeds={seeds!r}"
        )
    backends = backends if len(backends) else [keras.backend.backend()]
    _check("backends", backends, str, '["jax"]')
    for backend in backends:
        if backend not in BACKENDS or not find_spec(backend):
            raise ValueError(
                f"Backends must be installed ones of {', '.join(BACKENDS)}. "
                f"Received: {backend}"
            )
    return [
        Run(variant, seed, backend)
        for seed in dict.fromkeys(seeds)
        for variant in dict.fromkeys(variants)
        for backend in dict.fromkeys(backends)
    ]


def _check(name, values, kind, example):
    """Raises if an argument is not a list with elements of a type."""
    listed = isinstance(values, Sequence) and not isinstance(values, str)
    if not listed or not values or any(type(x) is not kind for x in values):
        words = {str: "strings", int: "integers"}[kind]
        raise ValueError(
            f"`{name}` must be a list of {words}, such as {example}. "
            f"Received: {name}={values!r}"
        )


@contextlib.contextmanager
def locked(folder):
    """Makes a folder in which no other process writes; yields its path."""
    import filelock

    folder = pathlib.Path(folder)
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
        for pattern in LEFT_OVER:
            for path in folder.rglob(pattern):
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)
        yield folder


def run_all(specs, folder, resume, jobs=1, ray=None, gpus=0):
    """Executes all specs without a result, and reports all results.

    Returns the errors of failed runs, strings.
    """
    from rich.console import Console

    from keras_synth.compare.report import report

    if gpus and not ray:
        raise ValueError(
            "Only runs on Ray have a number of GPUs. Without it they use what "
            f"CUDA_VISIBLE_DEVICES shows. Received: {gpus} and no Ray address"
        )
    if ray and jobs > 1:
        raise ValueError(
            "Ray decides how many runs it executes at once. Leave out --jobs. "
            f"Received: {jobs} jobs and Ray at {ray}"
        )
    console = Console(stderr=True)
    todo = {run: x for run, x in specs.items() if not is_done(x)}
    if len(todo) < len(specs):
        done = f"{len(specs) - len(todo)} of {len(specs)}"
        if not resume:
            raise ValueError(
                f"{folder} already has results of these runs. Pass --resume "
                "(`resume=True`) to keep them, or name another folder. "
                f"Received: {done} finished runs"
            )
        console.print(f"{done} are done")
    first = next(iter(specs.values()))
    if first["callbacks"]:
        own.callbacks(first["callbacks"], first)
    launcher = functools.partial(locally, jobs=jobs)
    if ray:
        launcher = functools.partial(on_ray, address=ray, gpus=gpus)
    failed = complete(todo, launcher, console)
    if len(failed) < len(specs):
        report(folder)
    return failed


def complete(specs, launcher, console):
    """Executes specs by a launcher; returns the errors of failed runs."""
    from rich import progress  # here, so that commands start faster

    failed, began = [], time.monotonic()
    columns = [
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
        progress.TextColumn("{task.fields[note]}"),
    ]
    say = functools.partial(console.print, highlight=False, markup=False)
    with progress.Progress(*columns, console=console) as shown:
        whole = shown.add_task("all runs", total=len(specs), note="")
        lines: dict = {}

        def emit(run, event):
            if run not in lines:
                lines[run] = shown.add_task(str(run), total=None, note="")
            shown.update(lines[run], **event)

        # If it is stopped, it ends all processes.
        with contextlib.closing(launcher(specs, emit)) as ended:
            for count, (run, result) in enumerate(ended, 1):
                try:
                    found = result()
                except Exception as error:
                    error = getattr(error, "cause", error)  # Ray's
                    if isinstance(error, OSError):
                        raise error from None
                    failed.append(f"{run} {error}")
                    say(failed[-1], style="red")
                else:
                    record = {**specs[run]["record"], "result": found}
                    with writing(specs[run]["result"]) as file:
                        json.dump(record, file, indent=1)
                    score = Score(**record["score"])
                    say(f"{run}: {score.text(found['score'])}")
                if count == 1 and len(specs) > 1:
                    left = len(specs) - 1
                    minutes = (time.monotonic() - began) * left / 60
                    say(
                        f"{left} more to run: about {minutes:.1f} minutes if "
                        "one runs at a time"
                    )
                shown.advance(whole)
                if run in lines:
                    shown.remove_task(lines.pop(run))
    return failed


def execute(spec, emit=lambda event: None, processes=None):
    """Executes a spec in a separate process and returns the result.

    The process is in the set `processes` while it lives. An `OSError` means
    that a file cannot be written, so that no run can succeed.
    """
    environment = {**os.environ, "KERAS_BACKEND": spec["backend"]}
    environment[own.IN_WORKER] = "1"
    environment.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    path, last = pathlib.Path(spec["log"]), {}
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "keras_synth.compare.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment,
            text=True,
        )
    processes = set() if processes is None else processes
    processes.add(process)
    try:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps(spec) + "\n")
            process.stdin.flush()
        for line in process.stdout:
            last = json.loads(line)
            if not {"stop", "error", "result"} & {*last}:
                emit(last)
        process.wait()
    finally:
        process.kill()
        with contextlib.suppress(BrokenPipeError):  # for unread input
            process.stdin.close()
        processes.discard(process)
    if "stop" in last:
        raise OSError(last["stop"])
    if "result" not in last:
        words = last.get("error") or path.read_text("utf-8", "replace")
        words = "\n".join(words.strip().split("\n")[-LAST_LINES:])
        raise RuntimeError(f"failed; its log is {path}:\n{words}")
    return last["result"]


def locally(specs, emit, jobs):
    """Yields finished runs, and functions that return their results."""
    processes: set = set()
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        futures = {}
        for run, spec in specs.items():
            own_emit = functools.partial(emit, run)
            futures[pool.submit(execute, spec, own_emit, processes)] = run
        try:
            for future in concurrent.futures.as_completed(futures):
                yield futures[future], future.result
        finally:
            for future in futures:
                future.cancel()
            for process in [*processes]:
                process.kill()


def on_ray(specs, emit, address, gpus):
    """Yields finished runs on a Ray cluster, like `locally`."""
    import ray

    known = {} if address == "local" else {"address": address}
    try:
        ray.init(logging_level="ERROR", log_to_driver=False, **known)
    except (OSError, RuntimeError, ValueError) as error:
        raise ValueError(
            f"Ray does not answer at --ray {address}. Received: "
            f"{' '.join(str(error).split())}"
        ) from error

    def perform(spec):
        from keras_synth.compare.runs import execute

        return execute(spec)

    try:
        references = {}
        for run, spec in specs.items():
            environment = {"KERAS_BACKEND": run.backend}
            task = ray.remote(
                num_cpus=1,
                num_gpus=gpus,
                max_retries=RAY_RETRIES,
                runtime_env={"env_vars": environment},
            )(perform)
            references[task.remote(spec)] = run
        while references:
            (done, *_), _ = ray.wait([*references])
            yield references.pop(done), functools.partial(ray.get, done)
    finally:
        ray.shutdown()

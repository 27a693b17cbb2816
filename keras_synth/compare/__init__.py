"""Variants side by side: the same data, initial weights and batches.

`keras-synth compare` runs the tasks of this package; `run` does the same with
a model function of a script.
"""

import importlib
import pathlib
import shlex
import sys
from collections.abc import Callable, Sequence
from typing import Any

import keras

import keras_synth
from keras_synth.compare import data, own, scripts, start
from keras_synth.compare.runs import (
    Comparison,
    Run,
    complete,
    installed,
    locally,
    on_ray,
)
from keras_synth.compare.settings import with_defaults

__all__ = ["run"]


def run_task(
    task: Any,
    settings: dict,
    source: Any,
    variants: Sequence[str],
    seeds: Sequence[int],
    backends: Sequence[str],
    folder: Any,
    resume: bool = False,
    callbacks: str | None = None,
    preset: bool = False,
    command: str = "",
    **grid: Any,
) -> int:
    """Does what `keras-synth compare` says; returns the exit status.

    Args:
        task: `Task`.
        settings: Dictionary of those that differ from the task's.
        source: `Source`.
        variants: Names of synthesizers or mixers.
        seeds: Integers.
        backends: Names; nothing for the default one.
        folder: Path for all files.
        resume: Whether results that are there count.
        callbacks: `"module:function"`, or `None`.
        preset: Whether the only model is saved.
        command: String that repeats it.
        **grid: `jobs`, `ray` and `gpus`, as of `run`.

    Raises:
        ValueError: If anything is wrong, before a run begins.
        OSError: If a file cannot be written.
    """
    settings = with_defaults(task.name, task.defaults, settings)
    if (
        not source.data
        and task.generator is None
        and not hasattr(task, "lines")
    ):
        raise ValueError(f"The task {task.name} needs --data")
    first = None
    if settings.get("init"):
        settings |= start.shape(settings["init"])
        first = start.check(settings["init"], variants, seeds, settings)
    for variant in variants:
        check_variant(variant, task, settings)

    def make(folder):
        path = data.prepare(task, settings, source, folder / "data", print)
        arrays = data.read_arrays(path)
        batches, *_ = task.batches(arrays, settings, 0)
        if not len(batches):
            raise ValueError(
                "There are too few examples to train on for a batch. Pass a "
                f"smaller --batch-size. Received: {settings['batch_size']}"
            )
        return Comparison(
            task,
            settings,
            path,
            arrays.digest,
            folder,
            command,
            first,
            callbacks,
            preset,
            baseline=arrays.notes.get("baseline"),
        )

    grid = {"jobs": 1, "ray": None, "gpus": 0} | grid
    return _run_all(make, variants, seeds, backends, folder, resume, grid)


def check_variant(variant, task, settings):
    """Raises unless a variant can be made with these sizes."""
    templates = importlib.import_module("keras_synth.layers.templates")
    heads, length = settings["num_heads"], settings["sequence_length"]
    name = own.registered(variant)
    templates.template(name, heads, length, task.needs)
    keras_synth.mixers.get(
        name,
        num_heads=heads,
        key_dim=settings["hidden_dim"] // heads,
        max_length=length,
    )


def run(
    build_model: Callable[[str], keras.Model],
    variants: Sequence[str],
    seeds: Sequence[int] = (0,),
    backends: Sequence[str] = (),
    *,
    train: tuple,
    validation: tuple,
    test: tuple,
    epochs: int = 3,
    batch_size: int = 32,
    score: str | None = None,
    folder: Any = "compare",
    resume: bool = False,
    callbacks: str | None = None,
    jobs: int = 1,
    ray: str | None = None,
    gpus: int = 0,
) -> Any:
    """Trains a script's own models, each in a process of its own.

    All runs of a seed have the same batches, and those of a variant and a seed
    the same initial weights on every backend.

    Args:
        build_model: Function of a script from a variant, a string, to a
            compiled model. Each run imports the script, so call `run` below
            `if __name__ == "__main__":`.
        variants: Strings.
        seeds: Integers.
        backends: Of `"jax"`, `"tensorflow"` and `"torch"`; by default
            `KERAS_BACKEND`, or the first that is installed.
        train: Tuple `(x, y)`: an array of numbers, or a tuple or dictionary
            of such, and an array.
        validation: As `train`, scored after each epoch.
        test: As `train`, scored once.
        epochs: Integer.
        batch_size: Integer.
        score: Name of one of the model's metrics; by default its loss.
        folder: Path of a folder for results and reports.
        resume: Whether results that are there count.
        callbacks: `"module:function"` that makes callbacks of a run.
        jobs: Integer, runs at a time.
        ray: Address of a Ray cluster that does the runs, or `"local"`.
        gpus: Integer, GPUs of each run on Ray.

    Returns:
        `pandas.DataFrame`, a row for each run in `folder`.

    Raises:
        ValueError: If anything is wrong, before a run begins.
        RuntimeError: If `run` is called when the script is imported.

    Example:

    ```python
    if __name__ == "__main__":
        keras_synth.compare.run(
            build_model,
            ["V", "R"],
            seeds=[0, 1, 2],
            backends=["jax", "torch"],
            train=(x, y),
            validation=(x_val, y_val),
            test=(x_test, y_test),
            score="accuracy",
        )
    ```
    """
    from keras_synth.compare import results

    script = (*scripts.place_of(build_model), score)
    task = scripts.ScriptTask(*script)
    settings = {"epochs": epochs, "batch_size": batch_size}

    def make(folder):
        path = scripts.write(folder, train, validation, test)
        digest = data.read_arrays(path).digest
        command = shlex.join(["python", *sys.argv])
        return Comparison(
            task,
            # The functions of a script count as its data do.
            {**settings, "script": data.digest_of_files([script[0]])},
            path,
            digest,
            folder,
            command,
            callbacks=callbacks,
            script=script,
        )

    grid = {"jobs": jobs, "ray": ray, "gpus": gpus}
    _run_all(make, variants, seeds, backends, folder, resume, grid)
    return results.frame(results.read(folder))


def _run_all(make, variants, seeds, backends, folder, resume, grid):
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
    folder.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(folder / ".lock")
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout as error:
        raise ValueError(
            f"Another process writes to {folder}. Wait until it ends, or name "
            "another folder with --output"
        ) from error
    with lock:
        for left_over in folder.rglob(".*-partial"):
            _remove(left_over)  # of a process that was killed
        comparison = make(folder)
        done = [x for x in wanted if comparison.is_done(x)]
        if done and not resume:
            raise ValueError(
                f"{folder} has results of these runs. Pass --resume to go on "
                f"with them, or another --output. Received: {len(done)} of "
                f"{len(wanted)} runs that are done"
            )
        if comparison.callbacks:
            own.callbacks(comparison.callbacks, comparison.spec(wanted[0]))
        launcher = locally(grid["jobs"])
        if grid["ray"]:
            launcher = on_ray(grid["ray"], grid["gpus"])
        failed = complete(comparison, wanted, launcher, console)
        if len(failed) < len(wanted):
            report(folder, console)
    return 1 if failed else 0


def _remove(path):
    import shutil

    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)

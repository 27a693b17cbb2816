"""Compares variants with the same data, initial weights and batches.

`keras-synth compare` runs the tasks of this package. `run` runs the model
function of a script.
"""

import pathlib
import shlex
import sys
from collections.abc import Callable, Sequence
from typing import Any

import keras

from keras_synth._backend.checks import check_positive

__all__ = ["run"]


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
    higher_is_better: bool | None = None,
    folder: Any = "compare",
    resume: bool = False,
    callbacks: str | None = None,
    jobs: int = 1,
    ray: str | None = None,
    gpus: int = 0,
) -> Any:
    """Trains the models of a script, each in a separate process.

    All runs of a seed have the same batches. All runs of a variant and a seed
    have the same initial weights on every backend.

    Args:
        build_model: Function in a script from a variant, a string, to a
            compiled model. Each run imports the script, so call `run` below
            `if __name__ == "__main__":`. The script cannot use relative
            imports.
        variants: Strings, the arguments of `build_model`.
        seeds: Integers.
        backends: Some of `"jax"`, `"tensorflow"` and `"torch"`; by default
            that of this process.
        train: Tuple `(x, y)`: an array of numbers, or a tuple or dictionary of
            them, and an array.
        validation: Like `train`, scored after each epoch.
        test: Like `train`, scored once.
        epochs: Integer.
        batch_size: Integer.
        score: Name of one of the model's metrics; by default its loss. If a
            metric returns several numbers, the score is their mean.
        higher_is_better: Whether a higher score is better. By default, lower
            is better for names of losses and errors, such as `"mae"`.
        folder: Path of a folder for results and reports.
        resume: Whether to keep existing results. They are those of the same
            code, data, arguments and versions. Code below
            `if __name__ == "__main__":` can change.
        callbacks: `"module:function"` that makes the callbacks of a run.
        jobs: Integer, number of simultaneous runs.
        ray: Address of a Ray cluster for the runs, or `"local"`.
        gpus: Integer, GPUs of each run on Ray.

    Returns:
        `pandas.DataFrame`, a row for each run in `folder`.

    Raises:
        ValueError: If an argument is wrong, before the first run.
        RuntimeError: If `run` is called when the script is imported, or all
            runs fail.

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
    from keras_synth.compare import files, own, report, runs

    check_positive("epochs", epochs)
    check_positive("batch_size", batch_size)
    check_positive("jobs", jobs)
    script = (*own.place_of(build_model), score, higher_is_better)
    task = own.ScriptTask(*script)
    wanted = runs.grid(variants, seeds, backends)
    with runs.locked(folder) as path:
        specs = runs.make_specs(
            task,
            {
                "epochs": epochs,
                "batch_size": batch_size,
                # The functions of a script count as part of its data.
                "script": files.digest(
                    own.digest_of_script(script[0]), *script[1:]
                ),
            },
            own.write(path, task.name, (train, validation, test)),
            path,
            wanted,
            shlex.join(["python", *sys.argv]),
            callbacks=callbacks,
            script=script,
        )
        failed = runs.run_all(specs, path, resume, jobs, ray, gpus)
    if len(failed) == len(wanted):
        cause = failed[0].rpartition("\n")[2]
        raise RuntimeError(
            "All runs failed. Their logs are in "
            f"{pathlib.Path(folder, 'logs')}. Received in the first one: "
            f"{cause}"
        )
    return report.frame(report.read(folder))

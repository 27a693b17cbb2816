"""One run in a process of its own: `python -m keras_synth.compare.worker FILE`.

FILE is JSON with the settings, the run and paths. Events go to standard
output, one JSON line each; the last one holds the result.
"""

import contextlib
import json
import os
import pathlib
import sys
import threading
import time

import keras
import numpy as np

import keras_synth
from keras_synth._backend.execution import backend_version
from keras_synth._system.files import (
    UnwrittenError,
    is_full,
    naming_what_is_damaged,
    unwritten,
    writing,
)
from keras_synth._system.memory import peak_memory
from keras_synth.analysis import multiplications
from keras_synth.compare import callbacks, grid, prepare, tasks
from keras_synth.compare.launchers.local import WITH_INPUT
from keras_synth.training.batches import StepsPerEpoch
from keras_synth.training.callbacks import (
    EpochCheckpoint,
    StepLog,
    TimedBatches,
    speed,
)

EVENT_SECONDS = 0.2  # at most five a second


class Log(StepLog):
    """Notes scores beside steps, and reports both.

    Beside what `StepLog` takes: `evaluate`, a function that returns what
    `Objective.evaluate` does, and `emit`, one that takes an event, a
    dictionary.
    """

    def __init__(self, timed, history, evaluate, emit):
        super().__init__(timed, history)
        self.evaluate, self.emit, self.emitted = evaluate, emit, 0.0

    def on_train_batch_end(self, batch, logs=None):
        super().on_train_batch_end(batch, logs)
        now = time.perf_counter()
        if now - self.emitted > EVENT_SECONDS:
            self.emitted = now
            step, loss = len(self.history["losses"]), self.history["losses"][-1]
            self.emit({"step": step, "loss": loss})

    def on_epoch_end(self, epoch, logs=None):
        super().on_epoch_end(epoch, logs)
        found = self.evaluate()
        self.history["validation_scores"].append(found["score"])
        self.history["validation_losses"].append(found["loss"])
        if logs is not None:  # callbacks that come later see them
            logs.update(val_score=found["score"], val_loss=found["loss"])
        step = len(self.history["losses"])
        self.emit({"step": step, "score": found["score"]})


def share_initial_weights(model, path):
    """Gives the model the initial weights in a file, or writes them there.

    Backends draw other numbers from the same seed, so the first one to come
    draws for all.

    Raises:
        ValueError: The file is damaged.
    """
    path = pathlib.Path(path)
    if path.exists():
        way_out = "Remove it, and they are drawn again, by the same seed."
        with (
            naming_what_is_damaged(path, "initial weights", way_out),
            np.load(path) as file,
        ):
            model.set_weights([file[name] for name in file.files])
        return
    with writing(path, "wb") as file:
        np.savez(file, *model.get_weights())


def train(settings, run, paths, emit, keep=False, more=()):
    """Trains one model and returns its result.

    Args:
        settings: `Settings`.
        run: `Run`.
        paths: Dictionary of paths, as of `Jobs`.
        emit: Function that takes an event, a dictionary.
        keep: Boolean, whether the model is saved as a preset.
        more: Sequence of Keras callbacks.
    """
    objective = tasks.TASKS[settings.task].objective
    prepared = prepare.read(paths["data"])
    batches, validation, test = objective.batches(settings, run.seed, prepared)
    if settings.steps_per_epoch:
        batches = StepsPerEpoch(batches, settings.steps_per_epoch)
    steps = settings.epochs * len(batches)
    emit({"steps": steps})
    keras.utils.set_random_seed(run.seed)
    keras.config.set_dtype_policy(settings.dtype_policy)
    model = objective.build(settings, run, prepared, steps)
    share_initial_weights(model, paths["weights"])
    validated = ("validation_scores", "validation_losses")
    history = {name: [] for name in validated}
    checkpoint = EpochCheckpoint(paths["checkpoint"], history, run.seed)
    scorer = objective.scorer(model)

    def evaluate(batches):
        found = objective.evaluate(scorer, batches)
        return {name: float(figure) for name, figure in found.items()}

    log = Log(
        TimedBatches(batches), history, lambda: evaluate(validation), emit
    )
    # The weights of a run that was stopped after training are wanted, too.
    checkpoint.fit(model, log.timed, settings.epochs, [log, *more], verbose=0)
    metrics = evaluate(test)
    result = {
        "score": metrics.pop("score"),
        "test_loss": metrics.pop("loss"),
        **({"metrics": metrics} if metrics else {}),
        **{name: history[name] for name in (*validated, "losses")},
        **speed(history),
        "parameters": model.count_params(),
        "multiplications": counted(model, settings.sequence_length),
        "peak_memory_bytes": peak_memory(),
        "data": prepared.digest,
        "versions": versions(),
        **objective.finish(model, settings, prepared, emit),
    }
    if keep:
        folder = pathlib.Path(paths["preset"])
        # What the package generates is its own; of files nothing is known.
        licence = None if tasks.TASKS[settings.task].needs else "apache-2.0"
        objective.keep(model, settings, run, prepared, result, folder, licence)
        result["preset"] = folder.name
    return result


def counted(model, length):
    """Multiplications of a sample, or `None` where nothing counts a mixer's."""
    try:
        return sum(multiplications(model, length, length).values())
    except ValueError:
        return None


def versions():
    """Versions of what the numbers depend on."""
    backend, version = backend_version()
    return {
        "keras_synth": keras_synth.__version__,
        "keras": keras.__version__,
        backend: version,
        "python": sys.version.split()[0],
    }


def perform(spec, emit):
    """Trains what a spec of `Jobs` says; returns the result.

    Args:
        spec: Dictionary, as read from its file.
        emit: Function that takes an event, a dictionary.

    Raises:
        UnwrittenError: A file could not be written.
    """
    task = tasks.TASKS[spec["settings"]["task"]]
    settings = task.objective.Settings.from_json(spec["settings"])
    run, paths = grid.Run(*spec["run"]), spec["paths"]
    more = ()
    if spec.get("callbacks"):
        info = callbacks.RunInfo.of(run, spec["settings"], paths["callbacks"])
        more = callbacks.callbacks_of(spec["callbacks"], info, spec["folder"])
    try:
        return train(settings, run, paths, emit, spec["keep"], more)
    except UnwrittenError:
        raise
    except OSError as error:
        if is_full(error):  # what libraries print goes to the log
            raise unwritten(spec["paths"]["log"], error) from error
        raise


def main():
    """Runs what the file named on the command line says."""
    spec = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    # Others may print; events have a descriptor of their own.
    events = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def emit(event):
        print(json.dumps(event), file=events, flush=True)

    done = threading.Event()
    if WITH_INPUT in sys.argv[2:]:
        watching = threading.Thread(
            target=_end_with_input, args=(done,), daemon=True
        )
        watching.start()
    try:
        last = {"result": perform(spec, emit)}
        done.set()
        emit(last)
    except UnwrittenError as error:
        done.set()
        # Before the error and, with it, files of HDF5 are forgotten: those
        # that found no room may end the process.
        emit({"unwritten": str(error)})


def _end_with_input(done):
    """Ends this process with the one that holds the other end of its input.

    That one may be killed, and another one go on with its runs: nobody else
    may then be writing to their files.

    Args:
        done: Event, that there is nothing left to write.
    """
    with contextlib.suppress(OSError):
        while os.read(0, 1024):
            pass
    if not done.is_set():
        os._exit(1)


if __name__ == "__main__":
    main()

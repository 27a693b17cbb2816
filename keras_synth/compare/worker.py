"""One run in a process of its own: `python -m keras_synth.compare.worker FILE`.

FILE is JSON with the settings, the run and paths. Events go to standard
output, one JSON line each; the last one holds the result.
"""

import json
import os
import pathlib
import sys
import time

import keras
import numpy as np

import keras_synth
from keras_synth.callbacks import EpochCheckpoint
from keras_synth.compare import grid, prepare, tasks
from keras_synth.files import writing
from keras_synth.memory import peak_memory
from keras_synth.quiet import without_startup_lines

EVENT_SECONDS = 0.2  # at most five a second


class TimedBatches(keras.utils.PyDataset):
    """Batches of another dataset, whose time is noted.

    Args:
        batches: `PyDataset` with an `epoch`, which `Log` sets.
    """

    def __init__(self, batches):
        super().__init__()
        self.batches, self.seconds = batches, 0.0

    def __len__(self):
        return len(self.batches)

    def __getitem__(self, index):
        started = time.perf_counter()
        batch = self.batches[index]
        self.seconds += time.perf_counter() - started
        return batch


class Log(keras.callbacks.Callback):
    """Notes losses, durations and scores, and reports them.

    Args:
        history: Dictionary of lists, to be filled.
        timed: `TimedBatches`, what is trained on.
        scores: Function that returns the score and loss of an epoch.
        emit: Function that takes an event, a dictionary.
    """

    def __init__(self, history, timed, scores, emit):
        super().__init__()
        self.history, self.timed, self.scores = history, timed, scores
        self.emit, self.emitted = emit, 0.0

    def on_epoch_begin(self, epoch, logs=None):
        self.total, self.epoch = 0.0, epoch
        self.timed.batches.epoch = epoch
        self.lengths = self.timed.batches.batch_lengths(epoch)
        self.delivering = self.timed.seconds

    def on_train_batch_begin(self, batch, logs=None):
        self.started = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        now = time.perf_counter()
        # Keras reports the mean of the epoch so far.
        total = float(logs["loss"]) * (batch + 1)
        loss, self.total = total - self.total, total
        self.history["losses"].append(round(loss, 5))
        self.history["seconds"].append(round(now - self.started, 5))
        self.history["lengths"].append(self.lengths[batch])
        if now - self.emitted > EVENT_SECONDS:
            self.emitted = now
            step = self.epoch * len(self.lengths) + batch + 1
            self.emit({"step": step, "loss": loss})

    def on_epoch_end(self, epoch, logs=None):
        score, loss = self.scores()
        self.history["delivering"].append(self.timed.seconds - self.delivering)
        self.history["validation_scores"].append(score)
        self.history["validation_losses"].append(loss)
        step = (epoch + 1) * len(self.lengths)
        self.emit({"step": step, "score": score})


def share_initial_weights(model, path):
    """Gives the model the initial weights in a file, or writes them there.

    Backends draw other numbers from the same seed, so the first one to come
    draws for all.
    """
    path = pathlib.Path(path)
    if path.exists():
        with np.load(path) as file:
            model.set_weights([file[name] for name in file.files])
        return
    with writing(path, "wb") as file:
        np.savez(file, *model.get_weights())


def train(settings, run, paths, emit):
    """Trains one model and returns its result."""
    objective = tasks.TASKS[settings.task].objective
    prepared = prepare.read(paths["data"])
    batches, validation, test = objective.batches(settings, run.seed, prepared)
    steps = settings.epochs * len(batches)
    emit({"steps": steps})
    with without_startup_lines():  # Keras looks for TensorFlow to seed it
        keras.utils.set_random_seed(run.seed)
    keras.config.set_dtype_policy(settings.dtype_policy)
    model = objective.build(settings, run, prepared, steps)
    share_initial_weights(model, paths["weights"])
    validated = ("validation_scores", "validation_losses")
    names = ("losses", "seconds", "lengths", "delivering", *validated)
    history = {name: [] for name in names}
    checkpoint = EpochCheckpoint(paths["checkpoint"], history, run.seed)
    scorer = objective.scorer(model)

    def scores(batches):
        logs = scorer.evaluate(batches, verbose=0, return_dict=True)
        return map(float, objective.scores(logs))

    log = Log(history, TimedBatches(batches), lambda: scores(validation), emit)
    fit(model, log, checkpoint, settings.epochs)
    score, loss = scores(test)
    return {
        "score": score,
        "test_loss": loss,
        **{name: history[name] for name in (*validated, "losses")},
        **speed(history),
        "parameters": model.count_params(),
        "peak_memory_bytes": peak_memory(),
        "data": prepared.digest,
        "versions": versions(),
        **objective.finish(model, settings, prepared, emit),
    }


def fit(model, log, checkpoint, epochs):
    """Trains a model from its last complete epoch on, if any is left."""
    epoch = checkpoint.restore(model)
    if epoch < epochs:
        model.fit(
            log.timed,
            epochs=epochs,
            initial_epoch=epoch,
            # The checkpoint comes last: it holds what the log has noted.
            callbacks=[log, checkpoint],
            verbose=0,
        )
    else:  # it was stopped after training: its weights are wanted
        checkpoint.set_model(model)
        checkpoint.on_train_begin()


def speed(history):
    """Steps per second and seconds of compiling, from the steps' durations.

    The first two steps of each length in tokens compile; what they took
    beyond the mean of the others of that length is compiling.
    """
    by_length = {}
    for length, seconds in zip(
        history["lengths"], history["seconds"], strict=True
    ):
        by_length.setdefault(length, []).append(seconds)
    steady = {n: s[2:] for n, s in by_length.items() if len(s) > 2}
    later = [seconds for durations in steady.values() for seconds in durations]
    compiling = sum(
        sum(s[:2]) - 2 * float(np.mean(steady.get(n, s)))
        for n, s in by_length.items()
    )
    total = sum(history["seconds"])
    return {
        "steps_per_second": len(later) / sum(later) if later else None,
        "compile_seconds": max(0.0, compiling),
        "train_seconds": total,
        # What making the batches took, of the time beside compiling.
        "data_share": sum(history["delivering"]) / (total - compiling),
    }


def versions():
    """Versions of what the numbers depend on."""
    backend = keras.backend.backend()
    return {
        "keras_synth": keras_synth.__version__,
        "keras": keras.__version__,
        backend: sys.modules[backend].__version__,
        "python": sys.version.split()[0],
    }


def main():
    """Runs what the file named on the command line says."""
    spec = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    # Others may print; events have a descriptor of their own.
    events = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def emit(event):
        print(json.dumps(event), file=events, flush=True)

    settings = tasks.settings_from_json(spec["settings"])
    result = train(settings, grid.Run(*spec["run"]), spec["paths"], emit)
    emit({"result": result})


if __name__ == "__main__":
    main()

"""What training reports and how long it takes, of epochs and of steps."""

import time
from typing import Any

import keras
import numpy as np


class EpochLog(keras.callbacks.Callback):
    """Notes the loss, the metrics and the duration of each epoch.

    ```python
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    x, y = np.ones((8, 4)), np.ones((8, 1))
    log = keras_synth.callbacks.EpochLog()
    model.fit(x, y, epochs=2, callbacks=[log], verbose=0)
    print(sorted(log.history), len(log.history["loss"]))
    # ['loss', 'seconds'] 2
    ```

    Args:
        history: Optional dictionary of lists that grow with each epoch: of
            what Keras reports, and `"seconds"`, validation included.
        batches: Optional dataset that is trained on, such as `LengthBuckets`.
            Its attribute `epoch` is set to the number of each.
    """

    def __init__(self, history: Any = None, batches: Any = None) -> None:
        super().__init__()
        self.history = {} if history is None else history
        self.batches = batches

    def on_epoch_begin(
        self, epoch: int, logs: dict[str, Any] | None = None
    ) -> None:
        self.started = time.perf_counter()
        if self.batches is not None:
            self.batches.epoch = epoch

    def on_epoch_end(
        self, epoch: int, logs: dict[str, Any] | None = None
    ) -> None:
        noted = {**(logs or {}), "seconds": time.perf_counter() - self.started}
        for name, value in noted.items():
            self.history.setdefault(name, []).append(float(value))


class TimedBatches(keras.utils.PyDataset):
    """Batches of another dataset, whose time is noted.

    Args:
        batches: `LengthBuckets` or `TokenWindows`; `StepLog` sets their epoch.

    Example:

    >>> tokens = np.frombuffer(100 * b"to be or not to be ", "uint8")
    >>> windows = keras_synth.batches.TokenWindows(
    ...     tokens, length=8, batch_size=2)
    >>> timed = keras_synth.callbacks.TimedBatches(windows)
    >>> len(timed) == len(windows)
    True
    """

    def __init__(self, batches: Any) -> None:
        super().__init__()
        self.batches, self.seconds = batches, 0.0

    def __len__(self):
        return len(self.batches)

    def __getitem__(self, index):
        started = time.perf_counter()
        batch = self.batches[index]
        self.seconds += time.perf_counter() - started
        return batch


class StepLog(keras.callbacks.Callback):
    """Notes loss and duration of each step.

    ```python
    tokens = np.frombuffer(100 * b"to be or not to be ", "uint8")
    windows = keras_synth.batches.TokenWindows(tokens, length=8, batch_size=4)
    inputs = {
        name: keras.Input((8,), name=name)
        for name in ("token_ids", "padding_mask")
    }
    embedded = keras.layers.Embedding(256, 256)(inputs["token_ids"])
    model = keras.Model(inputs, embedded)
    model.compile("adam", keras_synth.losses.LabelSmoothedCrossentropy())
    timed = keras_synth.callbacks.TimedBatches(windows)
    log = keras_synth.callbacks.StepLog(timed)
    model.fit(timed, epochs=2, callbacks=[log], verbose=0)
    print(len(log.history["losses"]) == 2 * len(windows))  # True
    ```

    Args:
        timed: `TimedBatches`, what is trained on.
        history: Optional dictionary of lists that grow: `"losses"`,
            `"seconds"` and `"lengths"` (in tokens) with each step, and
            `"delivering"`, the seconds that making batches took, with each
            epoch.
    """

    def __init__(self, timed: Any, history: Any = None) -> None:
        super().__init__()
        self.timed = timed
        self.history = {} if history is None else history
        for name in ("losses", "seconds", "lengths", "delivering"):
            self.history.setdefault(name, [])

    def on_epoch_begin(
        self, epoch: int, logs: dict[str, Any] | None = None
    ) -> None:
        self.total = 0.0
        self.timed.batches.epoch = epoch
        self.lengths = self.timed.batches.batch_lengths(epoch)
        self.delivering = self.timed.seconds

    def on_train_batch_begin(
        self, batch: int, logs: dict[str, Any] | None = None
    ) -> None:
        self.started = time.perf_counter()

    def on_train_batch_end(
        self, batch: int, logs: dict[str, Any] | None = None
    ) -> None:
        seconds = time.perf_counter() - self.started
        # Keras reports the mean of the epoch so far.
        total = float(logs["loss"]) * (batch + 1)
        loss, self.total = total - self.total, total
        self.history["losses"].append(round(loss, 5))
        self.history["seconds"].append(round(seconds, 5))
        self.history["lengths"].append(self.lengths[batch])

    def on_epoch_end(
        self, epoch: int, logs: dict[str, Any] | None = None
    ) -> None:
        self.history["delivering"].append(self.timed.seconds - self.delivering)


def speed(history: Any) -> Any:
    """Steps per second and seconds of compiling, from the steps' durations.

    The first two steps of each length in tokens compile; what they took
    beyond the mean of the others of that length is compiling.
    """
    by_length: dict[int, list[float]] = {}
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

"""Callbacks: training that resumes, its speed, and what attention does."""

import json
import pathlib
import tempfile
import time
from typing import Any

import keras
import numpy as np

from keras_synth import analysis
from keras_synth._backend.checks import check_positive
from keras_synth._system.files import (
    naming_what_is_damaged,
    naming_what_is_unwritten,
    sweep,
    writing,
)
from keras_synth.analysis import learned
from keras_synth.types import FilePath

FROM_THE_START = "Remove it to start from the first epoch."


class EpochCheckpoint(keras.callbacks.Callback):
    """Keeps all that training needs to go on, in one file, after each epoch.

    That is weights, optimizer and the states of random generators, so that
    training goes on as if it had never stopped, and the histories it is given.
    PyTorch's dropout draws from a global generator, which is seeded anew in
    each epoch. Files are replaced atomically.

    (`keras.callbacks.BackupAndRestore` writes two files in place, without the
    states of the generators that dropout draws from.)

    Args:
        path: Path of the file, `.npz`.
        history: Dictionary of lists of numbers that grow while training,
            saved with the weights. `restore` fills them; an empty one takes
            all that there are.
        seed: Integer, not negative, for the global generator.

    Example:

    ```python
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    checkpoint = keras_synth.callbacks.EpochCheckpoint("model.npz", {})
    model.fit(
        np.ones((8, 4)),
        np.ones((8, 1)),
        initial_epoch=checkpoint.restore(model),  # 0 if there is no file yet
        epochs=2,
        callbacks=[checkpoint],
        verbose=0,
    )
    print(checkpoint.restore(model))  # 2
    ```
    """

    def __init__(self, path: FilePath, history: Any, seed: int = 0) -> None:
        super().__init__()
        self.path = pathlib.Path(path)
        self.history, self.seed = history, seed
        self.arrays = None

    def restore(self, model: keras.Model) -> Any:
        """Reads where training of a compiled model stopped, if it did.

        The variables get their values when `fit` begins: what Keras does
        before may draw random numbers.

        Returns:
            Integer, the number of complete epochs: `initial_epoch` of `fit`.

        Raises:
            ValueError: The file is of another model, of other histories, or
                cannot be read.
        """
        model.optimizer.build(model.trainable_variables)
        sweep(self.path.parent)
        if not self.path.exists():
            return 0
        with naming_what_is_damaged(self.path, "a checkpoint", FROM_THE_START):
            notes, arrays = _read(self.path)
        variables = _state(model)
        if [v.shape for v in variables] != [a.shape for a in arrays]:
            self._refuse(
                "model",
                f"{len(variables)} arrays in the shapes of this one's",
                len(arrays),
            )
        if self.history and {*notes["history"]} != {*self.history}:
            self._refuse("history", [*self.history], [*notes["history"]])
        self.arrays = arrays
        for name, values in notes["history"].items():
            self.history.setdefault(name, [])[:] = values
        return notes["epochs"]

    def fit(
        self,
        model: keras.Model,
        x: Any,
        epochs: int,
        callbacks: Any = (),
        **options: Any,
    ) -> None:
        """Trains a compiled model from where it stopped on, if it did.

        Where all epochs are done already, the model gets their weights.

        Args:
            model: Compiled model.
            x: What `fit` takes.
            epochs: Integer, how many there are, complete ones included.
            callbacks: Callbacks that come before this one: it holds what they
                have noted.
            **options: Further arguments of `fit`. Unless `verbose` is 0, a
                line says where training goes on.
        """
        epoch = self.restore(model)
        if epoch and options.get("verbose", "auto"):
            print(f"Going on after epoch {epoch}", flush=True)
        if epoch < epochs:
            model.fit(
                x,
                epochs=epochs,
                initial_epoch=epoch,
                callbacks=[*callbacks, self],
                **options,
            )
        else:
            self.set_model(model)
            self.on_train_begin()

    def _refuse(self, what, expected, received):
        raise ValueError(
            f"{self.path} is of another {what}: expected {expected}. "
            f"{FROM_THE_START} Received: {received}"
        )

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        if self.arrays is not None:
            variables = _state(self.model)
            for variable, array in zip(variables, self.arrays, strict=True):
                variable.assign(array)
            self.arrays = None

    def on_epoch_begin(
        self, epoch: int, logs: dict[str, Any] | None = None
    ) -> None:
        seeds = np.random.SeedSequence((self.seed, epoch))
        keras.utils.set_random_seed(int(seeds.generate_state(1)[0]))

    def on_epoch_end(
        self, epoch: int, logs: dict[str, Any] | None = None
    ) -> None:
        variables = _state(self.model)
        notes = {
            "epochs": epoch + 1,
            "count": len(variables),
            "history": self.history,
        }
        arrays = {str(i): _array(v) for i, v in enumerate(variables)}
        with writing(self.path, "wb") as file:
            np.savez(file, notes=json.dumps(notes), **arrays)


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


def fit_from_checkpoint(
    model: keras.Model,
    batches: Any,
    path: FilePath,
    epochs: int,
    validation_data: Any = None,
    callbacks: Any = (),
    verbose: Any = 2,
    **options: Any,
) -> dict[str, list[float]]:
    """Trains a model, or goes on where a killed process stopped.

    After each epoch all that training needs to go on is in a file. The same
    call goes on from there, along the same curve: the same seed makes the same
    batches, and `EpochCheckpoint` keeps the rest.

    Args:
        model: Compiled model.
        batches: `EpochBatches`, such as `LengthBuckets` or `TokenWindows`.
            Their seed is that of what is drawn in training, too.
        path: Path of the file, `.npz`. Remove it when the results are safe.
        epochs: Integer, passes over the batches.
        validation_data: As of `fit`.
        callbacks: Further callbacks.
        verbose: As of `fit`; by default a line for each epoch.
        **options: Further arguments of `fit`.

    Returns:
        Dictionary of lists, what `EpochLog` notes of all epochs.

    Example:

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
    history = keras_synth.callbacks.fit_from_checkpoint(
        model, windows, "bytes.npz", epochs=2, verbose=0
    )
    print(len(history["loss"]))  # 2
    ```
    """
    history: dict[str, list[float]] = {}
    checkpoint = EpochCheckpoint(path, history, batches.seed)
    log = EpochLog(history, batches)
    options |= {"validation_data": validation_data, "verbose": verbose}
    checkpoint.fit(model, batches, epochs, [log, *callbacks], **options)
    return history


STEPS = ("losses", "seconds", "lengths", "delivering")


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
    from keras_synth.training import callbacks

    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    tokens = np.frombuffer(100 * b"to be or not to be ", "uint8")
    batches = keras_synth.batches.TokenWindows(tokens, length=4, batch_size=2)
    timed = callbacks.TimedBatches(batches)
    history = {name: [] for name in callbacks.STEPS}
    log = callbacks.StepLog(timed, history)
    ```

    Args:
        timed: `TimedBatches`, what is trained on.
        history: Dictionary of lists, among them those named by `STEPS`: of
            each step the loss, the seconds and the length in tokens, of each
            epoch the seconds that making its batches took.
    """

    def __init__(self, timed: Any, history: Any) -> None:
        super().__init__()
        self.timed, self.history = timed, history

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


class AttentionSummary(keras.callbacks.Callback):
    """Shows in TensorBoard what attention does while a model is trained.

    Before training and after epochs it writes, for a batch of inputs: of each
    layer the histogram of its weights, the mean entropy of a query's weights
    and the input dependence of the heads; of mixtures the parts' alphas; a
    picture of all heads for the first sample, and one of the alphas. It needs
    the extra `tensorboard`, and TensorFlow on no backend.

    Args:
        log_dir: Path of the folder that TensorBoard reads.
        inputs: A batch of the model's inputs, such as a preprocessor makes.
        every: Integer, epochs from one summary to the next.

    Raises:
        UnwrittenError: The folder cannot be written, an `OSError`.

    Example:

    ```python
    from keras_synth import models

    backbone = models.SynthesizerBackbone(
        100, num_layers=1, num_heads=2, hidden_dim=16, intermediate_dim=32,
        synthesizer="R+V", max_sequence_length=16)
    model = models.SynthesizerTextClassifier(backbone, num_classes=2)
    inputs = {
        "token_ids": np.ones((8, 16), "int32"),
        "padding_mask": np.ones((8, 16), "int32"),
    }
    summary = keras_synth.callbacks.AttentionSummary("logs", inputs)
    model.fit(inputs, np.ones(8), callbacks=[summary], verbose=0)
    ```
    """

    def __init__(self, log_dir: FilePath, inputs: Any, every: int = 1) -> None:
        super().__init__()
        self.log_dir, self.inputs = pathlib.Path(log_dir), inputs
        self.every = check_positive("every", every)
        self._writer: Any = None
        with naming_what_is_unwritten(self.log_dir / "events"):
            self.log_dir.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.log_dir):
                pass  # it can be written

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        try:
            from tensorboardX import SummaryWriter
        except ImportError as error:
            raise ImportError(
                "Summaries are written by tensorboardX: "
                "pip install 'keras-synth[tensorboard]'"
            ) from error
        self._writer = SummaryWriter(str(self.log_dir))
        self._write(0)

    def on_epoch_end(
        self, epoch: int, logs: dict[str, Any] | None = None
    ) -> None:
        if (epoch + 1) % self.every == 0:
            self._write(epoch + 1)

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        self._writer.close()

    def _write(self, step):
        model, writer = self.model, self._writer
        statistics = analysis.attention_statistics(model, [self.inputs])
        for name, own in statistics.items():
            _add_histogram(writer, f"{name}/weights", own, step)
            for number in ("entropy", "input_dependence"):
                mean = float(getattr(own, number)().mean())
                writer.add_scalar(f"{name}/{number}", mean, step)
        weights = analysis.attention_weights(model, self.inputs)
        _add_picture(writer, "heads", analysis.plot_heads(weights), step)
        mixtures = learned.mixtures(model)
        for name, (parts, shares) in mixtures.items():
            for i, (part, share) in enumerate(zip(parts, shares, strict=True)):
                tag = f"{name}/alphas/{i}_{part}"
                writer.add_scalar(tag, float(share.mean()), step)
        if mixtures:
            picture = analysis.plot_alphas(model)
            _add_picture(writer, "alphas", picture, step)
        writer.flush()


def _add_histogram(writer, tag, statistics, step):
    edges, counts = statistics.histogram()
    counts = counts.sum(0)
    middles = (edges[:-1] + edges[1:]) / 2
    seen = np.flatnonzero(counts)
    writer.add_histogram_raw(
        tag,
        min=float(edges[seen[0]]) if len(seen) else 0.0,
        max=float(edges[seen[-1] + 1]) if len(seen) else 0.0,
        num=int(counts.sum()),
        sum=float(counts @ middles),
        sum_squares=float(counts @ middles**2),
        bucket_limits=edges[1:].tolist(),
        bucket_counts=counts.tolist(),
        global_step=step,
    )


def _add_picture(writer, tag, picture, step):
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(picture)
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())[..., :3]
    writer.add_image(tag, pixels, step, dataformats="HWC")


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


def _read(path):
    """Notes and arrays of a checkpoint.

    Raises:
        Exception: It is damaged.
    """
    with np.load(path) as file:
        notes = json.loads(str(file["notes"]))
        arrays = [file[str(i)] for i in range(notes["count"])]
    if type(notes["epochs"]) is not int or notes["epochs"] < 0:
        raise ValueError(f"its epochs are {notes['epochs']!r}")
    if not all(isinstance(x, list) for x in notes["history"].values()):
        raise ValueError("its history holds what is no list")
    if kinds := {a.dtype.kind for a in arrays} - {*"biuf"}:
        raise ValueError(f"its arrays are not numbers but {sorted(kinds)}")
    return notes, arrays


def _state(model):
    """All variables that training changes, but for metrics'."""
    metrics = {id(v) for v in model.metrics_variables}
    own = [v for v in model.variables if id(v) not in metrics]
    return own + model.optimizer.variables


def _array(variable):
    """A variable's value as NumPy can save it, exactly.

    Files of NumPy know no bfloat16, every value of which is one of float32.
    """
    array = keras.ops.convert_to_numpy(variable)
    return array.astype("float32") if array.dtype.kind == "V" else array

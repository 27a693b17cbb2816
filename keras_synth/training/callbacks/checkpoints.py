"""Training that goes on where a killed process stopped."""

import json
import pathlib
from typing import Any

import keras
import numpy as np

from keras_synth._system.files import naming_what_is_damaged, sweep, writing
from keras_synth.training.callbacks.logs import EpochLog
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

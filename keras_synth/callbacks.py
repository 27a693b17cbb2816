"""`EpochCheckpoint`: training that was killed goes on."""

import json
import pathlib

import keras
import numpy as np

from keras_synth.files import writing


class EpochCheckpoint(keras.callbacks.Callback):
    """Keeps all that training needs to go on, in one file, after each epoch.

    That is weights, optimizer and the states of random generators, so that
    training goes on as if it had never stopped, and the histories it is given.
    PyTorch's dropout draws from a global generator; it is seeded anew in each
    epoch. The file is written aside, then renamed: it is always whole.

    (`keras.callbacks.BackupAndRestore` writes two files in place, without the
    states of the generators that dropout draws from.)

    ```python
    history = {"loss": []}
    checkpoint = keras_synth.callbacks.EpochCheckpoint("model.npz", history)
    model.compile(...)
    epoch = checkpoint.restore(model)  # 0 if there is no file yet
    model.fit(..., initial_epoch=epoch, callbacks=[checkpoint])
    ```

    Args:
        path: Path of the file, `.npz`.
        history: Dictionary of lists of numbers that grow while training,
            saved with the weights. `restore` fills them.
        seed: Integer, not negative, for the global generator.
    """

    def __init__(self, path, history, seed=0):
        super().__init__()
        self.path = pathlib.Path(path)
        self.history, self.seed = history, seed
        self.arrays = None

    def restore(self, model):
        """Reads where training of a compiled model stopped, if it did.

        The variables get their values when `fit` begins: what Keras does
        before may draw random numbers.

        Returns:
            Integer, the number of complete epochs: `initial_epoch` of `fit`.

        Raises:
            ValueError: The file is of another model, or cannot be read.
        """
        model.optimizer.build(model.trainable_variables)
        if not self.path.exists():
            return 0
        try:
            with np.load(self.path) as file:
                notes = json.loads(str(file["notes"]))
                arrays = [file[str(i)] for i in range(notes["count"])]
        except Exception as error:
            raise ValueError(
                f"{self.path} cannot be read as a checkpoint ({error}). "
                "Remove it to start from the first epoch."
            ) from error
        variables = _state(model)
        if [v.shape for v in variables] != [a.shape for a in arrays]:
            raise ValueError(
                f"{self.path} is of another model: expected {len(variables)} "
                f"arrays in the shapes of this one's. Received: {len(arrays)}. "
                "Remove it to start from the first epoch."
            )
        self.arrays = arrays
        for name, values in notes["history"].items():
            self.history[name][:] = values
        return notes["epochs"]

    def on_train_begin(self, logs=None):
        if self.arrays is not None:
            variables = _state(self.model)
            for variable, array in zip(variables, self.arrays, strict=True):
                variable.assign(array)
            self.arrays = None

    def on_epoch_begin(self, epoch, logs=None):
        seeds = np.random.SeedSequence((self.seed, epoch))
        keras.utils.set_random_seed(int(seeds.generate_state(1)[0]))

    def on_epoch_end(self, epoch, logs=None):
        variables = _state(self.model)
        notes = {
            "epochs": epoch + 1,
            "count": len(variables),
            "history": self.history,
        }
        arrays = {str(i): _array(v) for i, v in enumerate(variables)}
        with writing(self.path, "wb") as file:
            np.savez(file, notes=json.dumps(notes), **arrays)


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

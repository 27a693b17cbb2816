"""A checkpoint brings training back to exactly where it was."""

import keras
import numpy as np
import pytest

from keras_synth.batches import EpochBatches
from keras_synth.callbacks import (
    EpochCheckpoint,
    EpochLog,
    fit_from_checkpoint,
)

X = np.random.default_rng(0).normal(size=(64, 6)).astype("float32")
Y = X.sum(axis=1)


def model():
    """A model whose training draws random numbers: dropout."""
    keras.utils.set_random_seed(1)
    made = keras.Sequential(
        [
            keras.Input((6,)),
            keras.layers.Dense(16, "relu"),
            keras.layers.Dropout(0.5, seed=3),
            keras.layers.Dense(1),
        ]
    )
    made.compile(keras.optimizers.Adam(0.01), "mse", metrics=["mae"])
    return made


class Losses(keras.callbacks.Callback):
    def __init__(self, history, last=None):
        super().__init__()
        self.history, self.last = history, last

    def on_train_batch_end(self, batch, logs=None):
        self.history["losses"].append(float(logs["loss"]))

    def on_epoch_end(self, epoch, logs=None):
        if epoch == self.last:
            raise KeyboardInterrupt


def fit(path, last=None):
    history = {"losses": []}
    checkpoint = EpochCheckpoint(path, history)
    made = model()
    made.fit(
        X,
        Y,
        batch_size=8,
        epochs=4,
        initial_epoch=checkpoint.restore(made),
        shuffle=False,
        callbacks=[checkpoint, Losses(history, last)],
        verbose=0,
    )
    return history["losses"], made.get_weights()


@pytest.mark.parametrize("policy", ["float32", "bfloat16", "float16"])
def test_training_goes_on_as_if_it_had_never_stopped(tmp_path, policy):
    keras.config.set_dtype_policy(policy)
    expected, weights = fit(tmp_path / "whole.npz")
    with pytest.raises(KeyboardInterrupt):
        fit(tmp_path / "broken.npz", last=1)
    losses, resumed = fit(tmp_path / "broken.npz")
    assert len(losses) == len(expected) == 32
    np.testing.assert_allclose(losses, expected, rtol=1e-6)
    for ours, theirs in zip(resumed, weights, strict=True):
        ours, theirs = ours.astype("float32"), theirs.astype("float32")
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_an_error_while_writing_keeps_the_checkpoint(tmp_path, monkeypatch):
    path = tmp_path / "kept.npz"
    fit(path)
    before = path.read_bytes()

    def full(*args, **kwargs):
        raise OSError("No space left on device")

    monkeypatch.setattr(np, "savez", full)
    path.rename(tmp_path / "other.npz")
    with pytest.raises(OSError, match="No space"):
        fit(path)
    assert not path.exists()
    assert (tmp_path / "other.npz").read_bytes() == before


def test_checkpoints_of_other_models_and_damaged_ones_are_refused(tmp_path):
    path = tmp_path / "checkpoint.npz"
    fit(path)
    other = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1)])
    other.compile("sgd", "mse")
    with pytest.raises(ValueError, match="another model") as error:
        EpochCheckpoint(path, {"losses": []}).restore(other)
    assert "Received" in str(error.value)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match="Remove it to start"):
        EpochCheckpoint(path, {"losses": []}).restore(model())


class Batches(EpochBatches):
    """Eight batches, in another order in each epoch."""

    def make_plan(self, epoch):
        return np.random.default_rng((self.seed, epoch)).permutation(64)

    def __len__(self):
        return 8

    def __getitem__(self, index):
        rows = self.plan(self.epoch)[8 * index : 8 * index + 8]
        return X[rows], Y[rows]


class Killed(keras.callbacks.Callback):
    """Stops training in the middle of an epoch."""

    def on_train_batch_end(self, batch, logs=None):
        if batch == 4 and self.model.optimizer.iterations > 16:
            raise KeyboardInterrupt


def test_fitting_goes_on_from_a_checkpoint_along_the_same_curve(
    tmp_path, capsys
):
    def fit(path, **options):
        made = model()
        batches = Batches(seed=5, epoch=0)
        history = fit_from_checkpoint(made, batches, path, 4, (X, Y), **options)
        return history, made.get_weights()

    whole, expected = fit(tmp_path / "whole.npz")
    assert {*whole} == {"loss", "mae", "val_loss", "val_mae", "seconds"}
    out = capsys.readouterr().out
    assert "Epoch 4/4" in out
    assert "Going on" not in out
    path = tmp_path / "killed.npz"
    with pytest.raises(KeyboardInterrupt):
        fit(path, callbacks=[Killed()], verbose=0)
    history, weights = fit(path)
    assert "Going on after epoch 2" in capsys.readouterr().out
    assert all(len(values) == 4 for values in history.values())
    for name in ("loss", "val_loss"):
        np.testing.assert_allclose(history[name], whole[name], rtol=1e-5)
    for ours, theirs in zip(weights, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)
    # What was stopped after training has its weights and all of its history.
    again, weights = fit(path, verbose=0)
    assert again == history
    for ours, theirs in zip(weights, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)
    assert capsys.readouterr().out == ""


def test_an_epoch_log_notes_what_keras_reports_and_sets_the_epoch():
    seen = []

    class Noting(Batches):
        def __getitem__(self, index):
            seen.append(self.epoch)
            return super().__getitem__(index)

    batches = Noting(seed=0, epoch=7)
    log = EpochLog(batches=batches)
    made = model()
    made.fit(batches, epochs=2, initial_epoch=1, callbacks=[log], verbose=0)
    assert seen[-8:] == [1] * 8
    assert {*log.history} == {"loss", "mae", "seconds"}
    assert all(len(values) == 1 for values in log.history.values())

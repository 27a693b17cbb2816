"""One file, the same predictions and the same training on every backend."""

import os
import subprocess
import sys

import across_backends
import keras
import numpy as np
import pytest
from backend import INSTALLED
from places import HELPERS

from keras_synth import models

# The whole comparison runs once, not under each backend again.
pytestmark = pytest.mark.once
OTHERS = [name for name in INSTALLED if name != keras.backend.backend()]


def save_job(folder):
    """A model with all kinds of synthesizers, and batches to train it on.

    Of one seed: where losses fall steeply, differences in the last bit grow
    with each step.
    """
    keras.utils.set_random_seed(0)
    backbone = models.SynthesizerBackbone(
        vocabulary_size=50,
        num_layers=3,
        num_heads=2,
        hidden_dim=16,
        intermediate_dim=32,
        synthesizer=["R+V", "fixed_random + dense + factorized_dense", "FR"],
        dropout=0.0,
        max_sequence_length=16,
    )
    model = models.SynthesizerTextClassifier(backbone, 3, dropout=0.0)
    model.save(folder / "model.keras")
    rng = np.random.default_rng(0)
    lengths = rng.integers(4, 13, (32, 1))
    np.savez(
        folder / "data.npz",
        token_ids=rng.integers(0, 50, (32, 12)).astype("int32"),
        padding_mask=(np.arange(12) < lengths).astype("int32"),
        labels=rng.integers(0, 3, 32),
    )


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("backends")
    save_job(folder)
    across_backends.main(folder)
    script = HELPERS / "across_backends.py"
    for name in OTHERS:
        done = subprocess.run(
            [sys.executable, script, folder],
            env={**os.environ, "KERAS_BACKEND": name},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    names = [keras.backend.backend(), *OTHERS]
    return {name: np.load(folder / f"{name}.npz") for name in names}


def test_a_saved_file_predicts_alike_on_all_backends(results):
    first, *others = results.values()
    for other in others:
        np.testing.assert_allclose(
            other["predictions"], first["predictions"], atol=1e-5
        )


def test_the_same_batches_have_the_same_loss_curve(results):
    first, *others = results.values()
    assert np.mean(first["losses"][-4:]) < 0.9 * np.mean(first["losses"][:4])
    for other in others:
        np.testing.assert_allclose(other["losses"], first["losses"], atol=1e-3)

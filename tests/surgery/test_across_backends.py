"""Files of grafted and synthesized models, on every backend."""

import os
import subprocess
import sys

import keras
import keras_hub
import numpy as np
import pytest
from backend import INSTALLED
from places import HELPERS

from keras_synth import models
from keras_synth.surgery import graft, synthesize

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        keras.backend.backend() != INSTALLED[0] or len(INSTALLED) < 2,
        reason=f"runs under {INSTALLED[0]}, with two or more backends",
    ),
]


def data():
    rng = np.random.default_rng(0)
    lengths = rng.integers(4, 13, (32, 1))
    return {
        "token_ids": rng.integers(0, 50, (32, 12)).astype("int32"),
        "padding_mask": (np.arange(12) < lengths).astype("int32"),
    }


def encoder():
    return keras_hub.models.DistilBertBackbone(
        50, 2, 2, 16, 32, dropout=0.0, max_sequence_length=16
    )


MADE = {
    "grafted": lambda: graft(encoder(), "D+V", layers=[1]),
    "synthesized": lambda: synthesize(encoder(), data(), heads=2),
    "dense": lambda: synthesize(encoder(), data(), heads=1, to="D"),
}


@pytest.mark.parametrize("name", MADE)
def test_one_file_predicts_and_trains_alike_on_all_backends(name, tmp_path):
    keras.utils.set_random_seed(0)
    model = models.SynthesizerTextClassifier(MADE[name](), 3, dropout=0.0)
    model.save(tmp_path / "model.keras")
    labels = np.random.default_rng(1).integers(0, 3, 32)
    np.savez(tmp_path / "data.npz", **data(), labels=labels)
    for backend in INSTALLED:
        done = subprocess.run(
            [sys.executable, HELPERS / "across_backends.py", tmp_path],
            env={**os.environ, "KERAS_BACKEND": backend},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    first, *others = (np.load(tmp_path / f"{x}.npz") for x in INSTALLED)
    for other in others:
        np.testing.assert_allclose(
            other["predictions"], first["predictions"], atol=1e-5
        )
        np.testing.assert_allclose(other["losses"], first["losses"], atol=1e-3)

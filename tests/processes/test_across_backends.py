"""One file, the same predictions and the same training on every backend."""

import across_backends
import keras
import keras_hub
import numpy as np
import pytest
import small_tasks
from assertions import close
from backend import INSTALLED, slow_unless
from scripts import run_helper

from keras_synth import models
from keras_synth.surgery import graft, synthesize

# The whole comparison runs once, not under each backend again.
pytestmark = pytest.mark.once
OTHERS = [name for name in INSTALLED if name != keras.backend.backend()]
RNG = np.random.default_rng(0)
FEATURES = {
    "token_ids": RNG.integers(0, 50, (32, 12)).astype("int32"),
    "padding_mask": (np.arange(12) < RNG.integers(4, 13, (32, 1))).astype(int),
}


def own():
    """All kinds of synthesizers."""
    names = ["R+V", "fixed_random + dense + factorized_dense", "FR"]
    sizes = {"vocabulary_size": 50, "hidden_dim": 16, "intermediate_dim": 32}
    return small_tasks.backbone("classifier", names, **sizes, dropout=0.0)


def encoder():
    return keras_hub.models.DistilBertBackbone(
        50, 2, 2, 16, 32, dropout=0.0, max_sequence_length=16
    )


BACKBONES = {
    "own": own,
    "grafted": lambda: graft(encoder(), "D+V", layers=[1]),
    "synthesized": lambda: synthesize(encoder(), FEATURES, heads=2),
    "dense": lambda: synthesize(encoder(), FEATURES, heads=1, to="D"),
}


@pytest.mark.parametrize("name", slow_unless(["own"], BACKBONES))
def test_a_file_predicts_and_trains_alike_on_all_backends(name, tmp_path):
    # Of one seed: where losses fall steeply, differences in the last bit grow
    # with each step.
    keras.utils.set_random_seed(0)
    model = models.SynthesizerTextClassifier(BACKBONES[name](), 3, dropout=0.0)
    model.save(tmp_path / "model.keras")
    labels = np.random.default_rng(1).integers(0, 3, 32)
    np.savez(tmp_path / "data.npz", **FEATURES, labels=labels)
    across_backends.main(tmp_path)
    for backend in OTHERS:
        run_helper("across_backends.py", tmp_path, KERAS_BACKEND=backend)
    first = np.load(tmp_path / f"{keras.backend.backend()}.npz")
    assert np.mean(first["losses"][-4:]) < 0.9 * np.mean(first["losses"][:4])
    for backend in OTHERS:
        found = np.load(tmp_path / f"{backend}.npz")
        close(found["predictions"], first["predictions"])
        close(found["losses"], first["losses"], atol=1e-3)

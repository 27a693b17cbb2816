"""A task that is loaded is compiled as it was, and training goes on."""

import keras
import numpy as np
import pytest
from backend import numpy
from small_tasks import KINDS, examples, task

TEXTS = ["the film is good", "the plot is dull"] * 4


def trained(kind):
    model = task(kind)
    sampler = {} if kind == "classifier" else {"sampler": "beam"}
    model.compile(
        keras.optimizers.Adam(
            keras.optimizers.schedules.CosineDecay(1e-2, 30, warmup_steps=3)
        ),
        keras.losses.SparseCategoricalCrossentropy(True, ignore_class=0),
        **sampler,
    )
    model.fit(*examples(kind, TEXTS), batch_size=8, verbose=0)
    return model


@pytest.mark.parametrize("kind", KINDS)
def test_optimizer_loss_and_sampler_come_back_with_a_file(kind, tmp_path):
    model = trained(kind)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.loss.get_config() == model.loss.get_config()
    assert loaded.get_compile_config() == model.get_compile_config()
    assert int(numpy(loaded.optimizer.iterations)) == 1
    states = loaded.optimizer.variables, model.optimizer.variables
    for mine, its in zip(*states, strict=True):
        np.testing.assert_array_equal(numpy(mine.value), numpy(its.value))
    if kind != "classifier":
        assert type(loaded.sampler) is type(model.sampler)
    loaded.fit(*examples(kind, TEXTS), batch_size=8, verbose=0)
    assert int(numpy(loaded.optimizer.iterations)) == 2


@pytest.mark.parametrize("given", ["auto", False])
def test_a_file_does_not_tell_other_backends_what_to_compile(given, tmp_path):
    """What "auto" means on one backend is not what it means on another."""
    model = task("classifier")
    model.compile(jit_compile=given)
    assert model.get_compile_config()["jit_compile"] == given
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.get_compile_config()["jit_compile"] == given


def test_a_file_loads_without_being_compiled(tmp_path):
    model = trained("causal_lm")
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras", compile=False)
    assert loaded.loss.get_config() != model.loss.get_config()
    assert int(numpy(loaded.optimizer.iterations)) == 0


def test_weights_bring_no_optimizer(tmp_path):
    model, other = trained("classifier"), task("classifier")
    model.save_weights(tmp_path / "model.weights.h5")
    other.load_weights(tmp_path / "model.weights.h5")
    assert int(numpy(other.optimizer.iterations)) == 0
    for mine, its in zip(model.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_array_equal(mine, its)

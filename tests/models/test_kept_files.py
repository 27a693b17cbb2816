"""Files of every kind, made by older versions, load and give what they gave."""

import json

import kept_files
import keras
import pytest
from assertions import close
from small_tasks import task

pytestmark = pytest.mark.each_backend

OUTPUTS = json.loads(kept_files.OUTPUTS.read_text())


@pytest.mark.parametrize("kind", kept_files.FILES)
def test_a_kept_file_loads_and_has_its_outputs(kind, tmp_path):
    loaded = kept_files.load(kind, tmp_path)
    found = kept_files.outputs(kind, loaded)
    close(found, OUTPUTS[kind], atol=1e-4)


def test_a_task_that_pytorch_has_saved_is_trained_on_any_backend(tmp_path):
    loaded = kept_files.load("task", tmp_path)
    assert type(loaded.optimizer) is type(keras.optimizers.AdamW())
    loaded.fit(kept_files.TEXTS, [0, 1], verbose=0)
    assert loaded.optimizer.iterations == 1


@pytest.mark.parametrize("kind", ["backbone", "task"])
def test_optimizers_of_pytorch_become_those_of_this_backend(kind):
    scaled = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam())
    config = keras.saving.serialize_keras_object(scaled)
    config["config"]["inner_optimizer"] |= {
        "module": "keras.src.backend.torch.optimizers.torch_adam",
        "registered_name": "Adam",
    }
    model = task("classifier")
    model = model.backbone if kind == "backbone" else model
    model.compile_from_config({"optimizer": config, "loss": "mse"})
    inner = model.optimizer.inner_optimizer
    assert type(inner) is type(keras.optimizers.Adam())

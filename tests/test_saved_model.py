"""SavedModels, from TensorFlow and JAX, and LiteRT files give our outputs."""

import keras
import numpy as np
import pytest
from backend import numpy
from small_tasks import task

tf = pytest.importorskip("tensorflow")
BACKEND = keras.backend.backend()
LENGTH = 8
pytestmark = [
    pytest.mark.skipif(
        BACKEND == "torch", reason="Keras exports no SavedModel"
    ),
    pytest.mark.filterwarnings("ignore"),
]


def inputs(batch):
    ids = np.random.default_rng(0).integers(1, 15, (batch, LENGTH), "int32")
    mask = np.ones_like(ids)
    mask[0, 5:] = 0
    return {"token_ids": ids, "padding_mask": mask}


def options():
    """What JAX needs: it traces one length, and no gradients."""
    if BACKEND == "tensorflow":
        return {}
    specs = {
        name: keras.InputSpec(shape=(None, LENGTH), dtype="int32", name=name)
        for name in inputs(1)
    }
    return {
        "input_signature": [specs],
        "jax2tf_kwargs": {"with_gradient": False},
    }


@pytest.mark.parametrize("name", ["R", "D+V"])
def test_a_saved_model_takes_padding_and_any_batch(name, tmp_path):
    model = task("classifier", name)
    path = str(tmp_path / "model")
    model.export(path, format="tf_saved_model", verbose=False, **options())
    served = tf.saved_model.load(path)
    for batch in (1, 3):
        found = served.serve(
            {name: tf.constant(value) for name, value in inputs(batch).items()}
        )
        np.testing.assert_allclose(
            found.numpy(), numpy(model(inputs(batch))), atol=1e-5
        )


@pytest.mark.skipif(BACKEND == "jax", reason="Keras exports no LiteRT file")
def test_a_litert_file_gives_our_outputs(tmp_path):
    model = task("classifier", "R")
    path = str(tmp_path / "model.tflite")
    specs = {
        name: keras.InputSpec(shape=(2, LENGTH), dtype="int32", name=name)
        for name in inputs(1)
    }
    model.export(path, format="litert", verbose=False, input_signature=[specs])
    interpreter = tf.lite.Interpreter(path)
    run = interpreter.get_signature_runner()
    (found,) = run(**inputs(2)).values()
    np.testing.assert_allclose(found, numpy(model(inputs(2))), atol=1e-5)

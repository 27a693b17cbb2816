"""ONNX files by PyTorch's older tracer, of any Keras model."""

import keras
import numpy as np
import pytest
from cases import H, K

from keras_synth.layers import SyntheticAttention

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")
pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "torch", reason="PyTorch's way to ONNX"
)
LENGTH = 6


def model(name, masked):
    tokens = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(30, 8, mask_zero=masked)(tokens)
    layer = SyntheticAttention(H, K, synthesizer=name, max_length=9)
    made = keras.Model(tokens, layer(x))
    for i, weight in enumerate(made.weights):
        weight.assign(0.5 * np.random.default_rng(i).normal(size=weight.shape))
    return made


def export(made, path, batch):
    signature = [keras.InputSpec(shape=(batch, LENGTH), dtype="int32")]
    made.export(path, format="onnx", verbose=False, input_signature=signature)
    session = onnxruntime.InferenceSession(path)
    return lambda ids: session.run(None, {session.get_inputs()[0].name: ids})[0]


def ids(batch):
    made = np.random.default_rng(batch).integers(1, 30, (batch, LENGTH))
    made[0, 4:] = 0
    return made.astype("int32")


slow = pytest.mark.slow  # to write a file takes seconds
RUNS = [
    # A file of a fixed batch is right for all its samples, one of tables of
    # positions for any batch.
    ("R+V", True, 3, []),
    *((name, True, None, []) for name in ("R", "FR", "Fix", "R+FR")),
    *((name, False, 3, slow) for name in ("V", "D", "R", "FD", "FR", "R+FD")),
    *((name, True, 3, slow) for name in ("V", "D", "R", "FD", "FR", "R+FD")),
    *((name, False, None, slow) for name in ("R", "FR", "Fix", "R+FR")),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name, masked, batch",
    [pytest.param(*case, marks=marks) for *case, marks in RUNS],
)
def test_a_file_is_right_for_all_its_samples(name, masked, batch, tmp_path):
    made = model(name, masked)
    run = export(made, tmp_path / "model.onnx", batch)
    for number in (1, 2, 5) if batch is None else (batch,):
        drawn = ids(number)
        found, expected = run(drawn), made.predict(drawn, verbose=0)
        real = drawn != 0
        np.testing.assert_allclose(found[real], expected[real], atol=1e-5)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["V", "D", "FD", "R+V", "R+FD"])
def test_a_batch_that_would_be_one_sample_is_an_error(name, tmp_path):
    with pytest.raises(ValueError, match="fixed batch size of at least 2"):
        export(model(name, True), tmp_path / "model.onnx", None)

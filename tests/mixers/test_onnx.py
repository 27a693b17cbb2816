"""ONNX files of single layers by PyTorch, for one sample."""

import keras
import numpy as np
import pytest
from arrays import normal
from cases import D, T, layers_that, made, randomized

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")
pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "torch", reason="PyTorch's way to ONNX"
)
QUICK = ["relative", "big_bird(block_size=2, random_blocks=1, seed=1)"]


@pytest.mark.filterwarnings("ignore")
@layers_that(quick=QUICK)
def test_a_file_of_one_sample_is_right(name, tmp_path):
    if name.startswith(("reformer", "routing")):
        pytest.skip("PyTorch does not write a stable sort")
    inputs = [keras.Input((T, D)), keras.Input((T,), dtype="bool")]
    layer = randomized(made(name))
    model = keras.Model(inputs, layer(inputs[0], value_mask=inputs[1]))
    signature = [
        keras.InputSpec(shape=(1, *x.shape[1:]), dtype=x.dtype) for x in inputs
    ]
    path = tmp_path / "model.onnx"
    model.export(
        path, format="onnx", verbose=False, input_signature=[signature]
    )
    session = onnxruntime.InferenceSession(path)
    names = [x.name for x in session.get_inputs()]
    arrays = normal(1, T, D), np.arange(T)[None] < T - 2
    (found,) = session.run(None, dict(zip(names, arrays, strict=True)))
    expected = model.predict([*arrays], verbose=0)
    real = slice(0, T - 2)
    np.testing.assert_allclose(found[:, real], expected[:, real], atol=1e-5)

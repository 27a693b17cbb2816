"""ONNX files by PyTorch's older tracer, of any Keras model and layer."""

import keras
import numpy as np
import pytest
from backend import only_on
from cases import LAYERS, D, made

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")
pytestmark = only_on("torch", "it has this way to ONNX")
LENGTH = 6


def model(name, masked):
    tokens = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(30, D, mask_zero=masked)(tokens)
    new = keras.Model(tokens, made(name)(x))
    for i, weight in enumerate(new.trainable_weights):
        weight.assign(0.5 * np.random.default_rng(i).normal(size=weight.shape))
    return new


def export(model, path, batch):
    signature = [keras.InputSpec(shape=(batch, LENGTH), dtype="int32")]
    model.export(path, format="onnx", verbose=False, input_signature=signature)
    session = onnxruntime.InferenceSession(path)
    return lambda ids: session.run(None, {session.get_inputs()[0].name: ids})[0]


def ids(batch):
    drawn = np.random.default_rng(batch).integers(1, 30, (batch, LENGTH))
    drawn[0, 4:] = 0
    return drawn.astype("int32")


QUICK = ["relative", "big_bird(block_size=2, random_blocks=1, seed=1)"]
slow = pytest.mark.slow  # to write a file takes seconds
RUNS = [
    # A file of a fixed batch is right for all its samples, one of tables of
    # positions for any batch.
    ("R+V", True, 3, []),
    *((name, True, None, []) for name in ("R", "FR", "Fix", "R+FR")),
    *((name, False, 3, slow) for name in ("V", "D", "R", "FD", "FR", "R+FD")),
    *((name, True, 3, slow) for name in ("V", "D", "R", "FD", "FR", "R+FD")),
    *((name, False, None, slow) for name in ("R", "FR", "Fix", "R+FR")),
    # A file of one sample is right for all layers, except for those that sort:
    # PyTorch does not write a stable sort.
    *(
        (name, True, 1, [] if name in QUICK else slow)
        for name in LAYERS
        if not name.startswith(("reformer", "routing"))
    ),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name, masked, batch",
    [pytest.param(*case, marks=marks) for *case, marks in RUNS],
)
def test_a_file_is_right_for_all_its_samples(name, masked, batch, tmp_path):
    new = model(name, masked)
    run = export(new, tmp_path / "model.onnx", batch)
    for number in (1, 2, 5) if batch is None else (batch,):
        drawn = ids(number)
        found, expected = run(drawn), new.predict(drawn, verbose=0)
        real = drawn != 0
        np.testing.assert_allclose(found[real], expected[real], atol=1e-5)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["V", "D", "FD", "R+V", "R+FD"])
def test_a_batch_that_would_be_one_sample_is_an_error(name, tmp_path):
    with pytest.raises(ValueError, match=r"fixed.*Received: .* \(1, 6, 6\)"):
        export(model(name, True), tmp_path / "model.onnx", None)

"""Exported plain models: each format of Keras, on each backend that writes it.

`exported.py` runs the files as their own runtimes do.
"""

import exported
import keras
import numpy as np
import pytest
from arrays import normal, padding
from backend import numpy, only_on, slow_unless
from cases import randomized
from small_tasks import SIZES, VOCABULARY

import keras_synth
from keras_synth import mixers, models

BACKEND = keras.backend.backend()
T = 7
QUICK = {"tensorflow": "tf_saved_model", "torch": "onnx"}.get(BACKEND)
pytestmark = [
    pytest.mark.each_backend,
    pytest.mark.filterwarnings("ignore"),
]


@pytest.mark.parametrize("format", slow_unless([QUICK], exported.HERE))
def test_every_format_has_equal_outputs(format, tmp_path):
    sizes = {**SIZES, "num_layers": 2, "max_sequence_length": 16}
    backbone = models.SynthesizerBackbone(
        len(VOCABULARY), synthesizer=["R", "D+V"], **sizes
    )
    randomized(backbone)
    classifier = models.SynthesizerTextClassifier(backbone, 2)
    plain = keras_synth.fold(classifier, T, plain=True)
    # PyTorch records the batch, too, and so does `jax2onnx`.
    fixed = BACKEND == "torch" or (format, BACKEND) == ("onnx", "jax")
    batch = 2 if fixed else None
    run = exported.export(plain, tmp_path, format, (batch, T))
    x = exported.inputs(plain, 2, T)
    np.testing.assert_allclose(run(x), numpy(plain(x)), atol=1e-5)


NAMES = ["R", "V", "D", "R+V", "alibi+V", "local(window=2)", "light_conv"]
MIXERS = [*NAMES, "fnet", "linformer(rank=3)", "longformer(window=1)", "gmlp"]
MIXERS += ["local(window=2, synthesizer='R')", "pooling", "dynamic_conv"]


def plain_model(name, dtype, **options):
    x, mask = keras.Input((T, 8)), keras.Input((T,), dtype=dtype)
    layer = mixers.get(name, num_heads=2, key_dim=4, max_length=T)
    model = keras.Model([x, mask], layer(x, value_mask=mask, **options))
    return keras_synth.fold(model, plain=True)


def write(plain, path, batch, dtype, **options):
    signature = [
        keras.InputSpec(shape=(batch, T, 8), dtype="float32"),
        keras.InputSpec(shape=(batch, T), dtype=dtype),
    ]
    plain.export(path, input_signature=[signature], verbose=False, **options)


@only_on("torch", "the traps are its own")
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("name", slow_unless(["R"], MIXERS))
def test_onnx_runtime_loads_what_pytorch_writes(name, batch, tmp_path):
    """Also for windows and samples without tokens, whose sums are zero."""
    onnxruntime = pytest.importorskip("onnxruntime")
    plain = plain_model(name, "bool")
    path = str(tmp_path / "model.onnx")
    write(plain, path, batch, "bool", format="onnx")
    session = onnxruntime.InferenceSession(path)
    names = [x.name for x in session.get_inputs()]
    data = [normal(batch, T, 8), padding(*[4, 0, T][:batch], size=T)]
    (found,) = session.run(None, dict(zip(names, data, strict=True)))
    np.testing.assert_allclose(found, numpy(plain(data)), atol=1e-5)


@pytest.mark.slow
@only_on("tensorflow", "it has the converter")
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_integers_of_litert_are_near(name, causal, tmp_path):
    """Masks do not stretch the scale to which logits are rounded."""
    import tensorflow as tf

    # The interpreter in TensorFlow 2.21 multiplies by constants wrongly.
    interpreter = pytest.importorskip("ai_edge_litert.interpreter")
    plain = plain_model(name, "float32", use_causal_mask=causal)
    rows, is_token = normal(64, 1, T, 8), padding(5, size=T).astype("float32")
    path = str(tmp_path / "model")
    write(plain, path, 1, "float32")
    converter = tf.lite.TFLiteConverter.from_saved_model(path)
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: ([x, is_token] for x in rows)
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    run = interpreter.Interpreter(model_content=converter.convert())
    run.allocate_tensors()
    for spec in run.get_input_details():
        data = rows[0] if len(spec["shape"]) == 3 else is_token
        run.set_tensor(spec["index"], data)
    run.invoke()
    found = run.get_tensor(run.get_output_details()[0]["index"])
    expected = numpy(plain([rows[0], is_token]))
    error = np.abs(found - expected)[:, :5].max() / expected.std()
    assert error < 0.4

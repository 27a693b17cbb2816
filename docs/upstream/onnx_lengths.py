# The file should have the outputs of the model. `export` on PyTorch records a
# model for 1 instead of an unknown length, so that an LSTM reads one step.
# Keras 3.15.1, PyTorch 2.13.0, onnxruntime 1.31.1.
import os
import tempfile

os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy as np
import onnxruntime

model = keras.Sequential([keras.Input((None, 2)), keras.layers.LSTM(3)])
x = np.ones((1, 5, 2), "float32")
expected = model.predict(x, verbose=0)
path = os.path.join(tempfile.mkdtemp(), "lstm.onnx")
model.export(path, format="onnx", verbose=False)
session = onnxruntime.InferenceSession(path)
(found,) = session.run(None, {session.get_inputs()[0].name: x})
assert np.allclose(found, expected, atol=1e-5), f"{found}, not {expected}"

"""Exported files, run by their runtimes without Keras."""

import importlib.util

import keras
import numpy as np
from backend import numpy
from keras import ops

# Packages that write a format on a backend.
WRITERS = {
    ("tf_saved_model", "tensorflow"): "tensorflow",
    ("tf_saved_model", "jax"): "tensorflow",
    ("onnx", "tensorflow"): "tf2onnx",
    ("onnx", "jax"): "jax2onnx",
    ("onnx", "torch"): "onnxscript",
    ("openvino", "tensorflow"): "openvino",
    ("openvino", "torch"): "openvino",  # of plain models
    ("litert", "tensorflow"): "tensorflow",
    ("torch", "torch"): "torch",
}
HERE = [
    format
    for (format, backend), package in WRITERS.items()
    if backend == keras.backend.backend() and importlib.util.find_spec(package)
]


def of_saved_model(path):
    import tensorflow as tf

    served = tf.saved_model.load(path)

    def run(inputs):
        tensors = {k: tf.constant(x) for k, x in inputs.items()}
        return served.serve(tensors).numpy()

    return run


def of_onnx(path):
    import onnxruntime

    session = onnxruntime.InferenceSession(path)
    names = {x.name for x in session.get_inputs()}

    def run(inputs):
        assert names == {*inputs}
        return session.run(None, inputs)[0]

    return run


def of_openvino(path):
    import openvino

    # Otherwise it computes in bfloat16 on CPUs that can.
    exact = {"INFERENCE_PRECISION_HINT": "f32"}
    model = openvino.Core().compile_model(path, "CPU", exact)
    return lambda inputs: next(iter(model(inputs).values()))


def of_litert(path):
    import tensorflow as tf

    signature = tf.lite.Interpreter(path).get_signature_runner()
    return lambda inputs: next(iter(signature(**inputs).values()))


def of_torch(path):
    import torch

    module = torch.export.load(path).module()

    def run(inputs):
        tensors = {k: ops.convert_to_tensor(x) for k, x in inputs.items()}
        return numpy(module(tensors))

    return run


# The ending of a file, and what runs it.
FORMATS = {
    "tf_saved_model": ("", of_saved_model),
    "onnx": (".onnx", of_onnx),
    "openvino": (".xml", of_openvino),
    "litert": (".tflite", of_litert),
    "torch": (".pt2", of_torch),
}


def signature(model, shape):
    """An `input_signature` of one shape for all inputs of a model."""
    return [
        {
            name: keras.InputSpec(shape=shape, dtype="int32", name=name)
            for name in model.input
        }
    ]


def export(model, folder, format, shape, **options):
    """Exports a model and returns a function that runs the file."""
    ending, run = FORMATS[format]
    path = str(folder / f"model{ending}")
    model.export(
        path,
        format=format,
        verbose=False,
        input_signature=signature(model, shape),
        **options,
    )
    return run(path)


def inputs(model, batch, length, seed=0):
    """Token ids of two lengths, and other inputs of a model."""
    rng, made = np.random.default_rng(seed), {}
    for name in model.input:
        shape, limit = (batch, length), min(10, length)
        made[name] = rng.integers(0, limit, shape, "int32")
        if name.endswith("padding_mask"):
            made[name][:] = 1
            made[name][0, length // 2 + 1 :] = 0
    return made

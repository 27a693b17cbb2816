"""Each mode of `quantize`: outputs and files.

GPTQ and AWQ are errors if Keras loses the weights.
"""

import keras
import numpy as np
import pytest
from assertions import close, equal
from backend import some_on_each_backend
from exported import inputs
from keras import ops
from small_tasks import KINDS, task

from keras_synth import mixers
from keras_synth._backend import policies
from keras_synth.layers import SynthesizerEncoder

MODES = ["gptq", "awq"]
VERSION = tuple(map(int, keras.__version__.split(".")[:2]))
each_mode = pytest.mark.parametrize("mode", MODES)
before_3_16 = pytest.mark.skipif(VERSION >= (3, 16), reason="right in Keras")
since_3_16 = pytest.mark.skipif(VERSION < (3, 16), reason="wrong in Keras")


class Tokenizer:
    def tokenize(self, text):
        return np.frombuffer(text.encode(), "uint8").astype("int32") % 9


def config_of(mode, structure=None):
    made = getattr(keras.quantizers, f"{mode.upper()}Config")
    return made(
        dataset=4 * ["some text to look at"],
        tokenizer=Tokenizer(),
        num_samples=2,
        sequence_length=8,
        group_size=4,
        quantization_layer_structure=structure,
    )


def attention_model():
    inputs = keras.Input((8, 8))
    mixer = mixers.get("R + V", 2, 4, 8)
    return keras.Model(inputs, mixer(inputs))


# Three more bits, or exponents: float8 rounds products, too.
NEAR = {"int8": 0.05, "int4": 0.5, "float8": 0.3}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "mode", some_on_each_backend(["int8", "int4", "float8"], ["int8"])
)
def test_a_file_contains_a_quantized_task(mode, kind, tmp_path):
    model = task(kind, preprocess=False)
    x = inputs(model, 2, 8)
    before = ops.convert_to_numpy(model(x))
    model.quantize(mode)
    projections = [
        layer.quantization_mode
        for layer in model._flatten_layers()
        if isinstance(layer, (keras.layers.Dense, keras.layers.EinsumDense))
    ]
    assert {*projections} == {mode}
    tables = [w for w in model.weights if w.path.endswith("/R")]
    assert {w.dtype for w in tables} == {"float32"}
    after = ops.convert_to_numpy(model(x))
    moved = np.abs(after - before).max()
    if mode != "float8":  # its scales are those of training
        assert moved > 0
    assert moved < NEAR[mode] * max(1.0, np.abs(before).max())
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    close(again(x), after)
    model.save_to_preset(tmp_path / "preset")
    again = type(model).from_preset(tmp_path / "preset")
    close(again(x), after)


@before_3_16
@each_mode
@pytest.mark.parametrize(
    "made",
    [
        lambda: task("causal_lm", preprocess=False),
        lambda: task("classifier", preprocess=False).backbone,
        attention_model,
    ],
    ids=["task", "backbone", "Keras model of a layer"],
)
def test_they_are_errors_before_a_weight_changes(made, mode):
    model = made()
    before = model.get_weights()
    with pytest.raises(ValueError, match=r"need Keras 3\.16.*Received: mode="):
        model.quantize(mode, config=config_of(mode))
    equal(before, model.get_weights())


@each_mode
def test_the_version_of_keras_decides(monkeypatch, mode):
    for version in ("3.15.0", "3.15.1"):
        monkeypatch.setattr(keras, "__version__", version)
        with pytest.raises(ValueError, match=f"Keras {version}"):
            policies.check_quantization(mode)
        policies.check_quantization("int8")
    for version in ("3.16.0.dev2026102704", "3.16.0", "4.0.0"):
        monkeypatch.setattr(keras, "__version__", version)
        policies.check_quantization(mode)


@since_3_16
@each_mode
def test_a_saved_model_is_as_it_was(mode, tmp_path):
    inputs = keras.Input((8,), dtype="int32")
    embedding = keras.layers.Embedding(9, 8)
    block = SynthesizerEncoder(8, 2, synthesizer="R+V", max_length=8)
    model = keras.Model(inputs, block(embedding(inputs)))
    structure = {"pre_block_layers": [embedding], "sequential_blocks": [block]}
    x = np.arange(8)[None] % 9
    before = ops.convert_to_numpy(model(x))
    model.quantize(mode, config=config_of(mode, structure))
    after = ops.convert_to_numpy(model(x))
    assert 0 < np.abs(after - before).max() < 1.0
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    close(again(x), after)

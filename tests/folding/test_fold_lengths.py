"""`keras_synth.fold` of quantized tasks, and to shorter sequences."""

import keras
import numpy as np
import pytest
from arrays import normal
from backend import numpy
from cases import MIXERS
from small_tasks import WORDS, task

import keras_synth
from keras_synth import mixers
from keras_synth.layers import SynthesizerEncoder

TEXTS = [" ".join(WORDS[:3]), WORDS[0]]  # of five tokens at most


@pytest.mark.parametrize("synthesizer", ["dot_product", "R + V"])
def test_a_window_beyond_the_longest_sequence_sees_all(synthesizer):
    name = f"local(window=16, synthesizer='{synthesizer}')"
    inputs = keras.Input((None, 8))
    block = SynthesizerEncoder(16, 2, synthesizer=name, max_length=32)
    mixer = mixers.get(name, 2, 4, max_length=32)
    model = keras.Model(inputs, mixer(block(inputs)))
    folded = keras_synth.fold(model, 8)
    assert folded.layers[-1].pattern.size == 8
    x = normal(2, 8, 8)
    np.testing.assert_allclose(numpy(folded(x)), numpy(model(x)), atol=2e-5)


@pytest.mark.skipif(
    keras.backend.backend() != "jax", reason="others copy what they assign"
)
@pytest.mark.parametrize("length", [None, 5])
@pytest.mark.parametrize("name", ["R", "FR", "D", "FD", "relative", "R+FD+V"])
def test_nothing_of_a_folded_layer_is_the_layers_memory(name, length):
    """`predict` gives the memory of weights away, and takes other back."""
    layer = mixers.get(name, 2, 4, max_length=8)
    layer(normal(2, 8, 8), normal(2, 8, 8))
    folded = keras_synth.fold(layer, length)
    ours, theirs = (
        {x.value.unsafe_buffer_pointer() for x in model.variables}
        for model in (layer, folded)
    )
    assert ours
    assert theirs
    assert not ours & theirs


@pytest.mark.parametrize("synthesizer", ["R+V", "gmlp"])
def test_a_quantized_classifier_is_folded_with_its_head(synthesizer):
    model = task("classifier", synthesizer)
    expected = model.predict(TEXTS, verbose=0)
    model.quantize("int8")
    quantized = model.predict(TEXTS, verbose=0)
    assert np.abs(quantized - expected).max() > 0
    folded = keras_synth.fold(model)
    assert folded.output_dense.quantization_mode == "int8"
    found = folded.predict(TEXTS, verbose=0)
    np.testing.assert_allclose(found, quantized, atol=1e-5)


@pytest.mark.parametrize("name", MIXERS)
def test_shorter_padding_changes_no_output_or_is_refused(name):
    model = task("classifier", name)
    if MIXERS[name] & {"amount"}:
        with pytest.raises(ValueError, match=r"the padding.*Received"):
            keras_synth.fold(model, 6)
        assert keras_synth.fold(model, 8).preprocessor.sequence_length == 8
        return
    folded = keras_synth.fold(model, 6)
    assert folded.preprocessor.sequence_length == 6
    found, expected = (m.predict(TEXTS, verbose=0) for m in (folded, model))
    np.testing.assert_allclose(found, expected, atol=2e-5)

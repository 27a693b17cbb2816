"""On TPUs Keras' kernel is wrong, so attention never uses it."""

import keras
import numpy as np
import pytest
from arrays import normal, padding
from backend import numpy, program
from keras import ops
from platforms import Pretended

from keras_synth.layers import SyntheticAttention

pytestmark = [
    pytest.mark.each_backend,
    pytest.mark.skipif(
        keras.backend.backend() != "jax", reason="Keras has TPUs on JAX"
    ),
]
T, D = 6, 8


def made(name="V", **options):
    layer = SyntheticAttention(2, 4, synthesizer=name, max_length=T, **options)
    layer.build((2, T, D))
    return layer


@pytest.mark.parametrize(
    "name, masked",
    [("V", "nothing"), ("R + V", "padding"), ("alibi + V", "the future")],
)
@pytest.mark.parametrize("compiled", [True, False])
def test_the_kernel_is_never_called(name, masked, compiled, monkeypatch):
    layer = made(name)
    x = ops.convert_to_tensor(normal(2, T, D))
    options = {
        "nothing": {},
        "padding": {"value_mask": ops.convert_to_tensor(padding(3, T, size=T))},
        "the future": {"use_causal_mask": True},
    }[masked]

    def call(x):
        return layer(x, **options)

    expected = numpy(call(x))
    tpu = Pretended(monkeypatch, "tpu")
    found = numpy((program(call) if compiled else call)(x))
    assert not tpu.splashed
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_the_layer_of_keras_uses_it(monkeypatch):
    layer = keras.layers.MultiHeadAttention(2, 4)
    x = ops.convert_to_tensor(normal(2, T, D))
    layer(x, x)
    tpu = Pretended(monkeypatch, "tpu")
    layer(x, x)
    assert tpu.splashed == [(2, 2, T, 4)]


def test_demanding_a_kernel_is_an_error(monkeypatch):
    layer = made(flash_attention=True)
    x = ops.convert_to_tensor(normal(2, T, D))
    Pretended(monkeypatch, "tpu")
    with pytest.raises(ValueError, match=r"on TPUs.*Leave it out"):
        layer(x)

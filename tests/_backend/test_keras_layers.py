"""A layer of Keras that is wrong on TensorFlow, and slow on PyTorch."""

import keras
import numpy as np
import pytest
from arrays import normal
from backend import (
    compiled_gradients,
    gradients,
    numpy,
    only_on,
    some_on_each_backend,
)
from keras import ops

from keras_synth import mixers
from keras_synth._backend.keras_layers import EinsumDense
from keras_synth.layers import SyntheticAttention

B, H, D = 3, 4, 6
ONE_FEATURE = {
    "values": lambda: SyntheticAttention(
        H, 3, value_dim=1, synthesizer="V", use_gate=True
    ),
    "queries and keys": lambda: SyntheticAttention(H, 1, synthesizer="V"),
    "a hidden layer": lambda: SyntheticAttention(
        H, 1, synthesizer="D", max_length=9
    ),
    "factors": lambda: SyntheticAttention(
        H, 1, synthesizer="FD(factors=(9, 1))", max_length=9
    ),
    "outputs": lambda: SyntheticAttention(
        2, 3, synthesizer="V", output_shape=(H, 1)
    ),
    "a mixer": lambda: mixers.get("linear", H, 1),
    "fixed": lambda: mixers.get("V(fixed=True)", H, 1),
}


def drawn(layer):
    for i, weight in enumerate(layer.weights):
        if "float" in weight.dtype and weight.trainable:
            weight.assign(0.5 * normal(*weight.shape, seed=i))
    return layer


def projection(**options):
    layer = EinsumDense(
        "btd,dhk->bthk", (None, H, 1), bias_axes="hk", **options
    )
    layer.build((None, None, D))
    return drawn(layer)


@pytest.mark.each_backend
@pytest.mark.parametrize("length", [1, H - 1, H, H + 1])
def test_a_bias_of_heads_is_added_to_heads(length):
    layer, x = projection(activation="relu"), normal(B, length, D)
    kernel, bias = (numpy(weight) for weight in layer.weights)
    expected = np.maximum(np.einsum("btd,dhk->bthk", x, kernel) + bias, 0)
    np.testing.assert_allclose(numpy(layer(x)), expected, atol=1e-5)
    inputs = keras.Input((length, D))
    model = keras.Model(inputs, layer(inputs))
    found = model.predict(x, verbose=0)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize(
    "mode", some_on_each_backend(["int8", "int4", "float8"], ["int8"])
)
def test_it_is_quantized_with_a_bias_of_heads(mode):
    layer, x = projection(), normal(B, H, D)
    layer.quantize(mode)
    whole = numpy(layer(np.concatenate([x, 0 * x[:, :1]], axis=1)))
    np.testing.assert_allclose(numpy(layer(x)), whole[:, :H], atol=1e-5)


@pytest.mark.each_backend
def test_lora_adds_to_it():
    layer, x = projection(), normal(B, H, D)
    layer.enable_lora(2)
    drawn(layer)
    whole = numpy(layer(np.concatenate([x, x], axis=1)))
    np.testing.assert_allclose(numpy(layer(x)), whole[:, :H], atol=1e-5)
    assert layer.trainable_weights[-1].path.endswith("lora_kernel_b")


@pytest.mark.parametrize("case", ONE_FEATURE)
def test_one_feature_for_each_head(case):
    """As many tokens as heads: as with tokens that padding follows."""
    layer, x = ONE_FEATURE[case](), normal(B, H, D)
    layer.build((None, None, D))
    drawn(layer)
    longer = np.concatenate([x, x], axis=1)
    real = np.arange(2 * H) < [[H]] * B
    expected = numpy(layer(longer, value_mask=real))[:, :H]
    np.testing.assert_allclose(numpy(layer(x)), expected, atol=1e-5)


@pytest.mark.each_backend
def test_gradients_of_one_feature_for_each_head():
    layer, x = projection(), normal(B, H, D)
    upstream = normal(B, H, H, 1, seed=1)
    factors = ops.convert_to_tensor(upstream)
    expected = np.einsum("bthk,dhk->btd", upstream, numpy(layer.kernel))
    for slopes in (gradients, compiled_gradients):
        (found,) = slopes(lambda x: ops.sum(layer(x) * factors), x)
        np.testing.assert_allclose(found, expected, atol=1e-5)


class Around(keras.layers.Layer):
    """Calls a projection in its own dtype."""

    def __init__(self, inner, **options):
        super().__init__(autocast=False, **options)
        self.inner = inner

    def call(self, x):
        return self.inner(x)


@pytest.mark.parametrize("inner", ["float32", "bfloat16", "mixed_bfloat16"])
@pytest.mark.parametrize("outer", ["float32", "mixed_bfloat16"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_it_computes_in_its_own_dtype(inner, outer, dtype):
    layer = projection(dtype=inner)
    keras_layer = keras.layers.EinsumDense(
        "btd,dhk->bthk", (None, H, 1), bias_axes="hk", dtype=inner
    )
    keras_layer.build((None, None, D))
    keras_layer.set_weights(layer.get_weights())
    x = ops.convert_to_tensor(normal(B, 5, D), dtype)
    for found, expected in (
        (layer(x), keras_layer(x)),
        (
            Around(layer, dtype=outer)(x),
            Around(keras_layer, dtype=outer)(x),
        ),
    ):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(numpy(found), numpy(expected))


@only_on("torch", "it has hooks")
def test_hooks_of_pytorch_are_called():
    layer, seen = projection(), []
    layer.register_forward_pre_hook(lambda *_: seen.append("before"))
    layer.register_forward_hook(lambda *_: seen.append("after"))
    layer.register_full_backward_hook(lambda *_: seen.append("backward"))
    x = ops.convert_to_tensor(normal(B, 5, D)).requires_grad_()
    layer(x).sum().backward()
    assert seen == ["before", "after", "backward"]

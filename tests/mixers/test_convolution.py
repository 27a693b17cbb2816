"""Convolutions and pooling: equivalent layers, and their states."""

import keras
import numpy as np
import pytest
from arrays import normal
from backend import numpy
from cached import in_parts
from cases import randomized
from keras import ops

from keras_synth import mixers
from keras_synth.layers import SynthesizerDecoder

H, K, D, T = 2, 4, 8, 7

NAMES = ["light_conv", "dynamic_conv"]
each_name = pytest.mark.parametrize("name", NAMES)


def made(name, **options):
    return randomized(mixers.get(name, H, **options), 0.5)


def test_pooling_sums_in_float32():
    layer = mixers.get("pooling(size=33)", dtype="bfloat16")
    x = np.full((1, 40, D), 1.03125, "float32")  # exact in bfloat16
    assert not numpy(layer(ops.convert_to_tensor(x, "bfloat16"))).any()


def test_without_gate_and_biases():
    layer = mixers.get("light_conv", H, use_glu=False, use_bias=False)
    layer(normal(2, T, D))
    assert [w.shape for w in layer.weights] == [(H, 7), (D, D), (D, D)]


def test_dropout_is_of_taps_and_seeded():
    """The same taps of all tokens of a light convolution."""
    x = np.ones((2, 50, D), "float32")
    options = {"width": 5, "dropout": 0.5, "border": "renormalize", "seed": 3}
    for name in NAMES:
        layers = [mixers.get(name, H, **options) for _ in range(2)]
        outputs = [numpy(layer(x, training=True)) for layer in layers]
        np.testing.assert_array_equal(*outputs)
        within = np.abs(np.diff(outputs[0][:, 5:-5], axis=1)).max()
        assert (within < 1e-6) == (name == "light_conv")


@pytest.mark.parametrize(
    "name",
    [
        *("light_conv(width=4)", "dynamic_conv(width=4)", "pooling(size=3)"),
        "light_conv(width=4, border='renormalize')",
    ],
)
def test_masked_tokens_can_come_later(name):
    """As in generation: first the shortest prompt, then token after token."""
    layer = made(name)
    x = normal(3, T, D, seed=9)
    expected = numpy(layer(x, use_causal_mask=True))
    for known in (0, 3):
        cache = layer.make_cache(3, T)
        # Prompts in two chunks, of the second of which nothing may be kept.
        for start, end in ((0, 4), (4, T)):
            mask = np.broadcast_to(
                np.arange(start, end) < known, (3, end - start)
            )
            poisoned = np.where(mask[..., None], x[:, start:end], np.nan)
            _, cache = layer.call_with_cache(poisoned, cache, start, mask)
        for i in range(known, T):
            output, cache = layer.call_with_cache(x[:, i : i + 1], cache, i)
            np.testing.assert_allclose(
                numpy(output)[:, 0], expected[:, i], atol=1e-5
            )


@pytest.mark.parametrize("name", [*NAMES, "pooling", "linear", "performer"])
def test_a_block_decodes_where_padding_comes_first(name):
    """A state counts real tokens, with masks of the new ones."""
    block = SynthesizerDecoder(16, H, synthesizer=name)
    x, real = normal(2, T, D), np.arange(T) >= [[0], [2]]
    expected = numpy(block(x, decoder_padding_mask=real))
    found, _ = in_parts(
        *(block, x, range(1, T + 1), T),
        arguments=lambda start, end: {
            "decoder_padding_mask": real[:, start:end]
        },
    )
    np.testing.assert_allclose(found[real], expected[real], atol=1e-5)


@each_name
def test_heads_must_divide_the_features(name):
    with pytest.raises(ValueError, match=r"divide.*num_heads=3, features=8"):
        mixers.get(name, 3)(normal(2, T, D))


def test_a_kernel_can_be_wider_than_the_sequence():
    layer = keras.Sequential(
        [keras.Input((None, D)), made("light_conv", width=31)]
    )
    assert layer.predict(normal(2, 1, D), verbose=0).shape == (2, 1, D)

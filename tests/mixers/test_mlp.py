"""MLPs along the length: initial values, states, errors."""

import keras
import numpy as np
import pytest
from arrays import normal
from backend import numpy
from cases import randomized

from keras_synth import mixers, models
from keras_synth.layers import SynthesizerDecoder, SynthesizerEncoder

H, D, N, T = 2, 8, 9, 7

NAMES = ["mlp_mixer", "gmlp"]


def made(name, **options):
    return randomized(mixers.get(name, max_length=N, **options), 0.5)


def test_gelu_is_the_default_and_exact():
    for name in NAMES:
        layer = mixers.get(name, max_length=N)
        assert layer.activation is keras.activations.gelu
        assert layer.get_config()["activation"] == "gelu"


def test_gmlp_starts_as_a_feed_forward_network():
    """W is near zero and b is one: the gate is open."""
    layer = mixers.get("gmlp", max_length=N)
    x = normal(2, T, D)
    found = numpy(layer(x))
    assert 0.5e-3 / N < np.abs(numpy(layer.W)).max() <= 1e-3 / N
    np.testing.assert_array_equal(numpy(layer.b), np.ones(N))
    u, _ = np.split(numpy(layer.value(x)), 2, axis=-1)
    expected = numpy(layer.output_dense(u))
    np.testing.assert_allclose(found, expected, atol=0.02)
    assert layer.value.kernel.shape == (D, 2 * D)


def test_gmlp_supports_a_later_mask_of_all_tokens():
    layer = made("gmlp")
    x, mask = normal(3, T, D, seed=9), np.tile(np.arange(T) != 1, (3, 1))
    expected = layer(x, value_mask=mask, use_causal_mask=True)
    _, cache = layer.call_with_cache(x[:, :3], layer.make_cache(3, T), 0)
    found, _ = layer.call_with_cache(x[:, 3:], cache, 3, value_mask=mask)
    np.testing.assert_allclose(numpy(found), numpy(expected)[:, 3:], atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_longer_caches_are_errors(name):
    with pytest.raises(ValueError, match=r"10 tokens.*Received: length=10"):
        made(name).make_cache(2, N + 1)


def test_hidden_units_that_are_not_positions_have_no_causal_form():
    name = "mlp_mixer(hidden_dim=5)"
    layer, x = made(name), normal(2, T, D)
    words = r"supports causal masks only if.*hidden_dim=5, max_length=9"
    for call in (
        lambda: layer(x, use_causal_mask=True),
        lambda: layer.make_cache(2, N),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    # An object says so at once, a name when the block makes a layer of it.
    with pytest.raises(ValueError, match=r"no causal form.*Received"):
        SynthesizerDecoder(16, H, synthesizer=layer, max_length=N)
    with pytest.raises(ValueError, match=r"no causal form.*hidden_dim=5"):
        models.SynthesizerBackbone(
            vocabulary_size=9,
            num_layers=1,
            num_heads=H,
            hidden_dim=D,
            intermediate_dim=16,
            max_sequence_length=N,
            synthesizer=name,
            causal=True,
        )
    encoder = SynthesizerEncoder(16, H, synthesizer=name, max_length=N)
    assert tuple(encoder(x).shape) == (2, T, D)

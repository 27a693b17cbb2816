"""Mixers without an attention matrix, or with a shorter one, one by one."""

import keras
import numpy as np
import pytest
from arrays import normal
from backend import numpy
from cases import randomized
from keras import ops
from small_tasks import backbone

from keras_synth import mixers
from keras_synth.layers import SynthesizerDecoder, SynthesizerEncoder

H, K, D, N, T = 2, 4, 8, 9, 7


def made(name, **options):
    return randomized(mixers.get(name, H, K, N, **options), 0.5)


# --- convolutions and pooling -------------------------------------------------

CONVOLUTIONS = ["light_conv", "dynamic_conv"]


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
    for name in CONVOLUTIONS:
        layers = [mixers.get(name, H, **options) for _ in range(2)]
        outputs = [numpy(layer(x, training=True)) for layer in layers]
        np.testing.assert_array_equal(*outputs)
        within = np.abs(np.diff(outputs[0][:, 5:-5], axis=1)).max()
        assert (within < 1e-6) == (name == "light_conv")


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_heads_must_divide_the_features(name):
    with pytest.raises(ValueError, match=r"divide.*num_heads=3, features=8"):
        mixers.get(name, 3)(normal(2, T, D))


# --- MLPs along the length ----------------------------------------------------


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


@pytest.mark.parametrize("name", ["mlp_mixer", "gmlp"])
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
        backbone("causal_lm", name, max_sequence_length=N)
    encoder = SynthesizerEncoder(16, H, synthesizer=name, max_length=N)
    assert tuple(encoder(x).shape) == (2, T, D)


# --- to sums of keys instead of keys ------------------------------------------


@pytest.mark.parametrize(
    "share, shapes", [("none", (H, H)), ("heads", (1, 1)), ("key_value", (1,))]
)
def test_heads_keys_and_values_share_tables(share, shapes):
    mixer = mixers.get("linformer(rank=3)", H, K, N, share=share)
    mixer.build((None, None, D))
    tables = [w for w in mixer.weights if w.name in ("E", "F")]
    assert [w.shape for w in tables] == [(heads, 3, N) for heads in shapes]


def test_sums_vary_as_a_key_does_at_first():
    mixer = mixers.get("linformer(rank=50)", H, K, 400)
    mixer.build((None, None, D))
    sums = np.einsum("rs,bsk->brk", numpy(mixer.E)[0], normal(20, 400, K))
    assert abs(sums.std() - 1) < 0.05
    mixer = mixers.get("compressed(stride=4)", H, 32)
    mixer.build((None, None, D))
    kernel = numpy(mixer.key_kernel)[:, 0]
    sums = np.einsum("mtk,tkl->ml", normal(50, 4, 32), kernel)
    assert abs(sums.std() - 1) < 0.1


def test_linformer_keeps_to_its_length():
    mixer, x = mixers.get("linformer(rank=3)", H, K, N), normal(3, T, D)
    assert mixer(normal(3, N + 2, D), x).shape == (3, N + 2, D)
    longer = normal(3, N + 1, D)
    words = rf"{N + 1} tokens.*max_length={N}.*Received"
    for call in (
        lambda: mixer(x, longer),
        lambda: mixer.call_with_cache(x, mixer.remember(longer)),
        lambda: mixer(keras.Input((N + 1, D))),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    assert mixers.get("linformer", H, K, 1000).rank == 128
    assert mixers.get("linformer", H, K, N).rank == N

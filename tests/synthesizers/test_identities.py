"""What synthesizers are by other names."""

import numpy as np
import pytest
from arrays import normal
from backend import numpy, slow_but_on

from keras_synth import mixers
from keras_synth.layers import SyntheticAttention

H, K, D, N, T = 2, 4, 8, 12, 11


def made(name, **options):
    layer = SyntheticAttention(
        H, K, synthesizer=name, max_length=N, use_bias=False, **options
    )
    layer.build((None, None, D), (None, None, D))
    for i, weight in enumerate(layer.weights):
        weight.assign(0.7 * normal(*weight.shape, seed=i))
    return layer


@pytest.mark.parametrize(
    "name",
    [
        "R",
        *(
            pytest.param(name, marks=slow_but_on("torch"))
            for name in ("FR", "Fix", "R + FR", "relative")
        ),
    ],
)
@pytest.mark.parametrize("causal", [False, True])
def test_tables_are_linear_mixers_whose_rows_sum_to_one(name, causal):
    layer = made(name)
    x, y = normal(2, T, D), normal(2, T, D, seed=1)

    def mixed(tokens):
        return numpy(layer(tokens.astype("float32"), use_causal_mask=causal))

    np.testing.assert_allclose(
        mixed(2 * x - 3 * y), 2 * mixed(x) - 3 * mixed(y), atol=1e-4
    )
    # Tokens that are all the same stay so: an average of them is one of them.
    same = np.repeat(x[:, :1], T, axis=1)
    found = mixed(same)
    kernels = [numpy(x.kernel) for x in (layer.value, layer.attention_output)]
    alone = np.einsum("btd,dhv,hve->bte", same, *kernels)
    np.testing.assert_allclose(found, alone, atol=1e-5)
    # V compares tokens, and is not linear.
    pairs = made("V")
    found = [numpy(pairs(z.astype("float32"))) for z in (x, y, x + y)]
    assert np.abs(found[2] - found[0] - found[1]).max() > 0.1


@pytest.mark.parametrize("causal", [False, True])
def test_relative_in_a_window_is_a_light_convolution_away_from_ends(causal):
    """Of softmaxed taps; at the ends those beyond the border are lost."""
    width = 5
    reach = width if causal else width // 2 + 1
    attention = made(
        f"relative(max_distance={reach - 1})", sliding_window=reach
    )
    taps = normal(H, width)
    distances = np.zeros((H, 2 * reach - 1))
    distances[:, :width] = taps
    attention.synthesizer.distances.assign(distances)
    layer = mixers.LightConvolution(H, width, use_glu=False, use_bias=False)
    layer.build((None, None, D))
    layer.kernel.assign(taps)
    layer.value.kernel.assign(numpy(attention.value.kernel).reshape(D, D))
    output = numpy(attention.attention_output.kernel)
    layer.output_dense.kernel.assign(output.reshape(D, D))
    x = normal(2, T, D)
    found, expected = (
        numpy(one(x, use_causal_mask=causal)) for one in (attention, layer)
    )
    before = width - 1 if causal else width // 2
    within = slice(before, T if causal else T - width // 2)
    np.testing.assert_allclose(found[:, within], expected[:, within], atol=1e-5)
    assert np.abs(found - expected)[:, :before].max() > 1e-2


def test_dense_is_dot_product_attention_with_constant_keys():
    """W2 is what V's keys are of a source of one-hot positions."""
    dense = made("D(activation='linear')")
    hidden = numpy(dense.synthesizer.hidden.kernel)
    W2 = numpy(dense.synthesizer.W2)  # (N, H, k)
    pairs = SyntheticAttention(H, K, synthesizer="V", use_bias=False)
    pairs.build((None, T, D), (None, T, D), (None, T, N))
    own = pairs.synthesizer
    own.query.kernel.assign(hidden)
    own.key.kernel.assign(W2 * K**0.5)  # V divides by it
    for name in ("value", "attention_output"):
        getattr(pairs, name).set_weights(getattr(dense, name).get_weights())
    x = normal(2, T, D)
    positions = np.eye(T, N, dtype="float32")[None].repeat(2, 0)
    np.testing.assert_allclose(
        numpy(dense(x)), numpy(pairs(x, x, positions)), atol=1e-5
    )
    keys = dense.synthesizer(x).keys
    assert keys.shape == (1, T, H, K)  # the same for all samples
    np.testing.assert_allclose(numpy(keys)[0], W2[:T], atol=1e-6)

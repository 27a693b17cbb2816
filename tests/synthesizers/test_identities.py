"""What synthesizers are by other names."""

import numpy as np
import pytest
from arrays import normal
from backend import numpy, slow_but_on

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

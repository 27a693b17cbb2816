"""A sample alone gets what it gets beside others.

Its tensors have a leading axis of 1, like those that all samples share.
"""

import numpy as np
import pytest
from arrays import normal
from backend import gradients, numpy, slow_but_on
from keras import ops

from keras_synth.attention.routes import sizes
from keras_synth.layers import SyntheticAttention

H, K, D = 4, 2, 6


@pytest.fixture
def small_tiles(monkeypatch):
    """Cuts small tables into tiles, which leave out columns."""
    monkeypatch.setattr(sizes, "LARGE_TABLE", 1)
    monkeypatch.setattr(sizes, "TILE", 12)
    monkeypatch.setattr(sizes, "FEWEST_ROWS", 2)


def random_weights(layer, seed=7):
    rng = np.random.default_rng(seed)
    for weight in layer.weights:
        weight.assign(rng.normal(size=weight.shape))


def alone_and_twice(layer, inputs, **options):
    """Outputs and gradients of one sample, and of it twice at half the loss."""
    direction = ops.convert_to_tensor(normal(1, inputs[0].shape[1], D, seed=5))
    found = []
    for times in (1, 2):

        def output(*tensors, times=times):
            tensors = [ops.repeat(x, times, axis=0) for x in tensors]
            return layer(*tensors, **options)

        def loss(*tensors, output=output, times=times):
            return ops.sum(output(*tensors) * direction) / times

        tensors = map(ops.convert_to_tensor, inputs)
        found.append([numpy(output(*tensors)[:1]), *gradients(loss, *inputs)])
    return found


def assert_alike(found, expected, error):
    for one, other in zip(found, expected, strict=True):
        scale = max(1.0, np.abs(other).max())
        np.testing.assert_allclose(one, other, atol=error * scale)


@pytest.mark.parametrize(
    ("name", "length", "source_length"),
    [
        ("FD", 12, 5),
        ("FD + V", 12, 5),
        *(
            # Elsewhere all are compiled, and cut the same way.
            pytest.param(*case, marks=slow_but_on("torch"))
            for case in (
                ("FD", 9, 9),
                ("FD", 5, 11),
                ("heads(R=1, FD=3)", 9, 5),
                ("R + V", 9, 11),
                ("D + FR", 9, 9),
            )
        ),
    ],
)
@pytest.mark.parametrize("causal", [False, True])
def test_a_sample_alone_through_a_window(
    name, length, source_length, causal, small_tiles
):
    layer = SyntheticAttention(
        H, K, synthesizer=name, max_length=12, sliding_window=3
    )
    inputs = normal(1, length, D), normal(1, source_length, D, seed=1)
    layer.build(*(x.shape for x in inputs))
    random_weights(layer)
    found = alone_and_twice(layer, inputs, use_causal_mask=causal)
    assert_alike(*found, error=1e-5)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_a_sample_alone_through_a_window_in_half_precision(policy, small_tiles):
    layer = SyntheticAttention(
        H, K, synthesizer="FD", max_length=12, sliding_window=3, dtype=policy
    )
    x = ops.convert_to_tensor(normal(2, 11, D))
    layer.build(x.shape)
    random_weights(layer)
    both = numpy(layer(x))
    assert_alike([numpy(layer(x[:1]))], [both[:1]], error=0.01)

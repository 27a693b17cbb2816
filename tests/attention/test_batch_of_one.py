"""A sample alone gets what it gets beside others.

Its tensors have a leading axis of 1, like those that all samples share.
"""

import keras
import numpy as np
import pytest
from arrays import normal
from backend import gradients, numpy, slow_but_on
from keras import ops

from keras_synth.attend import attend
from keras_synth.layers import SyntheticAttention
from keras_synth.logits import Logits, Product
from keras_synth.masks import AttentionMask
from keras_synth.routes import grid, in_place, shared

H, K, D = 4, 2, 6
TORCH = keras.backend.backend() == "torch"


@pytest.fixture
def small_pieces(monkeypatch):
    """Cuts small tables into pieces, which leave out columns."""
    monkeypatch.setattr(shared, "LARGE_TABLE", 1)
    monkeypatch.setattr(grid, "PIECE_SIZE", 12)
    monkeypatch.setattr(grid, "FEWEST_ROWS", 2)
    monkeypatch.setattr(in_place, "PIECE_SIZE", 12)


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
    name, length, source_length, causal, small_pieces
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
def test_a_sample_alone_through_a_window_in_half_precision(
    policy, small_pieces
):
    layer = SyntheticAttention(
        H, K, synthesizer="FD", max_length=12, sliding_window=3, dtype=policy
    )
    x = ops.convert_to_tensor(normal(2, 11, D))
    layer.build(x.shape)
    random_weights(layer)
    both = numpy(layer(x))
    assert_alike([numpy(layer(x[:1]))], [both[:1]], error=0.01)


MASKS = {
    "a window": AttentionMask(window=3),
    "a causal window": AttentionMask(causal=True, window=3),
    "a causal mask": AttentionMask(causal=True),
    "a later start": AttentionMask(causal=True, window=2, start=3),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.skipif(not TORCH, reason="others write products out")
def test_factors_of_rows_are_cut_like_the_rows(
    mask, batch, dtype, small_pieces
):
    factors = normal(batch, H, 9, 3), normal(batch, H, 9, 4, seed=1)
    values = normal(batch, 11, H, K, seed=2)
    direction = ops.convert_to_tensor(normal(batch, 9, H, K, seed=3))

    def loss(route):
        def of(repeated, tiled, values):
            logits = Logits(bias=Product(repeated, tiled, 11))
            values = ops.cast(values, dtype)
            context = attend(logits, values, MASKS[mask], route=route)
            return ops.sum(ops.cast(context, "float32") * direction)

        return of

    expected = gradients(loss("explicit"), *factors, values)
    routes = ["streamed"] if batch > 1 else ["streamed", "shared"]
    for route in routes:
        found = gradients(loss(route), *factors, values)
        error = 1e-5 if dtype == "float32" else 0.02
        assert_alike(found, expected, error)


@pytest.mark.slow
@pytest.mark.skipif(not TORCH, reason="others write products out")
def test_a_long_sample_alone_through_a_window():
    layer = SyntheticAttention(
        8, 8, synthesizer="FD", max_length=2048, sliding_window=512
    )
    inputs = normal(1, 2048, D), normal(1, 2048, D, seed=1)
    layer.build(*(x.shape for x in inputs))
    random_weights(layer)
    assert_alike(*alone_and_twice(layer, inputs), error=1e-4)

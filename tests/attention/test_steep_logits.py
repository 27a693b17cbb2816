"""Logits beyond half precision: tables that fall without bound."""

import numpy as np
import pytest
from arrays import normal, padding
from backend import numpy
from keras import ops

import keras_synth
from keras_synth import routes, synthesizers
from keras_synth.attend import attend
from keras_synth.layers import SyntheticAttention
from keras_synth.logits import Logits
from keras_synth.masks import AttentionMask

H, D = 2, 16
# Relative to the largest output: each has eight bits of precision, or eleven.
ERRORS = {"mixed_bfloat16": 0.03, "mixed_float16": 0.005}


class Kernel(routes.KernelRoute):
    """The kernel, whatever it costs on this machine."""

    name = "preferred kernel"

    def cost(self, request):
        return 0.0


def layers(name, length, policy):
    """The same layer in float32 and by a policy."""
    found = []
    for dtype in ("float32", policy):
        layer = SyntheticAttention(
            H, 8, synthesizer=name, max_length=length, dtype=dtype
        )
        layer.build((None, length, D))
        rng = np.random.default_rng(1)
        for weight in layer.weights:
            weight.assign(0.3 * rng.normal(size=weight.shape))
        found.append(layer)
    return found


def assert_alike(found, expected, policy):
    assert np.isfinite(found).all()
    error = ERRORS[policy] * np.abs(expected).max()
    np.testing.assert_allclose(found, expected, atol=error)


@pytest.mark.parametrize("policy", ERRORS)
@pytest.mark.parametrize(
    "name",
    [
        "gaussian + V",
        "pattern(patterns=('end', 'start')) + V",
        "alibi + V",
        "R + gaussian + V",
    ],
)
@pytest.mark.parametrize("route", ["its own", "a kernel"])
def test_keys_that_are_all_far_away(name, policy, route):
    length = 600
    x = ops.convert_to_tensor(normal(2, length, D))
    mask = ops.convert_to_tensor(padding(length, 20, size=length))
    expected, layer = layers(name, length, policy)
    expected = numpy(expected(x, value_mask=mask))
    kernels = [Kernel()] if route == "a kernel" else []
    with routes.using(*kernels):
        found = numpy(layer(x, value_mask=mask))
    assert_alike(found, expected, policy)


@pytest.mark.parametrize("policy", ERRORS)
def test_a_folded_layer_stays_steep(policy):
    length = 300
    x = ops.convert_to_tensor(normal(2, length, D))
    mask = ops.convert_to_tensor(padding(length, 20, size=length))
    expected, layer = layers("gaussian + V", length, policy)
    folded = keras_synth.fold(layer)
    assert folded.synthesizer.synthesizers[0].needs_float32
    with routes.using(Kernel()):
        found = numpy(folded(x, value_mask=mask))
    assert_alike(found, numpy(expected(x, value_mask=mask)), policy)


def test_kernels_get_only_logits_that_float16_can_represent():
    queries, keys, values = (
        ops.cast(normal(2, 5, H, 4, seed=i), "float16") for i in range(3)
    )
    table = 1e6 * normal(1, H, 5, 5, seed=3)
    for bias in (table, table[:, :, :1]):
        logits = Logits(queries, keys, ops.convert_to_tensor(bias))
        mask = AttentionMask(causal=True)
        found = numpy(attend(logits, values, mask, route="kernel"))
        assert np.isfinite(found).all()


def test_whatever_is_added_to_steep_logits_is_steep():
    table = ops.ones((1, H, 5, 5))
    plain = Logits(bias=table)
    steep = Logits(bias=table, needs_float32=True)
    half = ops.ones(H) / 2
    for logits in (steep, plain + steep, steep + plain, steep.scaled(half)):
        assert logits.needs_float32
    assert not (plain + plain).needs_float32
    row = Logits(bias=table[:, :, :1], needs_float32=True)
    assert row.with_rows(5).needs_float32


@pytest.mark.parametrize("name", ["alibi", "gaussian", "pattern"])
def test_logits_that_fall_with_the_distance_are_steep(name):
    synthesizer = synthesizers.get(name, H)
    synthesizer.build((None, 5, D))
    assert synthesizer(ops.convert_to_tensor(normal(1, 5, D))).needs_float32

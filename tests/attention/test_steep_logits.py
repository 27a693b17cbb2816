"""Logits beyond half precision: tables that fall without bound."""

import numpy as np
import pytest
from arrays import normal, padding
from assertions import close
from backend import numpy
from keras import ops
from noise import drawn

import keras_synth
from keras_synth import mixers, routes, synthesizers
from keras_synth.attend import attend
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


def layer_of(name, length, dtype):
    layer = mixers.get(name, H, 8, length, dtype=dtype)
    layer.build((None, length, D))
    return drawn(layer, 1, 0.3)


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
@pytest.mark.parametrize("way", ["its own", "a kernel", "folded"])
def test_keys_that_are_all_far_away(name, policy, way):
    length = 600
    x = ops.convert_to_tensor(normal(2, length, D))
    mask = ops.convert_to_tensor(padding(length, 20, size=length))
    expected = numpy(layer_of(name, length, "float32")(x, value_mask=mask))
    layer = layer_of(name, length, policy)
    if way == "folded":
        layer = keras_synth.fold(layer)
    with routes.using(*[Kernel()] * (way != "its own")):
        found = layer(x, value_mask=mask)
    close(found, expected, atol=ERRORS[policy] * np.abs(expected).max())


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

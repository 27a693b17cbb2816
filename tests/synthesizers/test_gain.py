"""The gain of learned tables: how far a step moves their logits."""

import numpy as np
import pytest
from arrays import normal
from backend import numpy

from keras_synth.synthesizers import get

H, N, T = 2, 40, 30
NAMES = ["R", "FR"]


def made(name, **options):
    synthesizer = get(name, num_heads=H, max_length=N, **options)
    synthesizer.build((None, None, 8))
    return synthesizer


def logits(synthesizer, length=T):
    query = np.zeros((1, length, 8), "float32")
    return numpy(synthesizer(query, length=length).materialize())


def copied(source, target):
    for weight, value in zip(target.weights, source.weights, strict=True):
        weight.assign(numpy(value.value))


@pytest.mark.parametrize("name", NAMES)
def test_logits_are_the_table_times_the_gain(name):
    plain, strong = made(name), made(name, gain=10)
    copied(plain, strong)
    np.testing.assert_allclose(
        logits(strong), 10 * logits(plain), rtol=1e-5, atol=1e-6
    )
    table = numpy(strong.tables()["R"])
    np.testing.assert_allclose(
        table[:, :T, :T], logits(strong)[0], rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("gain", [1, 10])
def test_the_start_is_the_same_whatever_the_gain(name, gain):
    start = logits(made(name, gain=gain, seed=0), N)
    assert start.std() == pytest.approx(0.1, rel=0.15)


def test_the_update_of_lora_also_has_the_gain():
    synthesizer = made("R", gain=10)
    start = logits(synthesizer)
    synthesizer.enable_lora(2)
    np.testing.assert_allclose(logits(synthesizer), start, rtol=1e-6)
    synthesizer.lora_R_b.assign(normal(H, 2, N))
    added = numpy(synthesizer.lora_R_a) @ normal(H, 2, N)
    np.testing.assert_allclose(
        logits(synthesizer)[0] - start[0],
        10 * added[:, :T, :T],
        rtol=1e-4,
        atol=1e-4,
    )

"""Causal masks where queries and source are of different lengths."""

import re

import keras
import numpy as np
import pytest
from arrays import normal, padding
from backend import gradients, numpy, slow_but_on
from cases import MIXERS
from keras import ops

from keras_synth import mixers

H, K, D, N = 2, 4, 8, 300
LENGTHS = [(5, 7), (7, 5)]
MANY = [(256, 128), (128, 256), (130, 256), (300, 200)]
BETWEEN = [
    name
    for name in MIXERS
    if mixers.registry.mixer_class(name).supports_cross_attention
    and mixers.registry.mixer_class(name).supports_causal_mask
    and not re.search("pattern=|local|strided|big_bird", name)  # one sequence
]


def made(name):
    mixer = mixers.get(name, H, K, max_length=N, seed=0)
    mixer.build((None, None, D), (None, None, D))
    return mixer


def row_by_row(mixer, query, source, real=None):
    """Each query on its own, not causal, the keys up to its place real."""
    (batch, target, _), length = query.shape, source.shape[1]
    seen = np.arange(length) <= np.arange(target)[:, None]  # (T, S)
    seen = np.tile(seen, (batch, 1))
    if real is not None:
        seen &= np.repeat(real, target, axis=0)
    rows = mixer(
        ops.reshape(query, (-1, 1, D)),
        ops.repeat(source, target, axis=0),
        value_mask=seen,
    )
    return ops.reshape(rows, (batch, target, D))


@slow_but_on("torch", "tensorflow")
@pytest.mark.parametrize("name", ["linear", "performer"])
@pytest.mark.parametrize("lengths", LENGTHS)
def test_a_query_sees_the_keys_up_to_its_place(name, lengths):
    mixer = made(name)
    query, source = (normal(2, n, D, seed=n) for n in lengths)
    real = padding(lengths[1], 1, size=lengths[1])
    for given in (None, real):
        found = mixer(query, source, value_mask=given, use_causal_mask=True)
        expected = row_by_row(mixer, query, source, given)
        np.testing.assert_allclose(numpy(found), numpy(expected), atol=2e-5)


@slow_but_on("torch", "tensorflow")
@pytest.mark.parametrize("name", ["linear", "performer"])
@pytest.mark.parametrize("lengths", MANY)
def test_lengths_of_several_chunks(name, lengths):
    mixer = made(name)
    query, source = (normal(1, n, D, seed=n) for n in lengths)
    found = numpy(mixer(query, source, use_causal_mask=True))
    expected = numpy(row_by_row(mixer, query, source))
    np.testing.assert_allclose(found, expected, atol=1e-4)


@slow_but_on("torch")
@pytest.mark.parametrize("name", ["linear", "performer"])
@pytest.mark.parametrize("lengths", LENGTHS)
def test_gradients_are_those_of_the_tokens_that_are_seen(name, lengths):
    mixer = made(name)
    query, source = (normal(2, n, D, seed=n) for n in lengths)

    def loss(query, source):
        found = mixer(query, source, use_causal_mask=True)
        return ops.sum(ops.sin(found))

    def by_rows(query, source):
        return ops.sum(ops.sin(row_by_row(mixer, query, source)))

    for found, expected in zip(
        gradients(loss, query, source),
        gradients(by_rows, query, source),
        strict=True,
    ):
        np.testing.assert_allclose(found, expected, atol=2e-5)


@pytest.mark.parametrize("name", ["linear", "performer"])
def test_lengths_that_are_not_known(name):
    """Compiled, as each backend does by default."""
    mixer = made(name)
    inputs = [keras.Input((None, D)) for _ in range(2)]
    model = keras.Model(inputs, mixer(*inputs, use_causal_mask=True))
    for lengths in LENGTHS[:2]:
        x = [normal(2, n, D, seed=n) for n in lengths]
        np.testing.assert_allclose(
            model.predict(x, verbose=0),
            numpy(row_by_row(mixer, *x)),
            atol=2e-5,
        )


@slow_but_on("torch")
@pytest.mark.parametrize("name", BETWEEN)
@pytest.mark.parametrize("lengths", LENGTHS)
def test_later_keys_have_no_influence(name, lengths):
    """Of whatever has a causal form and takes two sequences."""
    mixer = made(name)
    query, source = (normal(2, n, D, seed=n) for n in lengths)
    found = numpy(mixer(query, source, use_causal_mask=True))
    assert np.isfinite(found).all()
    for i in range(lengths[0]):
        changed = source.copy()
        changed[:, i + 1 :] *= 100.0
        after = numpy(mixer(query, changed, use_causal_mask=True))
        np.testing.assert_array_equal(after[:, : i + 1], found[:, : i + 1])

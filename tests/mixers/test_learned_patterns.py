"""Reformer, routing and Sinkhorn attention: who sees whom is learned."""

import numpy as np
import oracles
import pytest
from arrays import normal, padding
from backend import numpy, program
from cases import randomized

from keras_synth import mixers

H, K, D, N, T = 2, 4, 8, 13, 11


def made(name, **options):
    mixer = mixers.get(name, H, K, N, seed=3, **options)
    return randomized(mixer, 0.7)


def test_equally_near_tokens_are_chosen_in_order():
    mixer, x = made("routing(clusters=3)"), normal(3, T, D)
    for layer in (mixer.query, mixer.key):  # two directions are left
        kernel, bias = layer.weights
        kernel.assign(numpy(kernel) * (np.arange(K) == 0))
        bias.assign(0 * numpy(bias))
    found = numpy(program(mixer)(x))
    formula = oracles.of_real_heads(oracles.routing)
    expected = formula(mixer, x, x, np.ones((3, T), bool), False)
    np.testing.assert_allclose(found, expected, atol=1e-4)


# --- centroids ----------------------------------------------------------------


def moved(mixer, x, real):
    """Where a step of training moves centroids."""
    w = oracles.Weights(mixer)
    before, decay = w["centroids"], mixer.decay
    after = before.copy()
    for h in range(H):
        tokens = [w.dense(n, x)[real][:, h] for n in ("query", "key")]
        directions = oracles.unit(np.concatenate(tokens))
        nearest = (directions @ before[h].T).argmax(-1)
        for c in set(nearest):
            mean = directions[nearest == c].mean(0)
            after[h, c] = decay * before[h, c] + (1 - decay) * mean
    return oracles.unit(after)


@pytest.mark.parametrize("clusters", [2, 13])
@pytest.mark.parametrize("decay", [0.999, 0.5])
def test_training_moves_centroids_to_near_tokens(clusters, decay):
    mixer = made("routing", clusters=clusters, decay=decay)
    x, real = normal(3, T, D), padding(T, 4, 1, size=T)
    before = numpy(mixer.centroids)
    np.testing.assert_allclose(np.linalg.norm(before, axis=-1), 1, atol=1e-5)
    expected = moved(mixer, x, real)
    poisoned = np.where(real[..., None], x, np.float32(np.nan))
    mixer(poisoned, value_mask=real, training=True)
    np.testing.assert_allclose(numpy(mixer.centroids), expected, atol=1e-5)
    assert np.abs(expected - before).max() > 1e-4


def test_centroids_stay_where_nothing_is_learned():
    mixer, x = made("routing(clusters=3)"), normal(3, T, D)
    before = numpy(mixer.centroids)
    mixer(x)
    mixer(x, training=False)
    mixer.trainable = False
    mixer(x, training=True)
    np.testing.assert_array_equal(numpy(mixer.centroids), before)


# --- Sinkhorn's matrix --------------------------------------------------------


def sorting(name, real):
    """The matrix `(1, H, 4, 4)` of random queries, padding left out."""
    mixer = made(name)
    mixer.sort_kernel.assign(0.7 * normal(*mixer.sort_kernel.shape, seed=5))
    real = real.reshape(1, 1, 4, 3, 1).astype("float32")
    return numpy(mixer.sorting(normal(1, H, 4, 3, K) * real, real))


def test_rows_and_columns_of_the_matrix_sum_to_one():
    name = "sinkhorn(block_size=3, iterations=40)"
    for count, blocks in ((12, 4), (7, 3)):  # blocks of padding have no part
        found = sorting(name, np.arange(12) < count)
        own = found[..., :blocks, :blocks]
        for axis in (-1, -2):
            np.testing.assert_allclose(own.sum(axis), 1, atol=1e-4)
        assert (own > 0).all()
        assert not found[..., blocks:].any()
        assert not found[..., blocks:, :].any()

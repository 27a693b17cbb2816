"""Routing attention against loops over clusters, and its k-means."""

import keras
import numpy as np
import pytest
from arrays import normal, padding
from backend import numpy, program, slow_but_on

from keras_synth import mixers

H, K, V, D, N, T = 2, 4, 5, 8, 13, 11


def made(clusters=3, value_dim=V, **options):
    mixer = mixers.RoutingAttention(
        H, K, N, clusters, value_dim=value_dim, seed=3, **options
    )
    mixer.build((None, None, D))
    for i, weight in enumerate(mixer.trainable_weights):
        weight.assign(0.7 * normal(*weight.shape, seed=i))
    return mixer


def dense(layer, x):
    kernel, bias = (numpy(w).astype("float64") for w in layer.weights)
    return np.tensordot(x, kernel, kernel.ndim - bias.ndim) + bias


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def expected(mixer, x, lengths):
    """Cluster by cluster, of real tokens alone; and who is in none."""
    context = np.zeros((*x.shape[:2], H, V))
    alone = 0
    for b, h in np.ndindex(len(x), H):
        n, size = lengths[b], -(-N // mixer.clusters)
        q, k, v = (
            dense(layer, x[b, :n])[:, h]
            for layer in (mixer.query, mixer.key, mixer.value)
        )
        found = [[] for _ in range(n)]
        for centroid in numpy(mixer.centroids)[h]:
            queries, keys = (
                np.argsort(-np.round(unit(y) @ centroid * 2**16), kind="stable")
                for y in (q, k)
            )
            queries, keys = queries[:size], keys[:size]
            for i in queries:
                logits = k[keys] @ q[i] / K**0.5
                weights = np.exp(logits - logits.max())
                found[i].append(weights / weights.sum() @ v[keys])
        for i in range(n):
            alone += not found[i]
            if found[i]:
                context[b, i, h] = np.mean(found[i], axis=0)
    kernel, bias = (numpy(w) for w in mixer.attention_output.weights)
    return np.einsum("bthv,hvd->btd", context, kernel) + bias, alone


@pytest.mark.parametrize(
    "clusters",
    [3, *(pytest.param(n, marks=slow_but_on("torch")) for n in (1, 2, 5, 13))],
)
def test_it_is_the_loop_over_clusters(clusters):
    mixer, x = made(clusters), normal(3, T, D)
    run = program(lambda x, real: mixer(x, value_mask=real))
    for lengths in ((T, T, T), (T, 4, 1)):
        real = padding(*lengths, size=T)
        found = numpy(run(x, real))
        truth, alone = expected(mixer, x, lengths)
        np.testing.assert_allclose(found[real], truth[real], atol=1e-4)
        # Of as many places as tokens some queries have several, some none.
        assert bool(alone) == (clusters > 1) or lengths != (T, T, T)


def test_tokens_that_are_equally_near_are_taken_in_their_order():
    mixer, x = made(), normal(3, T, D)
    for layer in (mixer.query, mixer.key):  # two directions are left
        kernel, bias = layer.weights
        kernel.assign(numpy(kernel) * (np.arange(K) == 0))
        bias.assign(0 * numpy(bias))
    found = numpy(program(mixer)(x))
    truth, _ = expected(mixer, x, (T, T, T))
    np.testing.assert_allclose(found, truth, atol=1e-4)


def test_one_cluster_of_all_is_attention():
    mixer, x = made(1, value_dim=K), normal(2, T, D)
    plain = keras.layers.MultiHeadAttention(H, K)
    plain(x, x)
    plain.set_weights([numpy(w) for w in mixer.trainable_weights])
    np.testing.assert_allclose(
        numpy(program(mixer)(x)), numpy(plain(x, x)), atol=1e-5
    )


# --- centroids ----------------------------------------------------------------


def moved(mixer, x, real):
    """Where a step of training moves centroids."""
    before = numpy(mixer.centroids).astype("float64")
    after = before.copy()
    for h in range(H):
        tokens = np.concatenate(
            [dense(layer, x)[real][:, h] for layer in (mixer.query, mixer.key)]
        )
        directions = unit(tokens)
        nearest = (directions @ before[h].T).argmax(-1)
        for c in set(nearest):
            mean = directions[nearest == c].mean(0)
            after[h, c] = mixer.decay * before[h, c] + (1 - mixer.decay) * mean
    return unit(after)


@slow_but_on("torch", "tensorflow")
@pytest.mark.parametrize("clusters", [2, 13])
@pytest.mark.parametrize("decay", [0.999, 0.5])
def test_training_moves_centroids_to_what_is_near(clusters, decay):
    mixer, x = made(clusters, decay=decay), normal(3, T, D)
    real = padding(T, 4, 1, size=T)
    before = numpy(mixer.centroids)
    np.testing.assert_allclose(np.linalg.norm(before, axis=-1), 1, atol=1e-5)
    truth = moved(mixer, x, real)
    poisoned = np.where(real[..., None], x, np.float32(np.nan))
    mixer(poisoned, value_mask=real, training=True)
    np.testing.assert_allclose(numpy(mixer.centroids), truth, atol=1e-5)
    assert np.abs(truth - before).max() > 1e-4


def test_centroids_stay_where_nothing_is_learned():
    mixer, x = made(), normal(3, T, D)
    before = numpy(mixer.centroids)
    mixer(x)
    mixer(x, training=False)
    mixer.trainable = False
    mixer(x, training=True)
    np.testing.assert_array_equal(numpy(mixer.centroids), before)


@slow_but_on("torch")
def test_k_means_finds_clusters():
    """Tokens of three directions: each has a centroid in the end."""
    mixer = made(3, decay=0.8)
    for layer in (mixer.query, mixer.key):
        kernel = np.zeros((D, H, K))
        kernel[:K] = np.eye(K)[:, None]
        layer.set_weights([kernel, np.zeros((H, K))])
    rng = np.random.default_rng(0)
    centroids = unit(np.eye(3, K) + 0.7 * np.roll(np.eye(3, K), 1, 0))
    mixer.centroids.assign(np.stack([centroids] * H))
    for _ in range(40):
        x = np.eye(3, D)[rng.integers(0, 3, (4, T))]
        x = x + 0.1 * rng.normal(size=x.shape)
        mixer(x.astype("float32"), training=True)
    found = numpy(mixer.centroids)[:, :, :3]
    np.testing.assert_allclose(found, np.stack([np.eye(3)] * H), atol=0.1)


def test_centroids_are_saved_and_move_in_fit(tmp_path):
    inputs = keras.Input((None, D))
    mixer = mixers.RoutingAttention(H, K, N, 3, decay=0.9)
    model = keras.Model(inputs, mixer(inputs))
    model.compile("sgd", "mse")
    before = numpy(mixer.centroids)
    model.train_on_batch(normal(4, T, D), normal(4, T, D, seed=1))
    after = numpy(mixer.centroids)
    assert np.abs(after - before).max() > 1e-3
    assert not mixer.centroids.trainable
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(numpy(loaded.layers[1].centroids), after)

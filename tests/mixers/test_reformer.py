"""Reformer against one softmax over what its rounds show, token by token."""

import keras
import numpy as np
import pytest
from arrays import normal, padding
from backend import numpy, program, slow_but_on
from keras import ops

from keras_synth import mixers
from keras_synth.mixers.reformer import by_bucket

H, K, V, D, N, T = 2, 4, 5, 8, 13, 11


def made(bucket_size=3, hashes=2, **options):
    mixer = mixers.ReformerAttention(
        H, K, N, bucket_size, hashes, value_dim=V, seed=3, **options
    )
    mixer.build((None, None, D))
    for i, weight in enumerate(mixer.trainable_weights):
        weight.assign(0.7 * normal(*weight.shape, seed=i))
    return mixer


def dense(layer, x):
    kernel, bias = (numpy(w).astype("float64") for w in layer.weights)
    return np.tensordot(x, kernel, kernel.ndim - bias.ndim) + bias


def shown(mixer, x, h):
    """What the rounds show tokens `(n, k)` of a head: boolean `(n, n)`."""
    seen = np.zeros((len(x), len(x)), bool)
    for number in range(mixer.hashes):
        buckets = np.zeros(len(x), int)
        if mixer.rotations is not None:
            turned = x @ numpy(mixer.rotations)[h, number]
            buckets = np.concatenate([turned, -turned], -1).argmax(-1)
        order = sorted(range(len(x)), key=lambda j: (buckets[j], j))
        chunk = {j: at // mixer.bucket_size for at, j in enumerate(order)}
        for i, j in np.ndindex(seen.shape):
            near = chunk[i] - chunk[j] in (0, 1)
            seen[i, j] |= near and buckets[i] == buckets[j]
    return seen


def expected(mixer, x, lengths, everything=False):
    context = np.zeros((*x.shape[:2], H, V))
    for b, h in np.ndindex(len(x), H):
        tokens = dense(mixer.query, x[b, : lengths[b]])[:, h]
        values = dense(mixer.value, x[b, : lengths[b]])[:, h]
        seen = shown(mixer, tokens, h) | everything
        keys = tokens / np.linalg.norm(tokens, axis=-1, keepdims=True)
        for i in range(lengths[b]):
            others = [j for j in np.flatnonzero(seen[i]) if j != i] or [i]
            logits = keys[others] @ tokens[i]
            weights = np.exp(logits - logits.max())
            context[b, i, h] = weights / weights.sum() @ values[others]
    kernel, bias = (numpy(w) for w in mixer.attention_output.weights)
    return np.einsum("bthv,hvd->btd", context, kernel) + bias


@pytest.mark.parametrize(
    ("bucket_size", "hashes"),
    [
        pytest.param(1, 1, marks=slow_but_on("torch")),
        pytest.param(3, 1, marks=slow_but_on("torch")),
        (3, 4),
        pytest.param(5, 2, marks=slow_but_on("torch")),
        pytest.param(12, 3, marks=slow_but_on("torch")),
    ],
)
def test_it_is_one_softmax_over_what_its_rounds_show(bucket_size, hashes):
    mixer, x = made(bucket_size, hashes), normal(3, T, D)
    run = program(lambda x, real: mixer(x, value_mask=real))
    for lengths in ((T, T, T), (T, 4, 1)):
        real = padding(*lengths, size=T)
        found = numpy(run(x, real))
        truth = expected(mixer, x, lengths)
        np.testing.assert_allclose(found[real], truth[real], atol=1e-4)


@pytest.mark.parametrize("hashes", [1, 3])
def test_one_bucket_is_attention_to_all_others(hashes):
    mixer, x = made(N, hashes), normal(3, T, D)
    assert mixer.num_buckets == 1
    assert mixer.rotations is None
    truth = expected(mixer, x, (T, T, T), everything=True)
    np.testing.assert_allclose(numpy(program(mixer)(x)), truth, atol=1e-5)


def test_most_pairs_of_a_round_are_not_shown():
    """Or the comparison above would say little."""
    mixer = made(3, 1)
    seen = shown(mixer, dense(mixer.query, normal(1, T, D)[0])[:, 0], 0)
    assert 0.1 < seen.mean() < 0.6


@slow_but_on("torch")
def test_a_token_alone_sees_itself():
    mixer, x = made(), normal(1, 1, D)
    values = dense(mixer.value, x)
    kernel, bias = (numpy(w) for w in mixer.attention_output.weights)
    truth = np.einsum("bthv,hvd->btd", values, kernel) + bias
    np.testing.assert_allclose(numpy(program(mixer)(x)), truth, atol=1e-5)


@slow_but_on("torch")
def test_rotations_are_saved_and_never_trained(tmp_path):
    inputs = keras.Input((None, D))
    model = keras.Model(inputs, mixers.ReformerAttention(H, K, N, 3)(inputs))
    rotations = model.layers[1].rotations
    before = numpy(rotations)
    assert rotations.shape == (H, 4, K, 3)
    model.trainable = True
    assert not rotations.trainable
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(numpy(loaded.layers[1].rotations), before)
    x = normal(2, T, D)
    np.testing.assert_allclose(numpy(loaded(x)), numpy(model(x)), atol=1e-5)


def test_the_order_of_tokens_is_right_beyond_32_bits():
    rng = np.random.default_rng(0)
    buckets = rng.integers(0, 9, (2, 3000)) * 1_000_000
    order, places = by_bucket(ops.convert_to_tensor(buckets.astype("int32")))
    expected = np.argsort(buckets, axis=-1, kind="stable")
    np.testing.assert_array_equal(numpy(order), expected)
    np.testing.assert_array_equal(numpy(places), np.argsort(expected))

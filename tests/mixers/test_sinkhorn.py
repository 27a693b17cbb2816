"""Sinkhorn attention against loops over blocks, and its matrix."""

import numpy as np
import pytest
from arrays import normal, padding
from backend import numpy, program, slow_but_on
from keras import ops

from keras_synth import mixers

H, K, V, D, N, T = 2, 4, 5, 8, 13, 11


def made(block_size=3, **options):
    mixer = mixers.SinkhornAttention(
        H, K, N, block_size, value_dim=V, seed=3, **options
    )
    mixer.build((None, None, D))
    for i, weight in enumerate(mixer.weights):
        weight.assign(0.7 * normal(*weight.shape, seed=i))
    return mixer


def dense(layer, x):
    kernel, bias = (numpy(w).astype("float64") for w in layer.weights)
    return np.tensordot(x, kernel, kernel.ndim - bias.ndim) + bias


def matrix(mixer, queries, h):
    """Of the real queries `(n, k)` of a head, block by block."""
    size = mixer.block_size
    blocks = [queries[i : i + size] for i in range(0, len(queries), size)]
    means = np.stack([block.mean(0) for block in blocks])
    kernel = numpy(mixer.sort_kernel)[h, :, : len(blocks)]
    found = np.exp(means @ kernel / mixer.temperature)
    for _ in range(mixer.iterations):
        found /= found.sum(0, keepdims=True)
        found /= found.sum(1, keepdims=True)
    return found


def expected(mixer, x, lengths, sorting=matrix):
    """Token by token: its own block, and what is sorted to it."""
    size = mixer.block_size
    context = np.zeros((*x.shape[:2], H, V))
    for b, h in np.ndindex(len(x), H):
        n = lengths[b]
        q, k, v = (
            dense(layer, x[b, :n])[:, h]
            for layer in (mixer.query, mixer.key, mixer.value)
        )
        P = sorting(mixer, q, h)
        for i in range(n):
            block = i // size
            own = range(block * size, min((block + 1) * size, n))
            keys, values, shares = [*k[own]], [*v[own]], [1.0] * len(own)
            for place in range(size):
                there = range(place, n, size)  # of each block the one there
                weights = np.array([P[block, j // size] for j in there])
                if not weights.sum() > 1e-6:
                    continue
                shares.append(weights.sum())
                keys.append(weights @ k[there] / weights.sum())
                values.append(weights @ v[there] / weights.sum())
            logits = np.array(keys) @ q[i] / K**0.5 + np.log(shares)
            weights = np.exp(logits - logits.max())
            context[b, i, h] = weights / weights.sum() @ np.array(values)
    kernel, bias = (numpy(w) for w in mixer.attention_output.weights)
    return np.einsum("bthv,hvd->btd", context, kernel) + bias


@pytest.mark.parametrize(
    ("block_size", "iterations"),
    [
        pytest.param(1, 2, marks=slow_but_on("torch")),
        pytest.param(3, 1, marks=slow_but_on("torch")),
        (3, 8),
        pytest.param(4, 5, marks=slow_but_on("torch")),
        pytest.param(13, 3, marks=slow_but_on("torch")),
    ],
)
def test_it_is_the_loop_over_blocks(block_size, iterations):
    mixer, x = made(block_size, iterations=iterations), normal(3, T, D)
    run = program(lambda x, real: mixer(x, value_mask=real))
    for lengths in ((T, T, T), (T, 4, 1)):
        real = padding(*lengths, size=T)
        found = numpy(run(x, real))
        truth = expected(mixer, x, lengths)
        np.testing.assert_allclose(found[real], truth[real], atol=1e-4)


@pytest.mark.parametrize(
    "order",
    [
        (3, 0, 1, 2),
        pytest.param((1, 0, 3, 2), marks=slow_but_on("torch")),
        pytest.param((0, 1, 2, 3), marks=slow_but_on("torch")),
    ],
)
def test_a_permutation_is_attention_to_two_blocks(order, monkeypatch):
    """Written out: a softmax among the own block and one other."""
    mixer, x = made(3), normal(2, T, D)
    permutation = np.eye(4, dtype="float32")[list(order)]
    monkeypatch.setattr(
        type(mixer),
        "sorting",
        lambda self, queries, real: ops.broadcast_to(
            ops.convert_to_tensor(permutation), (2, H, 4, 4)
        ),
    )
    q, k, v = (
        dense(layer, x) for layer in (mixer.query, mixer.key, mixer.value)
    )
    context = np.zeros((2, T, H, V))
    for b, i, h in np.ndindex(2, T, H):
        seen = [
            j
            for block in (i // 3, order[i // 3])
            for j in range(3 * block, min(3 * block + 3, T))
        ]
        logits = k[b, seen, h] @ q[b, i, h] / K**0.5
        weights = np.exp(logits - logits.max())
        context[b, i, h] = weights / weights.sum() @ v[b, seen, h]
    kernel, bias = (numpy(w) for w in mixer.attention_output.weights)
    truth = np.einsum("bthv,hvd->btd", context, kernel) + bias
    np.testing.assert_allclose(numpy(program(mixer)(x)), truth, atol=1e-5)


def sorting(mixer, blocks, real):
    queries = normal(1, H, blocks, mixer.block_size, K)
    queries = queries * real.reshape(1, 1, blocks, -1, 1)
    real = real.reshape(1, 1, blocks, -1, 1).astype("float32")
    return numpy(mixer.sorting(*map(ops.convert_to_tensor, (queries, real))))


def test_rows_and_columns_of_the_matrix_sum_to_one():
    mixer = made(3, iterations=40)
    found = sorting(mixer, 4, np.ones(12))
    np.testing.assert_allclose(found.sum(-1), 1, atol=1e-4)
    np.testing.assert_allclose(found.sum(-2), 1, atol=1e-4)
    assert (found > 0).all()
    # Blocks of padding have no part in it.
    found = sorting(mixer, 4, np.arange(12) < 7)
    np.testing.assert_allclose(found[..., :3, :3].sum(-1), 1, atol=1e-4)
    np.testing.assert_allclose(found[..., :3, :3].sum(-2), 1, atol=1e-4)
    assert not found[..., 3:].any()
    assert not found[..., 3:, :].any()


@slow_but_on("torch")
def test_at_a_low_temperature_it_is_a_permutation():
    mixer = made(3, iterations=400, temperature=0.02)
    found = sorting(mixer, 4, np.ones(12))
    np.testing.assert_allclose(found.round(), found, atol=1e-2)

"""Local Dense: loops over neighbours, any length, and a ring of values."""

import itertools

import keras
import numpy as np
import pytest
from arrays import normal
from backend import numpy, program, slow_but_on

from keras_synth import mixers
from keras_synth.layers import SyntheticAttention

H, K, D, W, T = 2, 4, 8, 2, 11


def made(name=f"local_dense(window={W})", **options):
    layer = SyntheticAttention(H, K, synthesizer=name, **options)
    layer.build((None, None, D))
    for i, weight in enumerate(layer.weights):
        weight.assign(0.7 * normal(*weight.shape, seed=i))
    return layer


@pytest.mark.skipif(
    keras.backend.backend() != "jax", reason="JAX says what it will compute"
)
def test_no_tensor_of_all_pairs_is_made():
    import jax

    length = 1024
    layer = made()
    trace = jax.make_jaxpr(lambda x: jax.grad(lambda y: layer(y).sum())(x))(
        np.zeros((1, length, D), "float32")
    )
    sizes = [
        np.prod(variable.aval.shape)
        for equation in trace.jaxpr.eqns
        for variable in equation.outvars
    ]
    assert max(sizes) < length * length / 2


def test_a_decoder_remembers_the_values_of_the_window_only():
    layer = made()
    assert layer.make_cache(3, T)["tokens"].shape == (3, W, H, K)
    assert not layer.overwrites_cache


@slow_but_on("torch")
def test_without_features_it_is_a_table_of_distances():
    layer, x = made(), normal(2, T, D)
    table = mixers.get("relative", H, K, max_distance=W, sliding_window=W + 1)
    table.build(x.shape)
    layer.synthesizer.W2.assign(np.zeros((2 * W + 1, H, K)))
    table.synthesizer.distances.assign(layer.synthesizer.b2)
    for name in ("value", "attention_output"):
        getattr(table, name).set_weights(getattr(layer, name).get_weights())
    np.testing.assert_allclose(numpy(layer(x)), numpy(table(x)), atol=1e-5)


@slow_but_on("torch")
def test_a_mixture_sees_what_all_its_parts_see():
    layer, x = made(f"local_dense(window={W}) + V"), normal(2, T, D)
    one, two = layer.synthesizer.synthesizers
    alphas = np.exp(numpy(layer.synthesizer.alphas))
    alphas = (alphas / alphas.sum(0))[:, None, :, None, None]
    near = np.abs(np.subtract.outer(*2 * [np.arange(T)])) <= W
    logits = alphas[0] * numpy(one(x).materialize())
    logits = logits + alphas[1] * numpy(
        two(x, keys=two.project_keys(x)).materialize()
    )
    weights = np.where(near, np.exp(logits), 0)
    weights /= weights.sum(-1, keepdims=True)
    _, scores = layer(x, return_attention_scores=True)
    np.testing.assert_allclose(numpy(scores), weights, atol=1e-5)
    run = program(lambda x: layer(x, use_causal_mask=True))
    cache, outputs = layer.make_cache(2, T), []
    for start, end in itertools.pairwise((0, 3, 4, T)):
        output, cache = layer.call_with_cache(x[:, start:end], cache, start)
        outputs.append(numpy(output))
    found = np.concatenate(outputs, axis=1)
    np.testing.assert_allclose(found, numpy(run(x)), atol=1e-5)


@slow_but_on("torch")
def test_each_group_of_heads_sees_its_own():
    layer = made(f"heads(1 * local_dense(window={W}) + 1 * V)")
    x = normal(2, T, D)
    _, scores = layer(x, return_attention_scores=True)
    near = np.abs(np.subtract.outer(*2 * [np.arange(T)])) <= W
    assert (
        (numpy(scores) > 0).sum((0, 2, 3)) == [2 * near.sum(), 2 * T * T]
    ).all()
    narrow = made(
        f"heads(1 * local_dense(window={W}) + 1 * V)", sliding_window=2
    )
    _, scores = narrow(x, return_attention_scores=True)
    assert (numpy(scores) > 0).sum() == 2 * 2 * (3 * T - 2)


def test_another_sequence_is_refused():
    layer, x = made(), normal(2, T, D)
    for call in (
        lambda: layer(x, normal(2, T + 1, D)),
        lambda: layer.call_with_cache(x, layer.remember(x)),
        lambda: layer(keras.Input((3, D)), keras.Input((4, D))),
    ):
        with pytest.raises(ValueError, match=r"neighbours.*Received"):
            call()

"""Local Dense: loops over neighbours, any length, and a ring of values."""

import itertools

import keras
import numpy as np
import pytest
from arrays import normal, padding
from backend import numpy, program, slow_but_on

from keras_synth import mixers, routes, synthesizers
from keras_synth.layers import SyntheticAttention

H, K, D, W, T = 2, 4, 8, 2, 11


def made(name=f"local_dense(window={W})", **options):
    layer = SyntheticAttention(H, K, synthesizer=name, **options)
    layer.build((None, None, D))
    for i, weight in enumerate(layer.weights):
        weight.assign(0.7 * normal(*weight.shape, seed=i))
    return layer


def dense(layer, x):
    kernel, bias = (numpy(w).astype("float64") for w in layer.weights)
    return np.tensordot(x, kernel, kernel.ndim - bias.ndim) + bias


def expected(layer, x, real, causal):
    """Token by token, head by head, neighbour by neighbour."""
    own = layer.synthesizer
    hidden = np.maximum(dense(own.hidden, x), 0)
    W2, b2, values = numpy(own.W2), numpy(own.b2), dense(layer.value, x)
    context = np.zeros(values.shape)
    for b, i, h in np.ndindex(values.shape[:3]):
        seen = range(max(0, i - W), min(x.shape[1], i + W + 1))
        seen = [j for j in seen if real[b, j] and (j <= i or not causal)]
        if not seen:
            continue
        logits = [
            hidden[b, i, h] @ W2[j - i + W, h] + b2[h, j - i + W] for j in seen
        ]
        weights = np.exp(logits - np.max(logits))
        weights /= weights.sum()
        for j, weight in zip(seen, weights, strict=True):
            context[b, i, h] += weight * values[b, j, h]
    kernel, bias = (numpy(w) for w in layer.attention_output.weights)
    return np.einsum("bthv,hvd->btd", context, kernel) + bias


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "length",
    [T, *(pytest.param(n, marks=slow_but_on("torch")) for n in (1, 3, 5))],
)
def test_it_is_the_loop_over_neighbours(length, causal):
    layer, x = made(), normal(3, length, D)
    masks = {"use_causal_mask": causal}
    run = program(
        lambda x, real: [
            layer(x, value_mask=real, **masks),
            layer(x, value_mask=real, return_attention_scores=True, **masks)[1],
        ]
    )
    far = np.abs(np.subtract.outer(*2 * [np.arange(length)])) > W
    for lengths in ((length,) * 3, (length, length // 2, 0)):
        real = padding(*lengths, size=length)
        found, scores = map(numpy, run(x, real))
        truth = expected(layer, x, real, causal)
        np.testing.assert_allclose(found, truth, atol=1e-5)
        assert not scores[..., far].any()


@slow_but_on("torch")
def test_it_serves_any_length_by_blocks():
    layer = made()
    x = normal(1, 300, D)
    truth = expected(layer, x, np.ones((1, 300), bool), False)
    np.testing.assert_allclose(numpy(layer(x)), truth, atol=1e-4)
    seen = []

    class Watched(routes.ExplicitRoute):
        name = "watched"

        def cost(self, request):
            seen.append(routes.get("tiles").serves(request))
            return 9.0

    with routes.using(Watched()):
        layer(x)
    assert seen == [True]


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


@pytest.mark.parametrize(
    "padded", [pytest.param(False, marks=slow_but_on("torch")), True]
)
def test_a_decoder_remembers_the_values_of_the_window_alone(padded):
    layer, x = made(), normal(3, T, D)
    real = np.ones((3, T), bool)
    if padded:  # before, and between
        real[1, :2] = real[2, 4:6] = False
    truth = expected(layer, x, real, True)
    cache = layer.make_cache(3, T)
    assert cache["tokens"].shape == (3, W, H, K)
    assert not layer.overwrites_cache
    step, outputs = program(layer.call_with_cache), []
    for start, end in itertools.pairwise((0, 3, 4, 5, 9, T)):
        masks = {"value_mask": real[:, start:end]} if padded else {}
        output, cache = step(x[:, start:end], cache, start, **masks)
        outputs.append(numpy(output))
    found = np.concatenate(outputs, axis=1)
    np.testing.assert_allclose(found[real], truth[real], atol=1e-5)


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


@pytest.mark.parametrize(
    "options", [{"window": 0}, {"window": 1.5}, {"hidden_dim": 0}]
)
def test_bad_options_are_refused(options):
    with pytest.raises(ValueError, match=r"positive integer.*Received"):
        synthesizers.get("local_dense", H, K, **options)


def test_a_config_makes_it_again():
    own = synthesizers.get("local_dense(window=3, activation='gelu')", H, K)
    again = type(own).from_config(own.get_config())
    assert again.get_config() == own.get_config()
    assert (again.reach, again.hidden_dim) == (3, K)
    assert again.activation is keras.activations.gelu

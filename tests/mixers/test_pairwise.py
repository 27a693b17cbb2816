"""Mixers that compare pairs of tokens: additive and ReLU attention."""

import keras
import numpy as np
import pytest
from arrays import normal, padding
from backend import (
    build_optimizer,
    compiled_gradients,
    each_way_to_compile,
    gradients,
    numpy,
    second_derivatives,
    slow_but_on,
)
from keras import ops
from language_models import greedy, language_model

from keras_synth import mixers
from keras_synth.layers import SynthesizerDecoder
from keras_synth.synthesizers.additive import pair_logits

H, K, D, N, T = 2, 4, 8, 9, 7

each_mixer = pytest.mark.parametrize("name", ["additive", "relu"])


def made(name, **options):
    mixer = mixers.get(name, H, K, **options)
    mixer.build((None, None, D))
    for i, weight in enumerate(mixer.trainable_weights):
        weight.assign(0.5 * normal(*weight.shape, seed=i))
    return mixer


def dense(layer, x):
    kernel, bias = (numpy(w).astype("float64") for w in layer.weights)
    return np.tensordot(x, kernel, kernel.ndim - bias.ndim) + bias


def row_weights(mixer, query, keys, bias, head):
    """Weights of the keys that a query sees, one by one."""
    if mixer.normalizer.name == "relu":
        logits = np.array([query @ key / K**0.5 for key in keys]) + bias
        return np.maximum(logits, 0) / max(len(keys), 1)
    w = numpy(mixer.synthesizer.scale)[head]
    logits = np.array([w @ np.tanh(query + key) for key in keys]) + bias
    powers = np.exp(logits)
    return powers / powers.sum()


def expected(mixer, x, source, visible, bias=None):
    """Outputs and weights, row by row; `visible` is `(B, H, T, S)`."""
    queries, keys, values = (
        dense(layer, y.astype("float64"))
        for layer, y in (
            (mixer.synthesizer.query, x),
            (mixer.synthesizer.key, source),
            (mixer.value, source),
        )
    )
    shape = (len(x), H, x.shape[1], source.shape[1])
    visible = np.broadcast_to(visible, shape)
    bias = np.broadcast_to(0.0 if bias is None else bias, shape)
    weights = np.zeros(shape)
    for b, h, i in np.ndindex(shape[:3]):
        own = visible[b, h, i]
        if own.any():
            weights[b, h, i, own] = row_weights(
                mixer, queries[b, i, h], keys[b, own, h], bias[b, h, i, own], h
            )
    context = np.einsum("bhts,bshv->bthv", weights, values)
    kernel, last = (numpy(w) for w in mixer.attention_output.weights)
    return np.einsum("bthv,hvd->btd", context, kernel) + last, weights


triangle = np.tril(np.ones((T, T), bool))
some = np.random.default_rng(2).random((3, H, T, T)) < 0.4
real = padding(T, 4, 0, size=T)
CASES = {
    "plain": ({}, np.ones((T, T), bool)),
    "causal": ({"use_causal_mask": True}, triangle),
    "padding": ({"value_mask": real}, real[:, None, None]),
    "both": (
        {"value_mask": real, "use_causal_mask": True},
        real[:, None, None] & triangle,
    ),
    "pairs": ({"attention_mask": some}, some),
    "all": (
        {"attention_mask": some, "key_mask": real, "use_causal_mask": True},
        some & real[:, None, None] & triangle,
    ),
}


@each_mixer
@pytest.mark.parametrize("case", CASES)
def test_it_is_the_formula(name, case):
    mixer, x = made(name, value_dim=3), normal(3, T, D)
    arguments, visible = CASES[case]
    bias = normal(1, H, T, T, seed=3)
    for added in ({}, {"attention_bias": bias}):
        truth = expected(mixer, x, x, visible, added.get("attention_bias"))
        output = mixer(x, **arguments, **added)
        both = mixer(x, **arguments, **added, return_attention_scores=True)
        np.testing.assert_allclose(numpy(output), truth[0], atol=1e-5)
        for found, wanted in zip(both, truth, strict=True):
            np.testing.assert_allclose(numpy(found), wanted, atol=1e-5)


@each_mixer
def test_it_attends_to_another_sequence(name):
    mixer, x, source = made(name), normal(3, 5, D), normal(3, N, D, seed=1)
    own = padding(N, 4, 0, size=N)
    truth, _ = expected(mixer, x, source, own[:, None, None])
    found = numpy(mixer(x, source, value_mask=own))
    np.testing.assert_allclose(found, truth, atol=1e-5)
    memory = mixer.remember(source)
    found, _ = mixer.call_with_cache(x[:, 2:3], memory, value_mask=own)
    np.testing.assert_allclose(numpy(found), truth[:, 2:3], atol=1e-5)


@slow_but_on("torch")
@each_mixer
def test_cached_is_uncached(name):
    """A ReLU's weights are divided by what is there, not by the room."""
    mixer, x = made(name), normal(3, T, D)
    bias = normal(1, H, T, N, seed=3)
    for own in (None, padding(T, 4, 0, size=T), ~padding(0, 2, 5, size=T)):
        truth = mixer(
            x,
            value_mask=own,
            use_causal_mask=True,
            attention_bias=bias[..., :T],
        )
        cache, outputs = mixer.make_cache(3, N), []
        for start, end in ((0, 3), (3, 4), (4, T)):
            whole = np.zeros((3, N), bool)
            whole[:, :T] = True if own is None else own
            output, cache = mixer.call_with_cache(
                x[:, start:end],
                cache,
                start,
                value_mask=whole,
                attention_bias=bias[:, :, start:end],
            )
            outputs.append(numpy(output))
        found = np.concatenate(outputs, axis=1)
        np.testing.assert_allclose(found, numpy(truth), atol=1e-5)


@slow_but_on("torch")
@each_mixer
@pytest.mark.parametrize("poison", [1e9, np.inf, np.nan])
@pytest.mark.parametrize("causal", [False, True])
def test_padding_has_no_influence(name, poison, causal):
    mixer, mask = made(name), padding(T, 4, 1, size=T)
    x = normal(3, T, D)
    clean = numpy(mixer(x, mask=mask, use_causal_mask=causal))[mask]
    dirty = np.where(mask[..., None], x, np.float32(poison))
    more = np.pad(dirty, [[0, 0], [0, 5], [0, 0]], constant_values=poison)
    for y in (dirty, more):
        own = padding(T, 4, 1, size=y.shape[1])
        found = numpy(mixer(y, mask=own, use_causal_mask=causal))
        np.testing.assert_allclose(found[own], clean, atol=1e-5)

    def loss(x):
        own = ops.convert_to_tensor(mask)
        y = mixer(x, mask=own, use_causal_mask=causal)
        return ops.sum(ops.square(y))

    assert np.isfinite(gradients(loss, dirty)[0]).all()


@slow_but_on("torch")
@each_mixer
def test_causal_forms_do_not_see_the_future(name):
    mixer, x = made(name), normal(1, T, D)
    before = numpy(mixer(x, use_causal_mask=True))
    for i in range(T - 1):
        changed = x.copy()
        changed[:, i + 1 :] *= 1e3
        after = numpy(mixer(changed, use_causal_mask=True))
        np.testing.assert_allclose(
            after[:, : i + 1], before[:, : i + 1], atol=1e-6
        )


@each_mixer
@each_way_to_compile
def test_it_trains_compiled_with_lengths_yet_unknown(name, jit, tmp_path):
    inputs = keras.Input((None, D))
    mixer = mixers.get(name, H, K, dropout=0.1, seed=1)
    model = keras.Model(inputs, mixer(inputs, use_causal_mask=True))
    jit = jit and keras.backend.backend() != "torch"
    model.compile("sgd", "mse", jit_compile=jit)
    build_optimizer(model)
    before = [numpy(w).copy() for w in mixer.trainable_weights]
    x = normal(4, T, D)
    model.fit(x, x, epochs=2, batch_size=2, verbose=0)
    changed = [
        np.abs(numpy(a) - b).max() > 0
        for a, b in zip(mixer.trainable_weights, before, strict=True)
    ]
    assert all(changed)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    y = normal(2, N, D)
    np.testing.assert_allclose(
        loaded.predict(y, verbose=0), model.predict(y, verbose=0), atol=1e-6
    )


@slow_but_on("torch")
@each_mixer
@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_half_precision_is_finite_and_close(name, policy):
    exact, half = made(name), made(name, dtype=policy)
    x = normal(3, T, D)
    truth, found = (numpy(m(x, use_causal_mask=True)) for m in (exact, half))
    np.testing.assert_allclose(found, truth, atol=0.1)
    assert np.isfinite(numpy(half(5 * x))).all()


@slow_but_on("torch")
@each_mixer
def test_generating_with_caches_is_generating_without(name):
    model = language_model([name, "R + V"])
    model.compile(sampler="greedy")
    prompts = ["a quick", "the lazy dog and then", "fox"]
    features = model.preprocessor.generate_preprocess(prompts, 12)
    written = model.generate_step(
        {k: ops.convert_to_tensor(v) for k, v in features.items()}
    )
    np.testing.assert_array_equal(
        numpy(written["token_ids"]), greedy(model, prompts, 12)
    )


@slow_but_on("torch")
@each_mixer
def test_a_decoder_takes_it_twice(name):
    block = SynthesizerDecoder(
        16, H, synthesizer=name, cross_synthesizer=name, dropout=0.1
    )
    x, source = normal(3, T, D), normal(3, 5, D, seed=1)
    _, own, cross = block(x, source, return_attention_scores=True)
    assert own.shape == (3, H, T, T)
    assert cross.shape == (3, H, T, 5)
    assert not numpy(own)[:, :, ~triangle].any()


@each_mixer
def test_bad_options_are_refused(name):
    for options in ({"key_dim": 0}, {"num_heads": 0}, {"dropout": 1}):
        with pytest.raises(ValueError, match="Received"):
            mixers.get(name, **{"num_heads": H, "key_dim": K, **options})
    with pytest.raises(ValueError, match=r"no option `features`.*Received"):
        mixers.get(name, H, K, features=3)


# --- additive -----------------------------------------------------------------


def test_one_head_without_projections_is_keras_own():
    layer = keras.layers.AdditiveAttention()
    query, value, key = (
        normal(3, n, K, seed=i) for i, n in enumerate((5, T, T))
    )
    layer.build([query.shape, value.shape, key.shape])
    scale = normal(K, seed=4)
    layer.scale.assign(scale)
    _, truth = layer([query, value, key], return_attention_scores=True)
    logits = pair_logits(query[:, :, None], key[:, :, None], scale[None])
    found = ops.softmax(logits, axis=-1)[:, 0]
    np.testing.assert_allclose(numpy(found), numpy(truth), atol=1e-5)


def plain_logits(q, k, w):
    q, k, w = map(ops.convert_to_tensor, (q, k, w))
    hidden = ops.tanh(q[:, :, None] + k[:, None])  # (B, T, S, H, k)
    return ops.transpose(ops.sum(hidden * w, axis=-1), (0, 3, 1, 2))


@pytest.mark.parametrize("of", [gradients, compiled_gradients])
def test_gradients_of_pairs(of):
    arrays = normal(2, 3, H, K), normal(2, 5, H, K), normal(H, K)
    weigh = normal(2, H, 3, 5, seed=5)

    def loss(function):
        return lambda *x: ops.sum(
            ops.sin(function(*x)) * ops.convert_to_tensor(weigh)
        )

    np.testing.assert_allclose(
        numpy(pair_logits(*arrays)), numpy(plain_logits(*arrays)), atol=1e-5
    )
    found = of(loss(pair_logits), *arrays)
    truth = gradients(loss(plain_logits), *arrays)
    for one, other in zip(found, truth, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


@slow_but_on("torch")
def test_second_derivatives_of_pairs():
    arrays = normal(2, 3, H, K), normal(2, 5, H, K), normal(H, K)
    directions = [normal(*x.shape, seed=i) for i, x in enumerate(arrays)]
    found, truth = (
        second_derivatives(
            lambda *x, f=f: ops.sum(ops.sin(f(*x))), arrays, directions
        )
        for f in (pair_logits, plain_logits)
    )
    for one, other in zip(found, truth, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)


# --- ReLU ---------------------------------------------------------------------


def test_rows_without_positive_logits_have_no_weight():
    mixer, x = made("relu"), normal(3, T, D)
    output, weights = mixer(
        x,
        attention_bias=np.full((1, 1, T, T), -1e6, "float32"),
        return_attention_scores=True,
    )
    assert not numpy(weights).any()
    bias = numpy(mixer.attention_output.bias)
    np.testing.assert_allclose(numpy(output), np.tile(bias, (3, T, 1)))

"""Weights that are products of features: Linear Transformer and Performer."""

import itertools

import keras
import numpy as np
import pytest
from arrays import normal, padding
from backend import (
    beside,
    build_optimizer,
    each_way_to_compile,
    gradients,
    numpy,
    program,
    slow_but_on,
)
from keras import ops
from language_models import greedy, language_model
from translators import greedy as writing
from translators import seq2seq, tensors

from keras_synth import mixers
from keras_synth.layers import SynthesizerDecoder
from keras_synth.masks import AttentionMask
from keras_synth.mixers import kernel_sums, performer

H, K, D, N, T = 2, 4, 8, 9, 7

MIXERS = {
    "linear": lambda **options: mixers.LinearAttention(H, K, **options),
    "performer": lambda **options: mixers.PerformerAttention(
        H, K, features=6, **options
    ),
}
each_mixer = pytest.mark.parametrize("name", MIXERS)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Several chunks, the last one not full, in 7 tokens."""
    monkeypatch.setattr(kernel_sums, "CHUNK", 3)


def made(name, **options):
    """A mixer whose biases are not zero."""
    mixer = MIXERS[name](**options)
    mixer.build((None, None, D))
    for i, weight in enumerate(mixer.trainable_weights):
        weight.assign(0.5 * normal(*weight.shape, seed=i))
    return mixer


def dense(layer, x):
    kernel, bias = (numpy(w).astype("float64") for w in layer.weights)
    return np.tensordot(x, kernel, kernel.ndim - bias.ndim) + bias


def similarity(mixer, query, key):
    """The weight of a key before normalisation, `phi(q) . phi(k)`."""
    if isinstance(mixer, mixers.LinearAttention):
        query, key = (
            np.array([x + 1 if x > 0 else np.exp(x) for x in y])
            for y in (query, key)
        )
        return query @ key
    query, key = query / K**0.25, key / K**0.25
    total = 0.0
    for w in numpy(mixer.projection).astype("float64"):
        total += np.exp(w @ query - query @ query / 2) * np.exp(
            w @ key - key @ key / 2
        )
    return total


def expected(mixer, x, source=None, real=None, causal=False):
    """The quadratic form, weight by weight; a Performer's without its 1e-6."""
    source = x if source is None else source
    real = np.ones(source.shape[:2], bool) if real is None else real
    queries, keys, values = (
        dense(layer, np.where(y == y, y, 0).astype("float64"))
        for layer, y in (
            (mixer.query, x),
            (mixer.key, source),
            (mixer.value, source),
        )
    )
    context = np.zeros((*queries.shape[:3], values.shape[-1]))
    for b, i, h in np.ndindex(queries.shape[:3]):
        total = 0.0
        for j in range(source.shape[1]):
            if real[b, j] and (j <= i or not causal):
                weight = similarity(mixer, queries[b, i, h], keys[b, j, h])
                total += weight
                context[b, i, h] += weight * values[b, j, h]
        if total:
            context[b, i, h] /= total
    kernel, bias = (numpy(w) for w in mixer.attention_output.weights)
    return np.einsum("bthv,hvd->btd", context, kernel) + bias


@each_mixer
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("real", [None, padding(T, 4, 0, size=T)])
def test_it_is_the_quadratic_form(name, causal, real):
    mixer, x = made(name, value_dim=3), normal(3, T, D)

    def calls(x):
        # And with tokens that no longer fill a chunk.
        return [
            mixer(x, value_mask=real, use_causal_mask=causal),
            mixer(x[:, :2], use_causal_mask=causal),
        ]

    found, of_two = map(numpy, program(calls)(x))
    np.testing.assert_allclose(
        found, expected(mixer, x, real=real, causal=causal), atol=1e-3
    )
    np.testing.assert_allclose(
        of_two, expected(mixer, x[:, :2], causal=causal), atol=1e-3
    )


@each_mixer
def test_it_attends_to_another_sequence_with_and_without_a_cache(name):
    mixer, x, source = made(name), normal(3, 5, D), normal(3, N, D, seed=1)
    real = padding(N, 4, 0, size=N)
    truth = expected(mixer, x, source, real)
    found = numpy(mixer(x, source, value_mask=real))
    np.testing.assert_allclose(found, truth, atol=1e-3)
    memory = mixer.remember(source)
    found, again = mixer.call_with_cache(x[:, 2:3], memory, value_mask=real)
    np.testing.assert_allclose(numpy(found), truth[:, 2:3], atol=1e-3)
    assert again is memory


def decoded(mixer, x, real, parts):
    step = program(mixer.call_with_cache)
    cache, outputs = mixer.make_cache(len(x), N), []
    for start, end in parts:
        output, cache = step(
            x[:, start:end],
            cache,
            start,
            value_mask=None if real is None else real[:, start:end],
        )
        outputs.append(numpy(output))
    return np.concatenate(outputs, axis=1), cache


@slow_but_on("torch")
@each_mixer
@pytest.mark.parametrize(
    "real", [None, padding(T, 4, 0, size=T), ~padding(0, 2, 5, size=T)]
)
def test_recurrent_is_causal(name, real):
    mixer, x = made(name), normal(3, T, D)
    truth = numpy(mixer(x, value_mask=real, use_causal_mask=True))
    one_by_one = [(i, i + 1) for i in range(T)]
    for parts in (one_by_one, [(0, 4), (4, 5), (5, T)]):
        found, cache = decoded(mixer, x, real, parts)
        np.testing.assert_allclose(found, truth, atol=1e-4)
    # The last state has all that the form that is not causal sums up.
    assert cache["sums"].shape == (3, H, mixer.num_features, K)
    assert cache["counts"].shape == (3, H, mixer.num_features)
    cache = mixer.make_cache(3, N)
    _, cache = mixer.call_with_cache(x[:, :3], cache, 0, real)
    found, _ = mixer.call_with_cache(
        x[:, 3:], cache, 3, None if real is None else real[:, 3:],
        use_causal_mask=False,
    )  # fmt: skip
    if real is None:
        whole = numpy(mixer(x))[:, 3:]
        np.testing.assert_allclose(numpy(found), whole, atol=1e-4)


@each_mixer
def test_masks_for_all_that_a_cache_has_room_for(name):
    mixer, x = made(name), normal(3, T, D)
    real = padding(T, 4, 2, size=T)
    whole = np.concatenate([real, np.zeros((3, N - T), bool)], axis=1)
    cache = mixer.make_cache(3, N)
    first, cache = mixer.call_with_cache(x[:, :3], cache, 0, whole)
    second, cache = mixer.call_with_cache(x[:, 3:], cache, 3, whole)
    found = np.concatenate([numpy(first), numpy(second)], axis=1)
    truth = numpy(mixer(x, value_mask=real, use_causal_mask=True))
    np.testing.assert_allclose(found, truth, atol=1e-4)


@each_mixer
def test_foreign_caches_and_masks_are_refused(name):
    mixer, x = made(name), normal(3, T, D)
    others = mixers.LinearAttention(H, K + 1), mixers.get("V", H, K)
    for other in others:
        other.build((None, T, D))
        with pytest.raises(ValueError, match=r"make_cache.*Received"):
            mixer.call_with_cache(x, other.make_cache(3, N), 0)
    cache = mixer.make_cache(3, N)
    for wanted in ("attention_mask", "attention_bias"):
        wanted = {wanted: np.zeros((3, T, T), "float32")}
        with pytest.raises(ValueError, match=r"cannot honour.*Received"):
            mixer.call_with_cache(x, cache, 0, **wanted)
        with pytest.raises(ValueError, match=r"cannot honour.*Received"):
            mixer(x, **wanted)
    with pytest.raises(ValueError, match=r"cannot honour.*Received"):
        mixer(x, return_attention_scores=True)


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
        real = padding(T, 4, 1, size=y.shape[1])
        found = numpy(mixer(y, mask=real, use_causal_mask=causal))
        np.testing.assert_allclose(found[real], clean, atol=1e-5)

    def loss(x):
        real = ops.convert_to_tensor(mask)
        y = mixer(x, mask=real, use_causal_mask=causal)
        return ops.sum(ops.square(y))

    slopes = gradients(loss, dirty)[0]
    assert np.isfinite(slopes).all()
    np.testing.assert_allclose(slopes, gradients(loss, x)[0], atol=1e-4)


@slow_but_on("torch")
@each_mixer
def test_causal_forms_do_not_see_the_future(name):
    mixer, x = made(name), normal(1, T, D)
    before = numpy(mixer(x, use_causal_mask=True))
    for i in range(T - 1):
        changed = x.copy()
        changed[:, i + 1 :] *= 1e3  # keys of a norm beyond all others
        after = numpy(mixer(changed, use_causal_mask=True))
        np.testing.assert_array_equal(after[:, : i + 1], before[:, : i + 1])


@slow_but_on("torch")
@each_mixer
def test_gradients_of_chunks_are_those_of_one(name, monkeypatch):
    mixer, x = made(name), normal(2, T, D)

    def loss(x):
        return ops.sum(ops.sin(mixer(x, use_causal_mask=True)))

    found = gradients(loss, x)[0]
    monkeypatch.setattr(kernel_sums, "CHUNK", 100)
    np.testing.assert_allclose(found, gradients(loss, x)[0], atol=1e-4)
    assert np.abs(found).min() > 0


@slow_but_on("torch")
@each_mixer
@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("causal", [False, True])
def test_half_precision_is_finite_and_close(name, policy, causal):
    exact, x = made(name), normal(3, T, D)
    half = made(name, dtype=policy)
    half.set_weights(exact.get_weights())
    truth, found = (
        numpy(mixer(x, use_causal_mask=causal)) for mixer in (exact, half)
    )
    np.testing.assert_allclose(found, truth, atol=0.2)
    assert np.isfinite(numpy(half(50 * x, use_causal_mask=causal))).all()


@slow_but_on("torch")
@each_mixer
def test_dropout_leaves_out_tokens_in_training_alone(name):
    mixer = made(name, dropout=0.5, seed=1)
    x = normal(3, T, D)
    plain, again = numpy(mixer(x)), numpy(mixer(x))
    np.testing.assert_array_equal(plain, again)
    many = [numpy(mixer(x, training=True)) for _ in range(400)]
    assert np.abs(many[0] - plain).max() > 1e-2
    np.testing.assert_allclose(np.mean(many, axis=0), plain, atol=0.3)


@each_mixer
@each_way_to_compile
def test_it_trains_compiled_with_lengths_yet_unknown(name, jit, tmp_path):
    options = {"redraw_interval": 2} if name == "performer" else {}
    mixer = MIXERS[name](seed=1, dropout=0.1, **options)
    inputs = keras.Input((None, D))
    model = keras.Model(inputs, mixer(inputs, use_causal_mask=True))
    jit = jit and keras.backend.backend() != "torch"
    model.compile("adam", "mse", jit_compile=jit)
    build_optimizer(model)
    before = [w.copy() for w in mixer.get_weights()]
    x = normal(4, T, D)
    model.fit(x, x, epochs=3, batch_size=2, verbose=0)
    after = mixer.get_weights()
    changed = [
        np.abs(a - b).max() > 0 for a, b in zip(before, after, strict=True)
    ]
    assert all(changed)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    y = normal(2, N, D)
    np.testing.assert_allclose(
        loaded.predict(y, verbose=0), model.predict(y, verbose=0), atol=1e-6
    )
    found = numpy(model(y))
    np.testing.assert_allclose(loaded.predict(y, verbose=0), found, atol=1e-4)


@slow_but_on("torch")
@each_mixer
def test_a_decoder_caches_a_state(name):
    block = SynthesizerDecoder(
        16, H, synthesizer=name, cross_synthesizer=name, max_length=N
    )
    x, source = normal(3, T, D), normal(3, 5, D, seed=1)
    real = padding(5, 3, 1, size=5)
    truth = numpy(block(x, source, encoder_padding_mask=real))
    caches, outputs = block.make_caches(3, N, 5), []
    for start, end in ((0, 3), (3, 4), (4, T)):
        output, *caches = block(
            x[:, start:end],
            source,
            encoder_padding_mask=real,
            self_attention_cache=caches[0],
            self_attention_cache_update_index=start,
            cross_attention_cache=caches[1],
            cross_attention_cache_update_index=0,
        )
        outputs.append(numpy(output))
    found = np.concatenate(outputs, axis=1)
    np.testing.assert_allclose(found, truth, atol=1e-4)


@slow_but_on("torch")
@each_mixer
def test_generating_with_states_is_generating_without(name):
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
@pytest.mark.parametrize("cross", ["performer", "linformer(rank=3)"])
def test_writing_with_states_is_writing_without(cross):
    """Also with a cross-attention whose memory is of another form."""
    model = seq2seq("linear", cross_synthesizer=cross)
    model.compile(sampler="greedy")
    sources = ["a quick brown fox", "the lazy", "dog and then it"]
    prompts = ["fox", "the lazy dog", "a"]
    features = model.preprocessor.generate_preprocess(
        {"encoder_text": sources, "decoder_text": prompts}
    )
    features = tensors(features)
    written = model.generate_step(features)
    np.testing.assert_array_equal(
        numpy(written["decoder_token_ids"]), writing(model, features)
    )


# --- Performer ----------------------------------------------------------------


@slow_but_on("torch")
def test_on_constant_keys_a_performer_averages():
    """Causal weights of equal keys are 1, 1/2, 1/3, ... of all before."""
    mixer = made("performer")
    x = np.tile(normal(1, 1, D), (1, T, 1))
    queries, keys = mixer.query(x), mixer.key(x)
    values = np.tile(np.eye(T, dtype="float32")[None, :, None], (1, 1, H, 1))
    mixer.value_dim = T
    mask = AttentionMask(causal=True)
    found = numpy(mixer.attend(queries, keys, values, mask))
    rows = np.arange(T)
    means = (rows <= rows[:, None]) / (rows[:, None] + 1)
    for head in range(H):
        np.testing.assert_allclose(found[0, :, head], means, atol=1e-5)


@slow_but_on("torch")
def test_more_features_estimate_the_softmax_better():
    """The error falls with the square root of their number."""
    q, k, v = (0.35 * normal(1, T, H, K, seed=i) for i in range(3))
    weights = np.exp(np.einsum("bthk,bshk->bhts", q, k) / K**0.5)
    weights /= weights.sum(-1, keepdims=True)
    truth = np.einsum("bhts,bshv->bthv", weights, v)
    errors = []
    for features in (16, 64, 256):
        squares = []
        for seed in range(30):
            mixer = mixers.PerformerAttention(
                H, K, features=features, seed=seed
            )
            mixer.build((None, T, D))
            mask = AttentionMask()
            found = numpy(mixer.attend(q, k, v, mask))
            squares.append(np.mean((found - truth) ** 2))
        errors.append(np.mean(squares) ** 0.5)
    assert errors[2] < 0.05
    ratios = np.array(errors[:-1]) / errors[1:]
    assert (ratios > 1.5).all()
    assert (ratios < 2.7).all()


@slow_but_on("torch")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("causal", [False, True])
def test_keys_of_large_norm_are_finite(dtype, causal):
    mixer = mixers.PerformerAttention(H, K, features=16, seed=1)
    mixer.build((None, T, D))
    q, k, v = (normal(2, T, H, K, seed=i) for i in range(3))
    k *= 30 / np.linalg.norm(k, axis=-1, keepdims=True)
    q *= 30 / np.linalg.norm(q, axis=-1, keepdims=True)
    k[:, 3] *= 10

    def loss(q, k, v):
        mask = AttentionMask(causal=causal)
        q, k, v = (ops.cast(x, dtype) for x in (q, k, v))
        found = mixer.attend(q, k, v, mask)
        return ops.sum(ops.square(found)) + 0.0 * ops.sum(found)

    mask = AttentionMask(causal=causal)
    found = numpy(mixer.attend(*map(ops.convert_to_tensor, (q, k, v)), mask))
    # Weights of values: within their range.
    assert (found <= v.max(1, keepdims=True) + 1e-4).all()
    assert (found >= v.min(1, keepdims=True) - 1e-4).all()
    assert np.abs(found).min() > 0
    if causal:
        np.testing.assert_allclose(found[:, 0], v[:, 0], atol=1e-5)
    # Padding, whose logarithms are 0, must not be what others are scaled by.
    real = padding(5, 5, size=T)
    short = mixer.attend(*(x[:, :5] for x in (q, k, v)), mask)
    padded = (np.where(real[..., None, None], x, 0) for x in (k, v))
    found = mixer.attend(
        q, *padded, mask._replace(keys=ops.convert_to_tensor(real))
    )
    np.testing.assert_allclose(numpy(found)[:, :5], numpy(short), atol=1e-4)
    for slope in gradients(loss, q, k, v):
        assert np.isfinite(slope).all()


def test_directions_are_orthogonal_with_the_norms_of_normal_vectors():
    noise = normal(2, 500, 8, 8)
    found = numpy(performer.directions(ops.convert_to_tensor(noise), 3999))
    assert found.shape == (3999, 8)
    block = found[8:16]
    products = block @ block.T
    np.testing.assert_allclose(products, np.diag(np.diag(products)), atol=1e-4)
    squares = np.sum(found**2, axis=1)
    assert abs(squares.mean() - 8) < 0.3  # chi-squared: 8, and 16
    assert abs(squares.var() - 16) < 2.5
    np.testing.assert_allclose(found.mean(0), 0, atol=0.1)
    np.testing.assert_allclose(found.T @ found / 3999, np.eye(8), atol=0.1)


def test_directions_are_drawn_anew_after_an_interval():
    mixer, x = made("performer", redraw_interval=3, seed=1), normal(1, T, D)
    mixer(x)
    seen = [numpy(mixer.projection).copy()]
    for _ in range(7):
        mixer(x, training=True)
        seen.append(numpy(mixer.projection).copy())
    same = [np.array_equal(a, b) for a, b in itertools.pairwise(seen)]
    assert same == [True, True, True, False, True, True, False]
    again = made("performer", redraw_interval=3, seed=1)
    for _ in range(7):
        again(x, training=True)
    np.testing.assert_array_equal(numpy(again.projection), seen[-1])
    # A frozen layer keeps them, and so does one without an interval.
    mixer.trainable = False
    for _ in range(4):
        mixer(x, training=True)
    np.testing.assert_array_equal(numpy(mixer.projection), seen[-1])
    fixed = made("performer", redraw_interval=None)
    assert [w.name for w in fixed.non_trainable_weights] == ["projection"]


def test_two_calls_before_one_backward_pass():
    """As of a layer that is used twice: no weight of the graph is replaced."""
    mixer, x = made("performer", redraw_interval=1), normal(1, T, D)

    def loss(x):
        return ops.sum(mixer(mixer(x, training=True), training=True))

    assert np.isfinite(gradients(loss, x)[0]).all()


@pytest.mark.parametrize(
    "options",
    [{"features": 0}, {"features": 2.5}, {"redraw_interval": 0}],
)
def test_bad_options_are_refused(options):
    with pytest.raises(ValueError, match="Received"):
        mixers.get("performer", H, K, **options)


def test_features_by_default():
    assert mixers.get("performer", H, 64).num_features == 266
    assert mixers.get("performer", H, 1).num_features == 1
    assert mixers.get("performer(features=9)", H, K).num_features == 9


@beside("performer_pytorch")
def test_it_is_performer_pytorch_s():
    from performer_pytorch import performer_pytorch as package

    mixer = made("performer")
    q, k, v = (
        ops.convert_to_tensor(normal(2, T, H, K, seed=i)) for i in range(3)
    )
    first = lambda x: ops.transpose(x, (0, 2, 1, 3))  # noqa: E731
    projection = mixer.projection.value
    features = [
        package.softmax_kernel(
            first(x), projection_matrix=projection, is_query=own, eps=0
        )
        for x, own in ((q, True), (k, False))
    ]
    truth = first(package.linear_attention(*features, first(v)))
    mask = AttentionMask()
    found = mixer.attend(q, k, v, mask)
    np.testing.assert_allclose(numpy(found), numpy(truth), atol=1e-4)

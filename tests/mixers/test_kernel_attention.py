"""Weights that are products of features: Linear Transformer and Performer."""

import itertools

import numpy as np
import oracles
import pytest
from arrays import normal, padding
from assertions import close, equal
from backend import gradients, numpy, program
from cached import decoded
from cases import randomized
from keras import ops

from keras_synth import formulas, mixers
from keras_synth.masks import AttentionMask

H, K, D, N, T = 2, 4, 8, 300, 7

NAMES = ["linear", "performer(features=6)"]
each_name = pytest.mark.parametrize("name", NAMES)
each_form = pytest.mark.parametrize("causal", [False, True])


def made(name, **options):
    return randomized(mixers.get(name, H, K, N, seed=0, **options))


# --- states -------------------------------------------------------------------


LENGTH = 140  # longer than a chunk of 128 tokens
RIGHT = padding(LENGTH, 70, size=LENGTH)
ENDS = {
    "two chunks": (90, LENGTH),
    "unequal chunks": (1, 130, 131, LENGTH),
    "tokens": range(1, LENGTH + 1),
}


def streamed(mixer, x, ends, mask):
    """The outputs of successive parts as one array, and the last state."""

    def masks(start, end):
        return {"value_mask": mask[:, start:end]}

    return decoded(mixer, x, ends, 1, masks)


@pytest.mark.parametrize(
    "name, ends",
    [
        pytest.param("linear", "unequal chunks", marks=pytest.mark.each_backend)
        if case == ("linear", "unequal chunks")
        else case
        for case in itertools.product(NAMES, ENDS)
    ],
)
def test_chunks_are_a_causal_call_of_samples_without_padding(name, ends):
    mixer, x = made(name), normal(2, LENGTH, D)
    call = program(lambda x, **masks: mixer(x, use_causal_mask=True, **masks))
    for mask in (RIGHT, RIGHT[:, ::-1]):
        padded = np.where(mask[..., None], x, np.float32(np.nan))
        whole = numpy(call(padded, mask=mask))
        found, _ = streamed(mixer, padded, ENDS[ends], mask)
        for i, real in enumerate(mask):
            alone = call(x[i : i + 1, real])
            for outputs in (whole, found):
                close(outputs[i, real], numpy(alone)[0])


@pytest.mark.parametrize(
    "name, policy",
    [
        ("linear", "mixed_float16"),
        pytest.param(
            "linear", "mixed_bfloat16", marks=pytest.mark.each_backend
        ),
        ("performer(features=6)", "mixed_bfloat16"),
    ],
)
def test_half_precision_is_close_at_4096_tokens(name, policy):
    """Sums of many tokens do not forget the next ones."""
    mixer, half = made(name), made(name, dtype=policy)
    x, real = normal(2, 4096, D), np.ones((2, 4096), bool)
    expected = numpy(mixer(x, use_causal_mask=True))
    found = numpy(half(x, use_causal_mask=True))
    share = 0.002 if policy == "mixed_float16" else 0.02
    assert np.abs(found - expected).max() < share * np.abs(expected).max()
    parts, state = streamed(half, x, range(512, 4097, 512), real)
    close(parts, found, atol=share)
    _, whole = streamed(half, x, (4096,), real)
    close(state, whole, atol=1e-3, rtol=1e-4)


@pytest.mark.each_backend
@each_form
def test_gradients_of_linear_attention_are_those_of_all_pairs(causal):
    mixer = made("linear")
    arrays = [normal(1, LENGTH, H, K, seed=seed) for seed in range(3)]
    direction = ops.convert_to_tensor(normal(1, LENGTH, H, K, seed=3))
    allowed = np.tri(LENGTH, dtype=bool) if causal else np.array(True)

    def by_sums(q, k, v):
        found = mixer.attend(q, k, v, AttentionMask(causal=causal))
        return ops.sum(found * direction)

    def by_pairs(q, k, v):
        allow = ops.convert_to_tensor(allowed)
        return ops.sum(formulas.linear(q, k, v, allow) * direction)

    expected = gradients(by_pairs, *arrays)
    close(gradients(by_sums, *arrays), expected, atol=1e-4)


# --- Performer ----------------------------------------------------------------


@each_form
def test_products_of_large_keys_do_not_vanish(causal):
    mixer = mixers.get("performer(features=16, seed=1)", H, K)
    mixer.build((None, T, D))
    q, k, v = (normal(2, T, H, K, seed=i) for i in range(3))
    k *= 30 / np.linalg.norm(k, axis=-1, keepdims=True)
    q *= 30 / np.linalg.norm(q, axis=-1, keepdims=True)
    k[:, 3] *= 10
    mask = AttentionMask(causal=causal)
    found = numpy(mixer.attend(*map(ops.convert_to_tensor, (q, k, v)), mask))
    # Weights of values: within their range.
    assert (found <= v.max(1, keepdims=True) + 1e-4).all()
    assert (found >= v.min(1, keepdims=True) - 1e-4).all()
    assert np.abs(found).min() > 0
    # Padding, whose logarithms are 0, must not scale other tokens.
    real = padding(5, 5, size=T)
    short = mixer.attend(*(x[:, :5] for x in (q, k, v)), mask)
    padded = (np.where(real[..., None, None], x, 0) for x in (k, v))
    found = mixer.attend(
        q, *padded, mask._replace(keys=ops.convert_to_tensor(real))
    )
    close(numpy(found)[:, :5], short, atol=1e-4)


@pytest.mark.each_backend
@pytest.mark.parametrize("apart", [0.0, 6.0])
@each_form
def test_gradients_are_those_of_the_formula(apart, causal):
    """Of queries and keys far apart all products are near the floor."""
    mixer = mixers.get("performer(features=5, seed=1)", 1, 1)
    mixer.build((None, 4, 3))
    w = {"projection": numpy(mixer.projection).astype("float64")}
    arrays = [
        middle + normal(1, 4, 1, 1, seed=seed)
        for seed, middle in enumerate((apart, -apart, 0.0))
    ]
    direction = normal(1, 4, 1, 1, seed=7)

    def loss(q, k, v):
        found = mixer.attend(q, k, v, AttentionMask(causal=causal))
        return ops.sum(found * ops.convert_to_tensor(direction))

    def formula(q, k, v):
        total = 0.0
        for i in range(4):
            seen = slice(i + 1 if causal else 4)
            weights = oracles.performer(w, q[i], k[seen], 0)
            total += weights @ v[seen, 0] * direction[0, i, 0, 0]
        return total

    for number, found in enumerate(gradients(loss, *arrays)):
        for i in range(4):
            sums = []
            for step in (1e-5, -1e-5):
                near = [x[0, :, 0].astype("float64") for x in arrays]
                near[number][i] += step
                sums.append(formula(*near))
            expected = (sums[0] - sums[1]) / 2e-5
            away = abs(found[0, i, 0, 0] - expected)
            assert away < 1e-4 * max(1, abs(expected))


def test_directions_are_orthogonal_with_the_norms_of_normal_vectors():
    mixer = mixers.get("performer(features=3999, seed=1)", 1, 8)
    mixer.build((None, None, D))
    found = numpy(mixer.projection)
    assert found.shape == (3999, 8)
    block = found[8:16]
    products = block @ block.T
    close(products, np.diag(np.diag(products)), atol=1e-4)
    squares = np.sum(found**2, axis=1)
    assert abs(squares.mean() - 8) < 0.3  # chi-squared: 8, and 16
    assert abs(squares.var() - 16) < 2.5
    close(found.mean(0), 0, atol=0.1)
    close(found.T @ found / 3999, np.eye(8), atol=0.1)


def test_directions_are_drawn_anew_after_an_interval():
    name, x = "performer(features=6, redraw_interval=3)", normal(1, T, D)
    mixer, again = made(name), made(name)
    seen = [numpy(mixer.projection).copy()]
    for _ in range(7):
        mixer(x, training=True)
        again(x, training=True)
        seen.append(numpy(mixer.projection).copy())
    same = [np.array_equal(a, b) for a, b in itertools.pairwise(seen)]
    assert same == [True, True, True, False, True, True, False]
    equal(again.projection, seen[-1])
    # A frozen layer keeps them, and so does one without an interval.
    mixer.trainable = False
    for _ in range(4):
        mixer(x, training=True)
    equal(mixer.projection, seen[-1])
    fixed = made("performer", redraw_interval=None)
    assert [w.name for w in fixed.non_trainable_weights] == ["projection"]


def test_two_calls_before_one_backward_pass():
    """As of a layer that is used twice: no weight of the graph is replaced."""
    mixer, x = made("performer(redraw_interval=1)"), normal(1, T, D)

    def loss(x):
        return ops.sum(mixer(mixer(x, training=True), training=True))

    assert np.isfinite(gradients(loss, x)[0]).all()

"""Memory-compressed attention: a loop over windows of keys and values."""

import keras
import numpy as np
import pytest
from arrays import normal, padding
from backend import gradients, numpy, program, slow_but_on
from keras import ops

from keras_synth import mixers
from keras_synth.layers import SynthesizerDecoder

H, K, V, D, N, T = 2, 4, 5, 8, 9, 7

each_window = pytest.mark.parametrize(
    ("stride", "kernel"),
    [
        pytest.param(1, 1, marks=slow_but_on("torch")),
        pytest.param(2, 2, marks=slow_but_on("torch")),
        (2, 5),
        pytest.param(3, 4, marks=slow_but_on("torch")),
        pytest.param(20, 20, marks=slow_but_on("torch")),
    ],
)


def made(stride=2, kernel=3, value_dim=V, **options):
    mixer = mixers.CompressedAttention(
        H, K, stride, kernel, value_dim=value_dim, **options
    )
    mixer.build((None, None, D))
    for i, weight in enumerate(mixer.weights):
        weight.assign(0.5 * normal(*weight.shape, seed=i))
    return mixer


def dense(layer, x):
    kernel, bias = (numpy(w).astype("float64") for w in layer.weights)
    return np.tensordot(x, kernel, kernel.ndim - bias.ndim) + bias


def expected(mixer, x, source, lengths):
    """Head by head, window by window, of real tokens alone."""
    A, B = numpy(mixer.key_kernel), numpy(mixer.value_kernel)
    context = np.zeros((*x.shape[:2], H, V))
    for b, h in np.ndindex(len(x), H):
        keys = dense(mixer.key, source[b])[:, h]
        values = dense(mixer.value, source[b])[:, h]
        k, v = [], []
        for first in range(0, lengths[b], mixer.stride):
            seen = range(first, min(first + mixer.kernel, lengths[b]))
            k.append(sum(keys[j] @ A[j - first, h] for j in seen))
            v.append(sum(values[j] @ B[j - first, h] for j in seen))
        if not k:
            continue
        logits = dense(mixer.query, x[b])[:, h] @ np.transpose(k) / K**0.5
        weights = np.exp(logits - logits.max(-1, keepdims=True))
        context[b, :, h] = weights / weights.sum(-1, keepdims=True) @ v
    kernel, bias = (numpy(w) for w in mixer.attention_output.weights)
    return np.einsum("bthv,hvd->btd", context, kernel) + bias


@each_window
def test_it_is_attention_to_windows(stride, kernel):
    mixer, x = made(stride, kernel), normal(3, T, D)
    run = program(lambda x, real: mixer(x, value_mask=real))
    for lengths in ((T, T, T), (T, 4, 0)):
        real = padding(*lengths, size=T)
        truth = expected(mixer, x, x, lengths)
        found = numpy(run(x, real))
        np.testing.assert_allclose(found, truth, atol=1e-5)
    truth = expected(mixer, x, x, (T, T, T))
    np.testing.assert_allclose(numpy(program(mixer)(x)), truth, atol=1e-5)


def test_windows_of_one_token_are_attention():
    mixer, x = made(1, 1, value_dim=K), normal(2, T, D)
    plain = keras.layers.MultiHeadAttention(H, K)
    plain(x, x)
    for mine, theirs in (
        (mixer.query, plain.query_dense),
        (mixer.key, plain.key_dense),
        (mixer.value, plain.value_dense),
        (mixer.attention_output, plain.output_dense),
    ):
        theirs.set_weights(mine.get_weights())
    mixer.key_kernel.assign(np.tile(np.eye(K), (1, H, 1, 1)))
    mixer.value_kernel.assign(np.tile(np.eye(K), (1, H, 1, 1)))
    np.testing.assert_allclose(
        numpy(program(mixer)(x)), numpy(plain(x, x)), atol=1e-5
    )


@slow_but_on("torch")
def test_it_attends_to_another_sequence():
    mixer, x, source = made(), normal(3, 5, D), normal(3, N, D, seed=1)
    real = padding(N, 4, 0, size=N)
    truth = expected(mixer, x, source, (N, 4, 0))
    found = numpy(mixer(x, source, value_mask=real))
    np.testing.assert_allclose(found, truth, atol=1e-5)
    memory = mixer.remember(source)
    found, _ = mixer.call_with_cache(x[:, 2:3], memory, value_mask=real)
    np.testing.assert_allclose(numpy(found), truth[:, 2:3], atol=1e-5)


@slow_but_on("torch")
def test_more_padding_changes_nothing():
    mixer, x, real = made(), normal(3, T, D), padding(T, 4, 1, size=T)
    found = numpy(mixer(x, mask=real))
    more = np.pad(x, [[0, 0], [0, 4], [0, 0]], constant_values=np.nan)
    longer = padding(T, 4, 1, size=T + 4)
    again = numpy(mixer(more, mask=longer))
    np.testing.assert_allclose(again[longer], found[real], atol=1e-5)

    def loss(y):
        mask = ops.convert_to_tensor(longer)
        return ops.sum(ops.square(mixer(y, mask=mask)))

    assert np.isfinite(gradients(loss, more)[0]).all()


def test_keys_of_windows_vary_as_keys_do_at_first():
    mixer = mixers.CompressedAttention(H, 32, 4, seed=1)
    mixer.build((None, None, D))
    windows = normal(50, 4, 32)
    kernel = numpy(mixer.key_kernel)[:, 0]
    assert abs(np.einsum("mtk,tkl->ml", windows, kernel).std() - 1) < 0.1
    assert np.abs(kernel - numpy(mixer.value_kernel)[:, 0]).max() > 0.01


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"stride": 0}, "positive"),
        ({"kernel": 1.5}, "positive"),
        ({"stride": 4, "kernel": 3}, "at least `stride`"),
    ],
)
def test_bad_options_are_refused(options, words):
    with pytest.raises(ValueError, match=r"Received") as error:
        mixers.get("compressed", H, K, **options)
    assert words in str(error.value)


def test_it_has_no_causal_form():
    with pytest.raises(ValueError, match=r"causal.*Received"):
        made()(normal(2, T, D), use_causal_mask=True)
    with pytest.raises(ValueError, match=r"no causal form.*Received"):
        SynthesizerDecoder(16, H, synthesizer="compressed")

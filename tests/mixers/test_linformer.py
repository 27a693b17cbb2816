"""Linformer: attention to weighted sums of keys and values."""

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

from keras_synth import mixers
from keras_synth.layers import SynthesizerDecoder, SynthesizerEncoder

H, K, D, N, T, RANK = 2, 4, 8, 9, 7, 3

each_share = pytest.mark.parametrize("share", ["none", "heads", "key_value"])


def made(share="heads", **options):
    mixer = mixers.LinformerAttention(H, K, N, RANK, share, **options)
    mixer.build((None, None, D))
    for i, weight in enumerate(mixer.weights):
        weight.assign(0.5 * normal(*weight.shape, seed=i))
    return mixer


def dense(layer, x):
    kernel, bias = (numpy(w).astype("float64") for w in layer.weights)
    return np.tensordot(x, kernel, kernel.ndim - bias.ndim) + bias


def expected(mixer, x, source, lengths):
    """Head by head, of real tokens alone."""
    E = numpy(mixer.E)
    F = E if mixer.F is None else numpy(mixer.F)
    context = np.zeros((*x.shape[:2], H, mixer.value_dim))
    for b, h in np.ndindex(len(x), H):
        n = lengths[b]
        own = h if mixer.share == "none" else 0
        if not n:
            continue
        keys = E[own][:, :n] @ dense(mixer.key, source[b, :n])[:, h]
        values = F[own][:, :n] @ dense(mixer.value, source[b, :n])[:, h]
        logits = dense(mixer.query, x[b])[:, h] @ keys.T / K**0.5
        weights = np.exp(logits - logits.max(-1, keepdims=True))
        context[b, :, h] = weights / weights.sum(-1, keepdims=True) @ values
    kernel, bias = (numpy(w) for w in mixer.attention_output.weights)
    return np.einsum("bthv,hvd->btd", context, kernel) + bias


@each_share
def test_it_is_attention_to_sums(share):
    mixer, x = made(share, value_dim=5), normal(3, T, D)
    sizes = {"none": (H, H), "heads": (1, 1), "key_value": (1,)}
    tables = [w for w in mixer.weights if w.name in ("E", "F")]
    assert [w.shape for w in tables] == [(s, RANK, N) for s in sizes[share]]
    for lengths in ((T, T, T), (T, 4, 0)):
        real = padding(*lengths, size=T)
        found = numpy(mixer(x, value_mask=real))
        truth = expected(mixer, x, x, lengths)
        np.testing.assert_allclose(found, truth, atol=1e-5)
    np.testing.assert_allclose(
        numpy(mixer(x)), expected(mixer, x, x, (T, T, T)), atol=1e-5
    )


def test_it_attends_to_another_sequence():
    mixer, x, source = made(), normal(3, 5, D), normal(3, N, D, seed=1)
    real = padding(N, 4, 0, size=N)
    truth = expected(mixer, x, source, (N, 4, 0))
    found = numpy(mixer(x, source, value_mask=real))
    np.testing.assert_allclose(found, truth, atol=1e-5)
    memory = mixer.remember(source)
    found, _ = mixer.call_with_cache(x[:, 2:3], memory, value_mask=real)
    np.testing.assert_allclose(numpy(found), truth[:, 2:3], atol=1e-5)


def test_it_serves_a_decoder_as_cross_attention():
    block = SynthesizerDecoder(
        16,
        H,
        cross_synthesizer=f"linformer(rank={RANK})",
        synthesizer="V",
        max_length=N,
    )
    x, source = normal(3, T, D), normal(3, 5, D, seed=1)
    real = padding(5, 3, 1, size=5)
    truth = numpy(block(x, source, encoder_padding_mask=real))
    caches, outputs = block.make_caches(3, N, 5), []
    for start, end in ((0, 3), (3, T)):
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
    np.testing.assert_allclose(found, truth, atol=1e-5)


@slow_but_on("torch")
@pytest.mark.parametrize("poison", [1e9, np.inf, np.nan])
def test_padding_has_no_influence(poison):
    mixer, mask = made(), padding(T, 4, 1, size=T)
    x = normal(3, T, D)
    clean = numpy(mixer(x, mask=mask))[mask]
    dirty = np.where(mask[..., None], x, np.float32(poison))
    more = np.pad(dirty, [[0, 0], [0, 2], [0, 0]], constant_values=poison)
    for y in (dirty, more):
        real = padding(T, 4, 1, size=y.shape[1])
        found = numpy(mixer(y, mask=real))
        np.testing.assert_allclose(found[real], clean, atol=1e-5)

    def loss(x):
        real = ops.convert_to_tensor(mask)
        return ops.sum(ops.square(mixer(x, mask=real)))

    assert np.isfinite(gradients(loss, dirty)[0]).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rank": 0}, "positive"),
        ({"rank": N + 1}, "at most `max_length`"),
        ({"max_length": 0}, "positive"),
        ({"share": "layers"}, "must be one of"),
    ],
)
def test_bad_options_are_refused(options, words):
    with pytest.raises(ValueError, match=r"Received") as error:
        mixers.get("linformer", H, K, **{"max_length": N, **options})
    assert words in str(error.value)


def test_it_needs_a_length_and_keeps_to_it():
    with pytest.raises(ValueError, match=r"needs `max_length`.*Received"):
        mixers.get("linformer", H, K)
    mixer, x = made(), normal(3, T, D)
    assert mixer(normal(3, N + 2, D), x).shape == (3, N + 2, D)
    longer = normal(3, N + 1, D)
    words = rf"{N + 1} tokens.*max_length={N}.*Received"
    with pytest.raises(ValueError, match=words):
        mixer(x, longer)
    with pytest.raises(ValueError, match=words):
        mixer.call_with_cache(x, mixer.remember(longer))
    with pytest.raises(ValueError, match=words):
        made()(keras.Input((N + 1, D)))
    with pytest.raises(ValueError, match=r"causal.*Received"):
        mixer(x, use_causal_mask=True)
    with pytest.raises(ValueError, match=r"no causal form.*Received"):
        SynthesizerDecoder(16, H, synthesizer="linformer", max_length=N)
    assert mixers.get("linformer", H, K, 1000).rank == 128
    assert mixers.get("linformer", H, K, N).rank == N


def test_sums_vary_as_a_key_does_at_first():
    mixer = mixers.LinformerAttention(H, K, 400, 50, seed=1)
    mixer.build((None, None, D))
    sums = np.einsum("rs,bsk->brk", numpy(mixer.E)[0], normal(20, 400, K))
    assert abs(sums.std() - 1) < 0.05
    assert np.abs(numpy(mixer.E) - numpy(mixer.F)).max() > 0.01


@each_share
@each_way_to_compile
def test_it_trains_compiled_with_lengths_yet_unknown(share, jit, tmp_path):
    inputs = keras.Input((None, D))
    mixer = mixers.LinformerAttention(H, K, N, RANK, share, dropout=0.1)
    model = keras.Model(inputs, mixer(inputs))
    jit = jit and keras.backend.backend() != "torch"
    model.compile("sgd", "mse", jit_compile=jit)
    build_optimizer(model)
    before = [numpy(w).copy() for w in mixer.trainable_weights]
    x = normal(4, T, D)
    for _ in range(2):
        model.train_on_batch(x, x)
    changed = [
        np.abs(numpy(a) - b).max() > 0
        for a, b in zip(mixer.trainable_weights, before, strict=True)
    ]
    # One bias of all keys moves all logits of a row but for E's row sums.
    assert all(changed)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    y = normal(2, N, D)
    found, expected = (numpy(program(m)(y)) for m in (loaded, model))
    np.testing.assert_allclose(found, expected, atol=1e-6)


@slow_but_on("torch")
@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_half_precision_is_finite_and_close(policy):
    exact, half, x = made(), made(dtype=policy), normal(3, T, D)
    np.testing.assert_allclose(numpy(half(x)), numpy(exact(x)), atol=0.1)
    assert np.isfinite(numpy(half(50 * x))).all()


def test_a_block_takes_it():
    block = SynthesizerEncoder(
        16, H, synthesizer=f"linformer(rank={RANK})", max_length=N, dropout=0.1
    )
    x = normal(3, T, D)
    assert block(x, padding_mask=padding(T, 4, 1, size=T)).shape == (3, T, D)
    assert block.attention.dropout == 0.1


@beside("linformer")
@pytest.mark.parametrize("share", ["heads", "key_value"])
def test_it_is_linformer_s_package(share):
    import linformer as package
    import torch

    mixer = made(share, use_bias=False)
    # Its keys are its values where they share a table.
    theirs = package.LinformerSelfAttention(
        D, N, k=RANK, heads=H, share_kv=share == "key_value"
    )
    with torch.no_grad():
        for ours, linear in (("query", "to_q"), ("key", "to_k")):
            kernel = getattr(mixer, ours).kernel.value.reshape(D, H * K)
            getattr(theirs, linear).weight.copy_(kernel.T)
        theirs.proj_k.copy_(mixer.E.value[0].T)
        if share == "key_value":
            mixer.value.kernel.assign(mixer.key.kernel)
        else:
            kernel = mixer.value.kernel.value.reshape(D, H * K)
            theirs.to_v.weight.copy_(kernel.T)
            theirs.proj_v.copy_(mixer.F.value[0].T)
        kernel = mixer.attention_output.kernel.value.reshape(H * K, D)
        theirs.to_out.weight.copy_(kernel.T)
        theirs.to_out.bias.zero_()
        for length in (T, N):
            x = torch.tensor(normal(3, length, D))
            np.testing.assert_allclose(
                numpy(mixer(x)), numpy(theirs(x)), atol=1e-5
            )

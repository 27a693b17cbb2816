"""Linear attention as a layer: whole sequences, chunks, single tokens."""

import itertools

import keras
import numpy as np
import pytest
from arrays import normal, padding
from backend import gradients, numpy, program, some_on_each_backend
from keras import ops

from keras_synth import formulas, mixers
from keras_synth.masks import AttentionMask

H, K, D, T = 2, 4, 8, 140  # longer than a chunk of 128 tokens

RIGHT = padding(T, 70, size=T)
MASKS = {
    "right": RIGHT,
    "left": RIGHT[:, ::-1],
    "everywhere": np.zeros_like(RIGHT),
    "nowhere": np.ones_like(RIGHT),
}
ENDS = {
    "two chunks": (90, T),
    "unequal chunks": (1, 130, 131, T),
    "tokens": range(1, T + 1),
}


def layer_and_tokens(dtype="float32", length=T):
    layer = mixers.LinearAttention(H, K, dtype=dtype, name="linear")
    layer.build((None, None, D))
    for seed, weight in enumerate(layer.trainable_weights):
        weight.assign(0.5 * normal(*weight.shape, seed=seed))
    return layer, normal(2, length, D)


def streamed(layer, x, ends, mask=None, state=None):
    """The outputs of successive parts as one array, and the last state."""
    step = program(layer.call_with_cache)
    state = layer.make_cache(len(x), 1) if state is None else state
    outputs = []
    for start, end in itertools.pairwise((0, *ends)):
        real = None if mask is None else mask[:, start:end]
        output, state = step(x[:, start:end], state, start, real)
        outputs.append(numpy(output))
    return np.concatenate(outputs, axis=1), state


@pytest.mark.parametrize("side", some_on_each_backend(MASKS, ["left"]))
def test_full_calls_equal_samples_without_padding(side):
    """Causal or not; padding contains NaN."""
    (layer, x), mask = layer_and_tokens(), MASKS[side]
    padded = np.where(mask[..., None], x, np.float32(np.nan))
    for causal in (False, True):
        found = numpy(layer(padded, mask=mask, use_causal_mask=causal))
        assert np.isfinite(found).all()
        for i, real in enumerate(mask):
            alone = layer(x[i : i + 1, real], use_causal_mask=causal)
            np.testing.assert_allclose(
                found[i, real], numpy(alone)[0], atol=1e-5
            )


@pytest.mark.parametrize("ends", some_on_each_backend(ENDS, ["unequal chunks"]))
def test_chunks_and_single_tokens_equal_one_causal_call(ends):
    layer, x = layer_and_tokens()
    for side in ("right", "left"):
        mask = MASKS[side]
        expected = numpy(layer(x, mask=mask, use_causal_mask=True))
        padded = np.where(mask[..., None], x, np.float32(np.nan))
        found, state = streamed(layer, padded, ENDS[ends], mask)
        np.testing.assert_allclose(
            found[mask], expected[mask], atol=1e-5, err_msg=side
        )
        assert state["sums"].shape == (2, H, K, K + 1)


@pytest.mark.each_backend
def test_a_state_and_its_layer_come_back_from_files(tmp_path):
    layer, x = layer_and_tokens()
    expected = numpy(layer(x, use_causal_mask=True))[:, 90:]
    _, state = streamed(layer, x[:, :90], (90,))
    np.savez(tmp_path / "state.npz", **{k: numpy(v) for k, v in state.items()})
    inputs = keras.Input((None, D))
    keras.Model(inputs, layer(inputs)).save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    state = dict(np.load(tmp_path / "state.npz"))
    found, _ = loaded.get_layer("linear").call_with_cache(x[:, 90:], state, 90)
    np.testing.assert_allclose(numpy(found), expected, atol=1e-5)


def test_a_functional_model_reads_any_length():
    layer, x = layer_and_tokens()
    inputs, mask = keras.Input((None, D)), keras.Input((None,), dtype="bool")
    model = keras.Model(
        [inputs, mask], layer(inputs, mask=mask, use_causal_mask=True)
    )
    for length in (5, T):
        part = [x[:, :length], RIGHT[:, :length]]
        expected = layer(part[0], mask=part[1], use_causal_mask=True)
        found = model.predict(part, verbose=0)
        np.testing.assert_allclose(found, numpy(expected), atol=1e-5)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_half_precision_is_close_at_4096_tokens(policy):
    layer, x = layer_and_tokens(length=4096)
    half, _ = layer_and_tokens(policy)
    expected = numpy(layer(x, use_causal_mask=True))
    found = numpy(half(x, use_causal_mask=True))
    close = 0.002 if policy == "mixed_float16" else 0.02
    assert np.abs(found - expected).max() < close * np.abs(expected).max()
    parts, state = streamed(half, x, range(512, 4097, 512))
    assert keras.backend.standardize_dtype(state["sums"].dtype) == "float32"
    np.testing.assert_allclose(parts, found, atol=close)


@pytest.mark.each_backend
@pytest.mark.parametrize("causal", [False, True])
def test_gradients_are_those_of_all_pairs(causal):
    layer, _ = layer_and_tokens()
    arrays = [normal(1, T, H, K, seed=seed) for seed in range(3)]
    direction = ops.convert_to_tensor(normal(1, T, H, K, seed=3))
    allowed = np.tril(np.ones((T, T), bool)) if causal else np.array(True)

    def by_sums(q, k, v):
        found = layer.attend(q, k, v, AttentionMask(causal=causal))
        return ops.sum(found * direction)

    def by_pairs(q, k, v):
        allow = ops.convert_to_tensor(allowed)
        return ops.sum(formulas.linear(q, k, v, allow) * direction)

    for found, expected in zip(
        gradients(by_sums, *arrays), gradients(by_pairs, *arrays), strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize("shape", [(2, T), (2, T, T), (2, 1, T, T)])
def test_masks_of_pairs_are_errors_that_name_padding_masks(shape):
    layer, x = layer_and_tokens()
    words = r"value_mask.*Received: attention_mask"
    with pytest.raises(ValueError, match=words):
        layer(x, attention_mask=np.ones(shape, bool))
    # Padding in the shape that MultiHeadAttention broadcasts is supported.
    found = layer(x, attention_mask=RIGHT[:, None])
    expected = numpy(layer(x, value_mask=RIGHT))
    np.testing.assert_allclose(numpy(found), expected, atol=1e-6)

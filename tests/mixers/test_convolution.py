"""LightConv and DynamicConv against loops, bands and tables of distances."""

import keras
import numpy as np
import pytest
from arrays import normal
from backend import numpy, slow_but_on
from keras import ops

from keras_synth import mixers
from keras_synth.layers import SynthesizerDecoder

H, K, D, T = 2, 4, 8, 7

NAMES = ["light_conv", "dynamic_conv"]
each_name = pytest.mark.parametrize("name", NAMES)
each_border = pytest.mark.parametrize("border", ["zero", "renormalize"])
each_kernel = pytest.mark.parametrize(
    ("width", "border"),
    [(1, "zero"), (3, "zero"), (4, "renormalize"), (20, "renormalize")],
)
each_form = pytest.mark.parametrize("causal", [False, True])


def made(name, width=3, dim=D, **options):
    """A mixer with weights that are not near zero, biases neither."""
    layer = mixers.get(name, H, width=width, **options)
    layer.build((None, None, dim))
    layer.set_weights(
        [normal(*w.shape, seed=i) for i, w in enumerate(layer.get_weights())]
    )
    return layer


def ragged():
    """Padding at the end, between tokens, at the start, and everywhere."""
    mask = np.ones((4, T), bool)
    mask[0, 4:] = mask[1, 2:4] = mask[2, :3] = mask[3] = False
    return mask


# --- formulas -----------------------------------------------------------------


def projected(layer, x, real):
    """`x'`, from weights that are in the order of `get_weights`."""
    kernel, bias = map(numpy, (layer.value.kernel, layer.value.bias))
    y = np.where(real[..., None], x, 0) @ kernel + bias
    if layer.use_glu:
        y, gate = np.split(y, 2, axis=-1)
        y = y / (1 + np.exp(-gate))
    return np.where(real[..., None], y, 0)


def logits(layer, token):
    """The taps' logits `(H, width)` of a token `(d,)`."""
    if isinstance(layer, mixers.LightConvolution):
        return numpy(layer.kernel)
    return (token @ numpy(layer.kernel.kernel)).reshape(H, -1)


def convolved(layer, x, real, causal):
    """Token by token, head by head, tap by tap."""
    tokens, width = projected(layer, x, real), layer.width
    context = np.zeros_like(tokens)
    size = x.shape[-1] // H
    for b, i, h in np.ndindex(*x.shape[:2], H):
        taps = logits(layer, tokens[b, i])[h]
        ahead = width - 1 if causal else (width - 1) // 2
        seen = {t: i - ahead + t for t in range(width)}
        seen = {
            t: j for t, j in seen.items() if 0 <= j < x.shape[1] and real[b, j]
        }
        counted = range(width) if layer.border == "zero" else seen
        total = sum(np.exp(taps[t]) for t in counted)
        channels = slice(h * size, (h + 1) * size)
        for t, j in seen.items():
            weight = np.exp(taps[t]) / total
            context[b, i, channels] += weight * tokens[b, j, channels]
    output = layer.output_dense
    return context @ numpy(output.kernel) + numpy(output.bias)


@each_name
@each_kernel
@each_form
def test_it_is_the_loop_over_taps(name, width, border, causal):
    """Whatever padding holds."""
    layer = made(name, width, border=border)
    x, real = normal(4, T, D, seed=9), ragged()
    expected = convolved(layer, x, real, causal)
    assert np.isfinite(expected).all()
    poisoned = np.where(real[..., None], x, np.nan)
    found = layer(poisoned, value_mask=real, use_causal_mask=causal)
    np.testing.assert_allclose(numpy(found), expected, atol=1e-5)
    whole = convolved(layer, x, np.ones_like(real), causal)
    found = layer(x, use_causal_mask=causal)
    np.testing.assert_allclose(numpy(found), whole, atol=1e-5)


def test_without_gate_and_biases():
    layer = mixers.get("light_conv", H, use_glu=False, use_bias=False)
    x = normal(2, T, D)
    layer(x)
    assert [w.shape for w in layer.weights] == [(H, 7), (D, D), (D, D)]


def test_light_convolution_is_a_product_with_a_band_matrix():
    layer = made("light_conv", 5)
    x = normal(2, T, D)
    taps = np.exp(numpy(layer.kernel))
    taps /= taps.sum(axis=1, keepdims=True)
    for causal, shift in ((False, -2), (True, -4)):
        bands = np.stack(
            [
                sum(w * np.eye(T, k=t + shift) for t, w in enumerate(row))
                for row in taps
            ]
        )
        tokens = projected(layer, x, np.ones((2, T), bool))
        tokens = tokens.reshape(2, T, H, K)
        context = np.einsum("hij,bjhk->bihk", bands, tokens).reshape(2, T, D)
        output = layer.output_dense
        expected = context @ numpy(output.kernel) + numpy(output.bias)
        found = numpy(layer(x, use_causal_mask=causal))
        np.testing.assert_allclose(found, expected, atol=1e-5)


@each_form
def test_renormalized_light_convolution_is_a_table_of_distances(causal):
    """Attention by distance alone, in a window: Synthesizers have it."""
    width = 5
    reach = width if causal else width // 2 + 1
    layer = made(
        "light_conv", width, border="renormalize", use_glu=False, use_bias=False
    )
    attention = mixers.get(
        "relative",
        H,
        K,
        max_distance=reach - 1,
        sliding_window=reach,
        use_bias=False,
    )
    attention.build((None, T, D))
    taps, distances = numpy(layer.kernel), np.zeros((H, 2 * reach - 1))
    distances[:, :width] = taps
    attention.synthesizer.distances.assign(distances)
    attention.value.kernel.assign(
        numpy(layer.value.kernel).reshape(D, H, K),
    )
    attention.attention_output.kernel.assign(
        numpy(layer.output_dense.kernel).reshape(H, K, D)
    )
    x, real = normal(4, T, D, seed=9), ragged()
    found, expected = (
        numpy(mixer(x, value_mask=real, use_causal_mask=causal))
        for mixer in (layer, attention)
    )
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_renormalized_dynamic_convolution_is_dense_on_relative_offsets():
    """Each token predicts logits of offsets; a softmax over all tokens."""
    layer = made("dynamic_conv", 4, border="renormalize")
    x = normal(2, T, D, seed=9)
    tokens = projected(layer, x, np.ones((2, T), bool))
    rows = tokens @ numpy(layer.kernel.kernel)  # (B, T, H * width)
    rows = rows.reshape(2, T, H, 4).transpose(0, 2, 1, 3)
    scores = np.full((2, H, T, T), -np.inf)
    for offset in range(-1, 3):
        for i in range(max(0, -offset), min(T, T - offset)):
            scores[:, :, i, i + offset] = rows[:, :, i, offset + 1]
    weights = np.exp(scores)
    weights /= weights.sum(axis=-1, keepdims=True)
    context = np.einsum(
        "bhij,bjhk->bihk", weights, tokens.reshape(2, T, H, K)
    ).reshape(2, T, D)
    output = layer.output_dense
    expected = context @ numpy(output.kernel) + numpy(output.bias)
    np.testing.assert_allclose(numpy(layer(x)), expected, atol=1e-5)


@each_name
@each_border
def test_later_tokens_change_nothing_not_even_as_nan(name, border):
    layer = made(name, 4, border=border)
    x = normal(2, T, D)
    expected = numpy(layer(x, use_causal_mask=True))[:, :4]
    x[:, 4:] = np.nan
    found = numpy(layer(x, use_causal_mask=True))[:, :4]
    np.testing.assert_allclose(found, expected, atol=1e-6)


# --- dropout ------------------------------------------------------------------


def test_dropout_is_of_taps_and_seeded():
    """The same taps of all tokens of a light convolution."""
    x = np.ones((2, 50, D), "float32")
    for name in NAMES:
        outputs = []
        for _ in range(2):
            layer = mixers.get(
                name, H, width=5, dropout=0.5, seed=3, border="renormalize"
            )
            outputs.append(numpy(layer(x, training=True)))
            plain = numpy(layer(x))
        np.testing.assert_array_equal(*outputs)
        assert np.abs(outputs[0] - plain).max() > 1e-3
        within = np.abs(np.diff(outputs[0][:, 5:-5], axis=1)).max()
        assert (within < 1e-6) == (name == "light_conv")


# --- decoding -----------------------------------------------------------------

CHUNKS = [(0, 3), (3, 4), (4, T)]


def decoded(layer, x, mask, chunks, tensors=False):
    cache, outputs = layer.make_cache(len(x), T), []
    for start, end in chunks:
        at = ops.convert_to_tensor(start, "int32") if tensors else start
        given = None if mask is None else mask[:, start:end]
        output, cache = layer.call_with_cache(
            x[:, start:end], cache, at, value_mask=given
        )
        outputs.append(numpy(output))
    return np.concatenate(outputs, axis=1), cache


@slow_but_on("torch")
@each_name
@each_kernel
def test_decoding_is_the_causal_form(name, width, border):
    """In chunks, token by token, with padding anywhere."""
    layer = made(name, width, border=border)
    x = normal(4, T, D, seed=9)
    single = [(i, i + 1) for i in range(T)]
    for mask, chunks in ((None, single), (ragged(), CHUNKS)):
        expected = numpy(layer(x, value_mask=mask, use_causal_mask=True))
        found, cache = decoded(layer, x, mask, chunks, chunks is single)
        np.testing.assert_allclose(found, expected, atol=1e-5)
    tokens = cache["tokens"]
    assert tuple(tokens.shape) == (4, max(width - 1, 1), D)


@slow_but_on("torch")
@each_name
@each_border
def test_tokens_that_are_left_out_may_come_later(name, border):
    """As in generation: first the shortest prompt, then token after token."""
    layer = made(name, 4, border=border)
    x = normal(3, T, D, seed=9)
    expected = numpy(layer(x, use_causal_mask=True))
    for known in (0, 3):
        cache = layer.make_cache(3, T)
        # Prompts in two chunks, of the second of which nothing may be kept.
        for start, end in ((0, 4), (4, T)):
            mask = np.broadcast_to(
                np.arange(start, end) < known, (3, end - start)
            )
            poisoned = np.where(mask[..., None], x[:, start:end], np.nan)
            _, cache = layer.call_with_cache(poisoned, cache, start, mask)
        for i in range(known, T):
            output, cache = layer.call_with_cache(x[:, i : i + 1], cache, i)
            np.testing.assert_allclose(
                numpy(output)[:, 0], expected[:, i], atol=1e-5
            )


@slow_but_on("torch")
@each_name
def test_a_block_decodes_with_masks_of_the_present_and_of_all(name):
    block = SynthesizerDecoder(16, H, synthesizer=f"{name}(width=3)")
    x, mask = normal(3, T, D), np.arange(T) < [[T], [5], [2]]
    expected = numpy(block(x, decoder_padding_mask=mask))
    for whole in (False, True):
        cache, outputs = block.make_caches(3, T)[0], []
        for start, end in CHUNKS:
            output, cache = block(
                x[:, start:end],
                decoder_padding_mask=mask if whole else mask[:, start:end],
                self_attention_cache=cache,
                self_attention_cache_update_index=start,
            )
            outputs.append(numpy(output))
        found = np.concatenate(outputs, axis=1)
        np.testing.assert_allclose(found[mask], expected[mask], atol=1e-5)


@slow_but_on("torch")
def test_generating_with_states_is_generating_without():
    pytest.importorskip("keras_hub")
    from language_models import greedy, language_model

    model = language_model(
        ["light_conv(width=3)", "dynamic_conv(width=4, border='renormalize')"]
    )
    model.compile(sampler="greedy")
    prompts = ["a quick", "the lazy dog and then", "fox"]
    features = model.preprocessor.generate_preprocess(prompts, 12)
    written = model.generate_step(
        {k: ops.convert_to_tensor(v) for k, v in features.items()}
    )
    np.testing.assert_array_equal(
        numpy(written["token_ids"]), greedy(model, prompts, 12)
    )


# --- what does not fit --------------------------------------------------------


@each_name
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"width": 0}, "width"),
        ({"width": 2.5}, "width"),
        ({"num_heads": 0}, "num_heads"),
        ({"dropout": 1.0}, "dropout"),
        ({"border": "wrap"}, "border"),
        ({"seed": "x"}, "seed"),
    ],
)
def test_arguments_out_of_range_are_refused(name, options, words):
    with pytest.raises(ValueError, match=rf"{words}.*Received"):
        mixers.get(name, **{"num_heads": H, **options})


@each_name
def test_shapes_and_calls_that_do_not_fit_are_refused(name):
    x = normal(2, T, D)
    with pytest.raises(ValueError, match="needs `num_heads`"):
        mixers.get(name)
    with pytest.raises(ValueError, match=r"divide.*num_heads=3, features=8"):
        mixers.get(name, 3)(x)
    for shape in ((2, T), (2, T, 3, D)):
        with pytest.raises(ValueError, match=r"\(batch, length, features\)"):
            mixers.get(name, H)(normal(*shape))
    layer = mixers.get(name, H)
    with pytest.raises(ValueError, match="cannot honour `attention_mask`"):
        layer(x, attention_mask=np.ones((2, T, T), bool))
    cache = layer(x) is not None and layer.make_cache(2, T)
    for refused in (
        {"attention_mask": np.ones((2, T, T), bool)},
        {"attention_bias": np.zeros((1, 1, T, T), "float32")},
        {"use_causal_mask": False},
        {"start": None},
    ):
        with pytest.raises(ValueError, match="Received"):
            layer.call_with_cache(x, cache, **{"start": 0, **refused})


def test_a_kernel_wider_than_the_sequence_is_none_too_wide():
    layer = keras.Sequential([keras.Input((None, D)), made("light_conv", 31)])
    assert layer.predict(normal(2, 1, D), verbose=0).shape == (2, 1, D)

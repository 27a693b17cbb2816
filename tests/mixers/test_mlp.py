"""MLPs along the length against loops over positions, and a published gMLP."""

import keras
import numpy as np
import pytest
from arrays import normal
from backend import beside, numpy, slow_but_on
from keras import ops

from keras_synth import mixers, models
from keras_synth.layers import SynthesizerDecoder, SynthesizerEncoder

H, D, N, T = 2, 8, 9, 7

NAMES = ["mlp_mixer", "gmlp"]
each_name = pytest.mark.parametrize("name", NAMES)
each_form = pytest.mark.parametrize("causal", [False, True])


def made(name, **options):
    """A mixer with weights that are not near zero, biases neither."""
    layer = mixers.get(name, max_length=N, **options)
    layer.build((None, None, D))
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


def weighed(matrix, bias, x, rows, causal, real=None):
    """Position by position: `sum_j matrix[i, j] x[j] + bias[i]`."""
    y = np.zeros((rows, x.shape[-1]))
    for i in range(rows):
        y[i] = bias[i]
        for j in range(len(x)):
            if (real is None or real[j]) and (j <= i or not causal):
                y[i] += matrix[i, j] * x[j]
    return y


def mlp(layer, x, real, causal):
    units = len(x) if causal else layer.hidden_dim
    w1, w2, b1, b2 = map(numpy, (layer.W1, layer.W2, layer.b1, layer.b2))
    hidden = weighed(w1, b1, x, units, causal, real)
    hidden = np.tanh(hidden)
    y = weighed(w2, b2, hidden, len(x), causal)
    return np.where(real[:, None], y, 0)


def gated(layer, x, real, causal):
    kernel, bias = map(numpy, (layer.value.kernel, layer.value.bias))
    u, v = np.split(np.tanh(x @ kernel + bias), 2, axis=-1)
    centred = v - v.mean(axis=-1, keepdims=True)
    v = centred / np.sqrt(v.var(axis=-1, keepdims=True) + 1e-5)
    v = v * numpy(layer.norm.gamma) + numpy(layer.norm.beta)
    gate = weighed(numpy(layer.W), numpy(layer.b), v, len(x), causal, real)
    context = np.where(real[:, None], u * gate, 0)
    output = layer.output_dense
    return context @ numpy(output.kernel) + numpy(output.bias)


@pytest.mark.parametrize(
    ("name", "options", "causal"),
    [
        ("mlp_mixer", {}, False),
        ("mlp_mixer", {}, True),
        ("mlp_mixer", {"hidden_dim": 5}, False),
        ("gmlp", {}, False),
        ("gmlp", {"ffn_dim": 6}, True),
    ],
)
def test_it_is_the_loop_over_positions(name, options, causal):
    """Whatever padding holds, and of however much of it there is."""
    layer = made(name, activation="tanh", **options)
    formula = mlp if name == "mlp_mixer" else gated
    x, real = normal(4, T, D, seed=9), ragged()
    for mask in (real, np.ones_like(real)):
        expected = np.stack(
            [formula(layer, *one, causal) for one in zip(x, mask, strict=True)]
        )
        poisoned = np.where(mask[..., None], x, np.nan)
        found = layer(poisoned, value_mask=mask, use_causal_mask=causal)
        np.testing.assert_allclose(numpy(found), expected, atol=1e-4)
        more = np.pad(poisoned, [[0, 0], [0, 2], [0, 0]])
        real = np.pad(mask, [[0, 0], [0, 2]])
        found = layer(more, value_mask=real, use_causal_mask=causal)
        np.testing.assert_allclose(numpy(found)[:, :T], expected, atol=1e-4)


def test_gelu_is_the_default_and_exact():
    for name in NAMES:
        layer = mixers.get(name, max_length=N)
        assert layer.activation is keras.activations.gelu
        assert layer.get_config()["activation"] == "gelu"


def test_without_biases():
    layer = mixers.get("mlp_mixer", max_length=N, use_bias=False)
    x = normal(2, T, D)
    found = layer(x)
    assert [w.name for w in layer.weights] == ["W1", "W2"]
    hidden = np.einsum("ht,btd->bhd", numpy(layer.W1)[:, :T], x)
    hidden = numpy(keras.activations.gelu(ops.convert_to_tensor(hidden)))
    expected = np.einsum("th,bhd->btd", numpy(layer.W2)[:T], hidden)
    np.testing.assert_allclose(numpy(found), expected, atol=1e-5)


def test_matrices_do_not_start_out_equal():
    for seed in (None, 1):
        layer = mixers.get("mlp_mixer", max_length=N, seed=seed)
        layer.build((None, T, D))
        assert np.abs(numpy(layer.W1) - numpy(layer.W2)).max() > 0.1


def test_gmlp_starts_as_a_feed_forward_network():
    """W is near zero and b is one: the gate is open."""
    layer = mixers.get("gmlp", max_length=N)
    x = normal(2, T, D)
    found = numpy(layer(x))
    table = numpy(layer.W)
    assert 0.5e-3 / N < np.abs(table).max() <= 1e-3 / N
    np.testing.assert_array_equal(numpy(layer.b), np.ones(N))
    u, _ = np.split(numpy(layer.value(x)), 2, axis=-1)
    expected = numpy(layer.output_dense(u))
    np.testing.assert_allclose(found, expected, atol=0.02)
    assert layer.value.kernel.shape == (D, 2 * D)


@beside("g_mlp_pytorch")
@each_form
def test_gmlp_is_that_of_a_published_package(causal):
    """Of full length, the only one that it mixes when not causal."""
    import torch
    from g_mlp_pytorch import g_mlp_pytorch as published

    theirs = published.gMLPBlock(dim=D, dim_ff=12, seq_len=N, causal=causal)
    ours = mixers.get("gmlp", max_length=N, ffn_dim=12)
    x = normal(3, N, D)
    ours(x)
    torch.manual_seed(0)
    for weight in theirs.parameters():
        torch.nn.init.normal_(weight)
    weights = {name: numpy(w) for name, w in theirs.named_parameters()}
    ours.value.kernel.assign(weights["proj_in.0.weight"].T)
    ours.value.bias.assign(weights["proj_in.0.bias"])
    ours.norm.gamma.assign(weights["sgu.norm.weight"])
    ours.norm.beta.assign(weights["sgu.norm.bias"])
    ours.W.assign(weights["sgu.weight"][0])
    ours.b.assign(weights["sgu.bias"][0])
    ours.output_dense.kernel.assign(weights["proj_out.weight"].T)
    ours.output_dense.bias.assign(weights["proj_out.bias"])
    expected = theirs.to(ops.convert_to_tensor(x).device)(
        ops.convert_to_tensor(x)
    )
    found = ours(x, use_causal_mask=causal)
    np.testing.assert_allclose(numpy(found), numpy(expected), atol=1e-4)


# --- decoding -----------------------------------------------------------------

CHUNKS = [(0, 3), (3, 4), (4, T)]


@slow_but_on("torch")
@each_name
@pytest.mark.parametrize("room", [T, N])
def test_decoding_is_the_causal_form(name, room):
    """In chunks, token by token, with padding anywhere."""
    layer = made(name)
    x = normal(4, T, D, seed=9)
    single = [(i, i + 1) for i in range(T)]
    for mask, chunks in ((None, single), (ragged(), CHUNKS)):
        expected = numpy(layer(x, value_mask=mask, use_causal_mask=True))
        cache, outputs = layer.make_cache(4, room), []
        for start, end in chunks:
            at = start
            if chunks is single:
                at = ops.convert_to_tensor(start, "int32")
            output, cache = layer.call_with_cache(
                x[:, start:end],
                cache,
                at,
                value_mask=None if mask is None else mask[:, start:end],
            )
            outputs.append(numpy(output))
        found = np.concatenate(outputs, axis=1)
        np.testing.assert_allclose(found, expected, atol=1e-5)


@each_name
def test_tokens_that_are_read_again_take_their_places(name):
    """As in generation, which first reads what is to be written."""
    layer = made(name)
    x, other = normal(3, T, D, seed=9), normal(3, T, D, seed=10)
    expected = numpy(layer(x, use_causal_mask=True))
    first = np.concatenate([x[:, :3], other[:, 3:]], axis=1)
    _, cache = layer.call_with_cache(first, layer.make_cache(3, T), 0)
    for i in range(2, T):
        output, cache = layer.call_with_cache(x[:, i : i + 1], cache, i)
        np.testing.assert_allclose(
            numpy(output)[:, 0], expected[:, i], atol=1e-5
        )


def test_gmlp_takes_a_later_mask_of_all_tokens():
    layer = made("gmlp")
    x, mask = normal(3, T, D, seed=9), np.arange(T) != 1
    mask = np.broadcast_to(mask, (3, T))
    expected = layer(x, value_mask=mask, use_causal_mask=True)
    _, cache = layer.call_with_cache(x[:, :3], layer.make_cache(3, T), 0)
    found, _ = layer.call_with_cache(x[:, 3:], cache, 3, value_mask=mask)
    np.testing.assert_allclose(numpy(found), numpy(expected)[:, 3:], atol=1e-5)


@slow_but_on("torch")
@each_name
def test_a_block_decodes_with_masks_of_the_present_and_of_all(name):
    block = SynthesizerDecoder(16, H, synthesizer=name, max_length=N)
    x, mask = normal(3, T, D), np.arange(T) < [[T], [5], [2]]
    block(x)
    block.set_weights(
        [normal(*w.shape, seed=i) for i, w in enumerate(block.get_weights())]
    )
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
        np.testing.assert_allclose(found[mask], expected[mask], atol=1e-4)


@slow_but_on("torch")
def test_generating_with_caches_is_generating_without():
    pytest.importorskip("keras_hub")
    from language_models import greedy, language_model

    model = language_model(
        ["mlp_mixer", "gmlp(spatial_initializer='random_normal')"]
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


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("mlp_mixer", {"max_length": 0}, "max_length"),
        ("gmlp", {"max_length": 2.5}, "max_length"),
        ("mlp_mixer", {"hidden_dim": 0}, "hidden_dim"),
        ("gmlp", {"ffn_dim": 0}, "ffn_dim"),
        ("gmlp", {"ffn_dim": 5}, "must be even"),
        ("gmlp", {"seed": "x"}, "seed"),
        ("gmlp", {"activation": "no"}, "activation"),
    ],
)
def test_arguments_out_of_range_are_refused(name, options, words):
    with pytest.raises(ValueError, match=f"(?s){words}.*Received|{words}"):
        mixers.get(name, **{"max_length": N, **options})


@each_name
def test_shapes_and_calls_that_do_not_fit_are_refused(name):
    x = normal(2, T, D)
    with pytest.raises(ValueError, match="needs `max_length`"):
        mixers.get(name)
    for shape in ((2, T), (2, T, 3, D)):
        with pytest.raises(ValueError, match=r"\(batch, length, features\)"):
            mixers.get(name, max_length=N)(normal(*shape))
    layer = mixers.get(name, max_length=N)
    layer(x)
    long = r"10 tokens.*max_length=9.*larger max_length.*Received: length=10"
    with pytest.raises(ValueError, match=long):
        layer(normal(2, N + 1, D))
    with pytest.raises(ValueError, match=long):
        layer(keras.Input((N + 1, D)))
    with pytest.raises(ValueError, match=long):
        layer.make_cache(2, N + 1)
    cache = layer.make_cache(2, T)
    with pytest.raises(ValueError, match=r"room for 7 tokens.*start=1"):
        layer.call_with_cache(x, cache, 1)
    for refused in (
        {"attention_mask": np.ones((2, T, T), bool)},
        {"attention_bias": np.zeros((1, 1, T, T), "float32")},
        {"use_causal_mask": False},
        {"start": None},
    ):
        with pytest.raises(ValueError, match="Received"):
            layer.call_with_cache(x, cache, **{"start": 0, **refused})


def test_hidden_units_that_are_no_positions_have_no_causal_form():
    layer = mixers.get("mlp_mixer(hidden_dim=5)", max_length=N)
    x = normal(2, T, D)
    layer(x)
    words = r"hidden units stand for positions.*hidden_dim=5, max_length=9"
    with pytest.raises(ValueError, match=words):
        layer(x, use_causal_mask=True)
    with pytest.raises(ValueError, match=words):
        layer.make_cache(2, N)
    # An object says so at once, a name when the block makes a layer of it.
    with pytest.raises(ValueError, match=r"no causal form.*Received"):
        SynthesizerDecoder(
            16, H, synthesizer=mixers.MLPMixer(N, 5), max_length=N
        )
    with pytest.raises(ValueError, match=r"no causal form.*hidden_dim=5"):
        models.SynthesizerBackbone(
            vocabulary_size=9,
            num_layers=1,
            num_heads=H,
            hidden_dim=D,
            intermediate_dim=16,
            max_sequence_length=N,
            synthesizer="mlp_mixer(hidden_dim=5)",
            causal=True,
        )
    encoder = SynthesizerEncoder(
        16, H, synthesizer="mlp_mixer(hidden_dim=5)", max_length=N
    )
    assert tuple(encoder(x).shape) == (2, T, D)

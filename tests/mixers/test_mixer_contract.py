"""What every mixer promises, whatever it mixes by."""

import itertools

import keras
import keras_hub
import numpy as np
import pytest
from arrays import normal, padding
from backend import (
    build_optimizer,
    gradients,
    numpy,
    program,
    slow_but_on,
    without_gradients,
)
from cases import MIXERS, D, H, K, N, T, each_mixer, mixer_cases
from keras import ops
from language_models import greedy, language_model

from keras_synth import mixers
from keras_synth.layers import SynthesizerDecoder, SynthesizerEncoder

LENGTHS = [T, 4, 1]


def real_tokens(length=T):
    return padding(*LENGTHS, size=length)


def built(identifier, width=D, max_length=N, **options):
    mixer = mixers.get(identifier, H, K, max_length, **options)
    mixer.build((None, None, width))
    return mixer


def made(identifier, width=D, max_length=N, **options):
    """A mixer that is built, none of whose biases are zero by chance."""
    mixer = built(identifier, width, max_length, **options)
    rng = np.random.default_rng(1)
    for weight in mixer.trainable_weights:
        value = numpy(weight.value)
        weight.assign(value + 0.1 * rng.normal(size=value.shape))
    return mixer


def is_causal(mixer):
    return mixers.get(mixer, H, K, N).supports_causal_mask


each_causal_mixer = mixer_cases(filter(is_causal, MIXERS))


def test_every_name_has_a_case():
    cased = {identifier.split("(")[0] for identifier in MIXERS}
    assert {*mixers.names()} <= cased


@each_causal_mixer
def test_a_mixer_that_is_not_built_says_so_before_it_decodes(mixer):
    layer = mixers.get(mixer, H, K, N)
    with pytest.raises(ValueError, match=r"call it.*Received.*not built"):
        layer.call_with_cache(normal(2, 1, D), layer.make_cache(2, T), 0)
    if layer.supports_cross_attention:
        with pytest.raises(ValueError, match="not built"):
            layer.remember(normal(2, T, D))


@each_mixer
def test_output_and_config(mixer):
    x, mask = normal(3, T, D), real_tokens()
    first = made(mixer)
    again = type(first).from_config(first.get_config())
    again.build(x.shape)
    again.set_weights(first.get_weights())
    outputs = [
        numpy(program(lambda y, m=m: m(y, value_mask=mask))(x))
        for m in (first, again)
    ]
    assert outputs[0].shape == x.shape
    assert first.compute_output_shape(x.shape) == x.shape
    np.testing.assert_array_equal(*outputs)
    assert first.count_params() == again.count_params()


@each_mixer
@pytest.mark.parametrize(
    "poison", [pytest.param(1e9, marks=slow_but_on("torch")), np.nan]
)
def test_what_padding_holds_does_not_matter(mixer, poison):
    layer, x, mask = made(mixer), normal(3, T, D), real_tokens()
    beyond = ~mask[..., None]
    masked = {"value_mask": mask, "query_mask": mask}
    clean, poisoned = (np.where(beyond, np.float32(y), x) for y in (0, poison))
    run = program(lambda y: layer(y, **masked))
    found = [numpy(run(y))[mask] for y in (clean, poisoned)]
    np.testing.assert_allclose(*found, atol=1e-5)
    with without_gradients():
        output = numpy(run(poisoned))
    np.testing.assert_allclose(output[mask], found[0], atol=1e-5)
    assert np.isfinite(output).all()

    def loss(y):
        return ops.sum(
            layer(y, **masked) * ops.cast(mask[..., None], "float32")
        )

    (slopes,) = gradients(loss, poisoned)
    assert np.isfinite(slopes).all()
    assert not slopes[~mask].any()


@slow_but_on("torch")
@each_mixer
def test_how_much_padding_there_is_does_not_matter(mixer):
    layer = made(mixer, max_length=20)
    x, mask = normal(3, 20, D), real_tokens(20)
    expected = numpy(layer(x, value_mask=mask))[:, :T]
    found = numpy(layer(x[:, :T], value_mask=mask[:, :T]))
    difference = np.abs(found - expected)[mask[:, :T]]
    assert (difference.max() > 1e-4) == ("amount" in MIXERS[mixer])


@each_mixer
def test_masks_of_keras_count_as_explicit_ones(mixer):
    layer, mask = made(mixer), real_tokens()
    x = np.where(mask[..., None], normal(3, T, D), 0)

    def calls(x):
        return [
            layer(x, value_mask=mask, query_mask=mask),
            layer(keras.layers.Masking()(x)),
            layer(x, mask=mask),
            layer(x, x, x, key_mask=mask, query_mask=mask),
        ]

    expected, *found = map(numpy, program(calls)(x))
    for output in found:
        np.testing.assert_allclose(output, expected, atol=1e-5)


@each_mixer
def test_a_row_that_sees_nothing_is_zero(mixer):
    layer, x, mask = built(mixer), normal(3, T, D), real_tokens()
    mask[2] = False

    def calls(x):
        return [
            layer(x, value_mask=mask),
            layer(x, value_mask=mask, query_mask=mask),
        ]

    found, again = map(numpy, program(calls)(x))
    assert np.isfinite(found).all()
    assert not found[2].any()
    # A query that is padding itself is zero, and changes no other.
    assert not again[~mask].any()
    np.testing.assert_allclose(again[mask], found[mask], atol=1e-5)


@each_causal_mixer
def test_the_future_is_not_seen(mixer):
    layer, x = made(mixer), normal(3, T, D)
    run = program(lambda y: layer(y, use_causal_mask=True))
    expected = numpy(run(x))
    for seen in range(1, T):
        other = x.copy()
        other[:, seen:] = 100 * normal(3, T - seen, D, seed=1)
        found = numpy(run(other))
        np.testing.assert_allclose(
            found[:, :seen], expected[:, :seen], atol=1e-5
        )
    assert np.abs(numpy(program(layer)(x)) - expected).max() > 1e-4


@each_causal_mixer
@pytest.mark.parametrize(
    "padded", [pytest.param(False, marks=slow_but_on("torch")), True]
)
def test_a_cache_gives_the_same(mixer, padded):
    layer, x = made(mixer), normal(3, N, D)
    mask = real_tokens(N) if padded else np.ones((3, N), bool)
    whole = program(lambda x: layer(x, use_causal_mask=True, value_mask=mask))
    expected = numpy(whole(x))
    step = program(layer.call_with_cache)
    cache, outputs = layer.make_cache(3, N), []
    for start, end in itertools.pairwise((0, 3, 4, 5, N)):
        given = {"value_mask": ops.array(mask[:, start:end])} if padded else {}
        output, cache = step(
            ops.convert_to_tensor(x[:, start:end]), cache, start, **given
        )
        outputs.append(numpy(output))
    found = np.concatenate(outputs, axis=1)
    np.testing.assert_allclose(found[mask], expected[mask], atol=1e-5)


@each_causal_mixer
def test_what_padding_holds_does_not_matter_to_a_cache(mixer):
    layer, x, mask = made(mixer), normal(3, T, D), real_tokens()
    step = program(layer.call_with_cache)
    outputs = []
    for poison in (0, np.nan):
        y = np.where(mask[..., None], x, np.float32(poison))
        cache = layer.make_cache(3, T + 1)
        first, cache = step(y, cache, 0, mask)
        later = np.ones((3, 1), bool)
        if layer.overwrites_cache:
            later = np.concatenate([mask, later], axis=1)
        last, _ = step(x[:, :1], cache, T, later)
        outputs.append((numpy(first)[mask], numpy(last)))
    for clean, poisoned in zip(*outputs, strict=True):
        np.testing.assert_allclose(clean, poisoned, atol=1e-5)


@each_causal_mixer
@pytest.mark.parametrize("shape", [(0, 4), (2, 0)])
def test_a_cache_takes_no_samples_and_no_tokens(mixer, shape):
    layer = made(mixer)
    x, cache = np.zeros((*shape, D), "float32"), layer.make_cache(shape[0], T)
    output, after = layer.call_with_cache(x, cache, 0)
    assert tuple(output.shape) == x.shape == tuple(layer(x).shape)
    for old, new in zip(*map(keras.tree.flatten, (cache, after)), strict=True):
        np.testing.assert_array_equal(numpy(old), numpy(new))


@mixer_cases(
    [
        mixer
        for mixer in MIXERS
        if mixers.get(mixer, H, K, N).supports_cross_attention
    ]
)
def test_a_remembered_source_may_have_no_tokens(mixer):
    layer = made(mixer)
    x, source = normal(3, 2, D), np.zeros((3, 0, D), "float32")
    try:
        expected = layer(x, source)
    except ValueError:
        with pytest.raises(ValueError, match="Received"):
            layer.call_with_cache(x, layer.remember(source))
        return
    output, _ = layer.call_with_cache(x, layer.remember(source))
    np.testing.assert_allclose(numpy(output), numpy(expected), atol=1e-6)


@each_causal_mixer
@slow_but_on("torch")
def test_generating_with_caches_is_generating_without(mixer):
    model = language_model(mixer)
    model.compile(sampler="greedy")
    prompts = ["a quick", "the lazy dog and then", "fox"]
    features = model.preprocessor.generate_preprocess(prompts, 12)
    written = model.generate_step(
        {k: ops.convert_to_tensor(v) for k, v in features.items()}
    )
    np.testing.assert_array_equal(
        numpy(written["token_ids"]), greedy(model, prompts, 12)
    )


@each_mixer
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_is_finite(mixer, dtype):
    layer = built(mixer, dtype=f"mixed_{dtype}")
    x, mask = normal(3, T, D), real_tokens()
    mask[2] = False
    large = 10 if "unbounded" in MIXERS[mixer] else 100
    run = program(lambda y: layer(ops.cast(y, dtype), value_mask=mask))
    output = run(large * x)
    assert keras.backend.standardize_dtype(output.dtype) == dtype
    assert np.isfinite(numpy(output)).all()
    single = built(mixer)
    single.set_weights(layer.get_weights())
    expected = program(lambda y: single(y, value_mask=mask))(x)
    away = np.abs(numpy(run(x)) - numpy(expected))
    if "jumps" in MIXERS[mixer]:
        away = np.median(away)
    assert away.max() < 0.1


@each_mixer
def test_gradients_reach_all_weights(mixer):
    layer, x, mask = made(mixer), normal(3, T, D), real_tokens()
    direction = ops.convert_to_tensor(normal(3, T, D, seed=2))
    trained = layer.trainable_variables
    others = [v.value for v in layer.non_trainable_variables]

    def loss(*values):
        scope = keras.StatelessScope(
            state_mapping=[
                *zip(trained, values, strict=True),
                *zip(layer.non_trainable_variables, others, strict=True),
            ]
        )
        with scope:
            return ops.sum(layer(x, value_mask=mask) * direction)

    if not trained:
        return
    found = gradients(loss, *(numpy(v.value) for v in trained))
    for variable, slopes in zip(trained, found, strict=True):
        assert np.isfinite(slopes).all(), variable.path
        # A softmax does not see what all logits of a row have in common.
        if not variable.path.endswith("key/bias"):
            assert np.abs(slopes).max() > 1e-7, variable.path


@slow_but_on("torch", "tensorflow")  # JAX knows all lengths that it compiles
@each_mixer
def test_lengths_may_be_unknown(mixer):
    layer = made(mixer)
    inputs = keras.Input((None, D)), keras.Input((None,), dtype="bool")
    x, mask = normal(3, T, D), real_tokens()
    model = keras.Model(inputs, layer(inputs[0], value_mask=inputs[1]))
    run = program(lambda y, real: layer(y, value_mask=real))
    for length in (T, 5):
        given = x[:, :length], mask[:, :length]
        expected = numpy(run(*given))
        found = model.predict(given, verbose=0)
        real = given[1]
        np.testing.assert_allclose(found[real], expected[real], atol=1e-5)


# One of each way to compute; others are compiled in their own tests.
COMPILED = [
    *("dynamic_conv(width=3)", "gmlp", "strided(stride=3)", "linear"),
    "routing(clusters=3)",
]


@pytest.mark.parametrize(
    "mixer",
    [
        mixer
        if mixer in COMPILED
        else pytest.param(mixer, marks=slow_but_on("torch"))
        for mixer in MIXERS
    ],
)
def test_a_block_trains_and_comes_back_from_a_file(mixer, tmp_path):
    inputs = keras.Input((None, D))
    block = SynthesizerEncoder(
        16, H, synthesizer=mixer, max_length=N, dropout=0.1
    )
    model = keras.Model(inputs, block(inputs))
    jit = keras.backend.backend() != "torch"
    model.compile("lion", "mse", jit_compile=jit)  # moves by signs
    build_optimizer(model)
    before = [numpy(w.value) for w in model.trainable_weights]
    model.train_on_batch(normal(6, T, D), normal(6, T, D, seed=1))
    moved = [
        np.abs(numpy(w.value) - old).max() > 0
        for w, old in zip(model.trainable_weights, before, strict=True)
    ]
    assert all(moved)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    x = normal(2, T, D)
    found, expected = (numpy(program(m)(x)) for m in (loaded, model))
    np.testing.assert_allclose(found, expected, atol=1e-5)


@each_mixer
@slow_but_on("torch")
def test_quantized_and_adapted_projections(mixer, tmp_path):
    x = normal(2, T, 16)
    inputs = keras.Input((T, 16))
    layer = mixers.get(mixer, H, 8, N)
    model = keras.Model(inputs, layer(inputs))
    projections = [
        sub
        for sub in layer._flatten_layers(include_self=False)
        if isinstance(sub, (keras.layers.Dense, keras.layers.EinsumDense))
    ]
    expected = model.predict(x, verbose=0)
    for sub in projections:
        sub.enable_lora(2)
    np.testing.assert_allclose(model.predict(x, verbose=0), expected, atol=1e-5)
    model.quantize("int8")
    found = model.predict(x, verbose=0)
    away = np.abs(found - expected)
    if "jumps" in MIXERS[mixer]:
        away = np.median(away)
    assert away.max() < 0.1 * np.abs(expected).max() + 0.05
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded.predict(x, verbose=0), found, atol=1e-5)


@slow_but_on("torch")
@each_causal_mixer
def test_blocks_decode_by_any_mixer(mixer):
    block = SynthesizerDecoder(16, H, synthesizer=mixer, max_length=N)
    x = normal(3, T, D)
    expected = numpy(block(x))
    cache, outputs = block.make_caches(3, N)[0], []
    for start, end in ((0, 3), (3, 4), (4, T)):
        output, cache = block(
            x[:, start:end],
            self_attention_cache=cache,
            self_attention_cache_update_index=start,
        )
        outputs.append(numpy(output))
    np.testing.assert_allclose(
        np.concatenate(outputs, axis=1), expected, atol=1e-5
    )


def in_order(size, length, rng):
    """Digits, and whether a 3 stands directly before a 7."""
    ids = rng.integers(0, 10, (size, length))
    before, after = ids[:, :-1] == 3, ids[:, 1:] == 7
    ids[:, 1:][before & after] = 8
    wanted = np.arange(size) % 2
    for row in np.flatnonzero(wanted):
        place = rng.integers(0, length - 1)
        ids[row, place : place + 2] = 3, 7
    return ids, wanted


@pytest.mark.slow
@each_mixer
def test_a_rule_of_order_is_learned(mixer):
    length, rng = 12, np.random.default_rng(0)
    inputs = keras.Input((length,), dtype="int32")
    embedding = keras_hub.layers.TokenAndPositionEmbedding(10, length, 32)
    x = embedding(inputs)
    for _ in range(2):
        x = SynthesizerEncoder(64, H, synthesizer=mixer, max_length=length)(x)
    x = keras.layers.GlobalMaxPooling1D()(x)
    model = keras.Model(inputs, keras.layers.Dense(1, "sigmoid")(x))
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    ids, wanted = in_order(4000, length, rng)
    model.fit(ids, wanted, batch_size=50, epochs=12, verbose=0)
    ids, wanted = in_order(1000, length, rng)
    accuracy = model.evaluate(ids, wanted, verbose=0)[1]
    least = 0.75 if "partial" in MIXERS[mixer] else 0.9
    assert accuracy > least, accuracy

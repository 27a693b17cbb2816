"""Promises of all mixers, each once."""

import keras
import keras_hub
import numpy as np
import pytest
from arrays import normal, padding
from assertions import close, equal
from backend import (
    build_optimizer,
    gradients,
    numpy,
    program,
    slow_unless,
    some_on_each_backend,
    without_gradients,
)
from cached import decoded
from cases import (
    CASES,
    LAYERS,
    MIXERS,
    UNLIKE,
    D,
    H,
    K,
    N,
    T,
    each_kind,
    layers_that,
    made,
    output_bias,
    randomized,
    run,
    shared,
)
from keras import ops
from keras.src import testing  # private: wrapped only in `layer_test`
from language_models import assert_writes_as_without_caches, language_model

from keras_synth import mixers
from keras_synth._backend import execution
from keras_synth.layers import SynthesizerDecoder, SynthesizerEncoder

ON_TORCH = keras.backend.backend() == "torch"
# One of each way to compute, for tests that are slow on JAX and TensorFlow.
FEW = [
    *("dynamic_conv(width=3)", "gmlp", "strided(stride=3)", "linear"),
    *("routing(clusters=3)", "R+V", "D", "local D"),
]
MORE = [
    *("longformer(window=1)", "fnet", "mlp_mixer", "sinkhorn(block_size=3)"),
    *("performer(features=8)", "compressed(stride=2, kernel=3)"),
]
FEWEST = ["gmlp", "linear", "R+V"]
# One of each kind of projections, and of caches.
PROJECTED = [
    *("V", "D", "FD", "R", "heads", "gmlp", "linformer(rank=3)", "linear"),
    *("light_conv(width=3)", "dynamic_conv(width=3)", "longformer(window=1)"),
    "reformer(bucket_size=4, hashes=2)",
]
CACHED = [
    *("attention(R, normalizer='relu')", "gmlp", "mlp_mixer", "linear"),
    *("light_conv(width=3)", "local(window=2)", "longformer(window=1)"),
]


def is_causal(layer):
    return layer.supports_causal_mask


def takes_two_sequences(layer):
    return (
        layer.supports_cross_attention
        and getattr(layer, "pattern", None) is None
        and "LocalDense" not in str(layer.get_config())
    )


each = layers_that()
each_causal = layers_that(is_causal)
X = normal(3, T, D)


def ragged(length=T):
    """Nothing is padding; the end; and the first token and others."""
    mask = np.ones((3, length), bool)
    mask[1, 4:] = False
    mask[2, ::3] = False
    return mask


def test_every_name_has_a_case():
    cased = {name.split("(")[0] for name in MIXERS}
    assert {*mixers.names()} <= cased


# --- shapes, configs, files ---------------------------------------------------


@layers_that(on_each_backend=UNLIKE)
def test_a_config_makes_the_same_layer_again(name):
    layer = shared(name)
    again = type(layer).from_config(layer.get_config())
    assert again.get_config() == layer.get_config()
    again.build(X.shape)
    again.set_weights(layer.get_weights())
    assert layer.compute_output_shape(X.shape) == X.shape
    found = numpy(program(lambda x: again(x, value_mask=ragged()))(X))
    assert found.shape == X.shape
    close(found, run(name, X, value_mask=ragged()), 1e-6)


@each_kind
def test_keras_own_layer_test_passes(case):
    synthesizer = CASES[case]()
    synthesizer.build((None, T, D))
    testing.TestCase().run_layer_test(
        mixers.SyntheticAttention,
        init_kwargs={
            "num_heads": H,
            "key_dim": 4,
            "synthesizer": keras.saving.serialize_keras_object(CASES[case]()),
            "dropout": 0.1,
        },
        input_shape={"query_shape": (2, T, D), "value_shape": (2, T, D)},
        expected_output_shape=(2, T, D),
        expected_num_trainable_weights=4 + len(synthesizer.trainable_weights),
        expected_num_non_trainable_weights=int(case == "Fix"),
        expected_num_seed_generators=1,
        expected_num_losses=0,
        supports_masking=True,
        run_training_check=False,  # it cannot call with two tensors
        run_mixed_precision_check=True,
    )


@layers_that(on_each_backend=FEWEST, quick=UNLIKE)
def test_a_block_trains_and_comes_back_from_a_file(name, tmp_path):
    """In one compiled step, of lengths that are not known before."""
    inputs, mask = keras.Input((None, D)), keras.Input((None,), dtype="bool")
    synthesizer = CASES[name]() if name in CASES else name
    block = SynthesizerEncoder(
        16, H, synthesizer=synthesizer, max_length=N, dropout=0.1
    )
    model = keras.Model([inputs, mask], block(inputs, padding_mask=mask))
    jit = keras.backend.backend() != "torch"
    model.compile(keras.optimizers.SGD(1.0), "mse", jit_compile=jit)
    build_optimizer(model)
    randomized(block)
    before = [numpy(w.value) for w in model.trainable_weights]
    model.train_on_batch([X, ragged()], normal(3, T, D, seed=1))
    for weight, old in zip(model.trainable_weights, before, strict=True):
        new = numpy(weight.value)
        assert np.isfinite(new).all(), weight.path
        # A softmax ignores a common summand of all logits of a row.
        if not weight.path.endswith("key/bias"):
            assert np.abs(new - old).max() > 1e-7, weight.path
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    found, expected = (
        model.predict([X[:, :5], ragged(5)], verbose=0)
        for model in (loaded, model)
    )
    close(found, expected)
    whole = numpy(program(lambda x: block(x, padding_mask=ragged(5)))(X[:, :5]))
    close(found[ragged(5)], whole[ragged(5)])


@layers_that(quick=PROJECTED)
def test_quantized_and_adapted_projections(name, tmp_path):
    """LoRA starts without effect; int8 is near, also from a file."""
    x = normal(2, T, 16)
    inputs = keras.Input((T, 16))
    layer = made(name)
    model = keras.Model(inputs, layer(inputs))
    expected = model.predict(x, verbose=0)
    for sub in model._flatten_layers(include_self=False):
        if isinstance(sub, (keras.layers.Dense, keras.layers.EinsumDense)):
            sub.enable_lora(2)
    close(model.predict(x, verbose=0), expected)
    model.quantize("int8")
    found = model.predict(x, verbose=0)
    away = np.abs(found - expected)
    if "jumps" in LAYERS[name]:
        away = np.median(away)
    assert away.max() < 0.05 * np.abs(expected).max() + 0.01
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    close(loaded.predict(x, verbose=0), found)


@pytest.mark.parametrize("mode", ["int8", "int4", "float8"])
def test_a_quantized_sequential_model_is_loaded(mode, tmp_path):
    """It builds its layers in its name, but not when it is loaded."""
    x = normal(2, T, 16)
    model = keras.Sequential([keras.Input((T, 16)), made("heads")])
    model.quantize(mode)
    expected = model.predict(x, verbose=0)
    for _ in range(2):
        model.save(tmp_path / "model.keras")
        model = keras.models.load_model(tmp_path / "model.keras")
        close(model.predict(x, verbose=0), expected)


def check_a_copy(layer, frozen):
    """Keras would train the parts of a layer that is loaded."""
    layer.build((None, None, D))
    frozen.trainable = False
    copy = type(layer).from_config(layer.get_config())
    copy.build((None, None, D))
    assert len(copy.weights) == len(layer.weights)
    trained = [weight.path for weight in layer.weights if weight.trainable]
    assert trained == [x.path for x in copy.weights if x.trainable]
    assert not any(weight.trainable for weight in frozen.weights)


@layers_that()
def test_what_is_frozen_is_frozen_in_a_copy(name):
    layer = made(name)
    check_a_copy(layer, layer)


@pytest.mark.each_backend
@pytest.mark.parametrize("whole", [False, True])
def test_frozen_synthesizers_are_frozen_in_a_copy(whole):
    layer = made("D+V")
    part = layer.synthesizer
    check_a_copy(layer, part if whole else part.synthesizers[0])


PROJECTIONS = ["query/kernel", "query/bias", "key/kernel", "key/bias"]
UNTRAINED = {
    "Fix": ["synthesizer/R"],
    "V(fixed=True)": [f"synthesizer/{x}" for x in PROJECTIONS],
    "R + V(fixed=True)": [f"synthesizer/part_1/{x}" for x in PROJECTIONS],
    "an array": ["pattern"],
    "routing(clusters=3)": ["centroids"],
    "performer(redraw_interval=None)": ["projection"],
}


def untrained(model):
    return [w.path.split("/", 1)[1] for w in model.non_trainable_weights]


@pytest.mark.parametrize(
    "name", some_on_each_backend(UNTRAINED, ["Fix", "routing(clusters=3)"])
)
def test_what_is_not_trained_stays_so_when_all_is_unfrozen(name, tmp_path):
    array = np.random.default_rng(0).random((N, N)) < 0.7
    given = ("V", {"pattern": array}) if name == "an array" else (name, {})
    layer = mixers.get(given[0], H, K, N, **given[1])
    inputs = keras.Input((T, D))
    model = keras.Model(inputs, layer(inputs))
    model.trainable = False
    for thing in (model, layer, getattr(layer, "synthesizer", layer)):
        thing.trainable = True
        assert untrained(model) == untrained(layer) == UNTRAINED[name]
    before = layer.get_weights()
    model.compile(keras.optimizers.SGD(1.0), "mse")
    model.train_on_batch(X, normal(3, T, D, seed=1))
    for weight, old in zip(layer.weights, before, strict=True):
        trained = any(weight is w for w in layer.trainable_weights)
        # A step moves centroids to tokens near them.
        moves = trained or weight.name == "centroids"
        assert moves == (numpy(weight) != old).any(), weight.path
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    loaded.trainable = True
    assert untrained(loaded) == UNTRAINED[name]
    close(loaded(X), model(X))


def test_options_reach_the_projections():
    options = {"kernel_regularizer": "l2", "bias_constraint": "non_neg"}
    options |= {"kernel_initializer": "ones", "bias_initializer": "ones"}
    layer = made("R", **options)
    layer.build((None, None, D))
    weights = {w.path.split("/", 1)[1]: w for w in layer.weights}
    for role in ("value", "attention_output"):
        kernel, bias = weights[f"{role}/kernel"], weights[f"{role}/bias"]
        assert (numpy(kernel) == 1).all()
        assert (numpy(bias) == 1).all()
        assert kernel.regularizer is not None
        assert bias.constraint is not None
    assert len(layer.losses) >= 2


# --- masks --------------------------------------------------------------------


@pytest.fixture(params=["cpu"] + ["accelerator"] * ON_TORCH)
def device(request, monkeypatch):
    """Eager accelerators have detours of their own, that a CPU can take."""
    if request.param == "accelerator":
        monkeypatch.setattr(execution, "on_cpu", lambda x: False)


@layers_that(on_each_backend=[*FEW, *MORE])
def test_the_content_of_padding_does_not_matter(name, device):
    mask, layer = ragged(), shared(name)
    beyond = ~mask[..., None]
    masks = {"value_mask": mask, "query_mask": mask}
    expected = run(name, np.where(beyond, 0, X), **masks)
    for poison in (1e9, np.inf, np.nan):
        poisoned = np.where(beyond, np.float32(poison), X)
        close(run(name, poisoned, **masks)[mask], expected[mask])
    with without_gradients():
        found = run(name, poisoned, **masks)
    assert np.isfinite(found).all()
    close(found[mask], expected[mask])

    def loss(x, **masks):
        return ops.sum(ops.where(beyond, 0.0, layer(x, **masks)) ** 2)

    for given in (masks, {"value_mask": mask}):
        (slopes,) = gradients(lambda x, m=given: loss(x, **m), poisoned)
        assert np.isfinite(slopes).all()
        assert np.abs(slopes[mask]).max() > 1e-4
        assert not slopes[~mask].any()


@layers_that(on_each_backend=FEW)
def test_how_much_padding_there_is_does_not_matter(name):
    x, mask = normal(3, N, D), padding(T, 4, 1, size=N)
    expected = run(name, x, value_mask=mask)[:, :T]
    found = run(name, x[:, :T], value_mask=mask[:, :T])
    difference = np.abs(found - expected)[mask[:, :T]]
    assert (difference.max() > 1e-4) == ("amount" in LAYERS[name])


@pytest.mark.parametrize(
    ("name", "same"),
    [
        *((name, True) for name in ("V", "relative", "learned alibi+V")),
        *((name, True) for name in ("linear", "performer(features=8)")),
        *((name, True) for name in ("local(window=2)", "light_conv(width=3)")),
        *((name, False) for name in ("R", "FR", "Fix", "D", "FD", "gmlp")),
    ],
)
def test_positions_are_columns_and_count_padding_on_the_left(name, same):
    mask = padding(T, T - 3, size=T)[:, ::-1]
    found = run(name, X[:2], value_mask=mask, query_mask=mask)[1, 3:]
    alone = run(name, X[1:2, 3:])[0]
    assert (np.abs(found - alone).max() < 1e-5) == same


@layers_that(on_each_backend=FEW)
def test_masks_of_keras_count_as_explicit_ones(name):
    layer, mask = shared(name), padding(T, 4, 1, size=T)
    x = np.where(mask[..., None], X, 0)
    expected = run(name, x, value_mask=mask, query_mask=mask)
    tensor = ops.convert_to_tensor(x)
    close(run(name, x, mask=mask), expected)
    for found in (
        layer(keras.layers.Masking()(tensor)),
        layer(tensor, tensor, tensor, key_mask=mask, query_mask=mask),
    ):
        close(numpy(found), expected)
    # Another mask of queries does not replace it.
    inputs, rows = keras.Input((T, D)), keras.Input((T,), dtype="bool")
    found = layer(keras.layers.Masking()(inputs), query_mask=rows)
    found = keras.Model([inputs, rows], found)([x, np.ones((3, T), bool)])
    close(numpy(found)[mask], expected[mask])


@layers_that(on_each_backend=FEW)
def test_a_row_that_sees_nothing_is_the_output_bias(name):
    mask = ragged()
    mask[2] = False
    found = run(name, X, value_mask=mask)
    assert np.isfinite(found).all()
    close(found[2], np.tile(output_bias(name), (T, 1)))
    # So is a query that is padding itself, or zero, and it changes no other.
    again = run(name, X, value_mask=mask, query_mask=mask)
    has_heads = hasattr(shared(name), "attention_output")
    own = has_heads * output_bias(name)
    close(again[~mask], np.tile(own, ((~mask).sum(), 1)))
    close(again[mask], found[mask])


@layers_that(lambda layer: layer.supports_attention_scores, ["V", "D+V", "R"])
def test_scores_are_float32_and_zero_where_masks_hide(name):
    layer, mask, queries = shared(name), ragged(), padding(5, T, 2, size=T)
    masks = {"value_mask": mask, "query_mask": queries}
    if layer.supports_causal_mask:
        masks["use_causal_mask"] = True
    output, scores = run(name, X, **masks, return_attention_scores=True)
    close(output, run(name, X, **masks))  # by another route
    assert scores.shape == (3, H, T, T)
    hidden = ~(mask[:, None] & queries[:, :, None])
    if layer.supports_causal_mask:
        hidden = hidden | (np.arange(T) > np.arange(T)[:, None])
    hidden = np.broadcast_to(hidden[:, None], scores.shape)
    assert not scores[hidden].any()
    if "normalizer=" not in name and name != "relu":
        sums = scores.sum(-1)
        assert (np.isclose(sums, 1, atol=1e-5) | (sums == 0)).all()
        assert sums[0, :, :5].all()
    for policy in ("mixed_float16", "mixed_bfloat16"):
        half = shared(name, policy)
        own = half(X, **masks, return_attention_scores=True)[1]
        assert keras.backend.standardize_dtype(own.dtype) == "float32"


@pytest.mark.parametrize("normalize_first", [False, True])
@pytest.mark.parametrize("name", ["V", "R"])
def test_encoders_return_scores(name, normalize_first):
    block = SynthesizerEncoder(
        16, H, synthesizer=name, max_length=N, normalize_first=normalize_first
    )
    real, pairs = ragged(), normal(3, T, T, seed=7) < 1.0
    masks = {"padding_mask": real, "attention_mask": pairs}
    output, scores = map(numpy, block(X, **masks, return_attention_scores=True))
    close(numpy(block(X, **masks))[real], output[real])
    assert scores.shape == (3, H, T, T)
    rows = scores.transpose(0, 2, 1, 3)[real]  # (tokens, H, S)
    visible = (pairs & real[:, None])[real]  # (tokens, S)
    assert not rows[~np.repeat(visible[:, None], H, 1)].any()
    sums = np.repeat(visible.any(-1)[:, None], H, 1)
    close(rows.sum(-1), sums)


@pytest.mark.parametrize("shape", [(3, 1, 1, T), (H, T, T), (T, T)])
@pytest.mark.parametrize("name", ["V", "R", "R+V"])
def test_axes_that_a_bias_lacks_are_broadcast(name, shape):
    bias = normal(*shape, seed=2)
    whole = np.broadcast_to(bias, (3, H, T, T))
    for masks in ({}, {"value_mask": ragged()}):
        found, expected = (
            run(name, X, attention_bias=x, **masks) for x in (bias, whole)
        )
        close(found, expected)


@layers_that(is_causal, FEW)
def test_the_future_is_not_seen(name, device):
    expected, changes = run(name, X, use_causal_mask=True), []
    for seen in range(1, T):
        other = X.copy()
        other[:, seen:] = 100 * normal(3, T - seen, D, seed=1)
        found = run(name, other, use_causal_mask=True)
        close(found[:, :seen], expected[:, :seen])
        changes.append(np.abs(found[:, seen:] - expected[:, seen:]).max())
    # Weights of "relu" may be zero.
    least = np.median if "relu" in name else np.min
    assert least(changes) > 1e-3
    assert np.abs(run(name, X) - expected).max() > 1e-4


# --- caches -------------------------------------------------------------------


@layers_that(is_causal, [*FEW, "pooling(size=4)", "longformer(window=1)"])
def test_decoding_with_a_cache_is_one_causal_call(name):
    """Masks are of all that the cache has room for, or of the new tokens."""
    x = normal(3, N, D)
    for masked in ("whole", "new", "no")[: 3 if ON_TORCH else 1]:
        # Without a mask of all, padding that was left out is seen later, but
        # not by a state.
        is_state = not shared(name).overwrites_cache
        ends = padding(N, 4, 1, size=N)
        real = ragged(N) if masked == "whole" or is_state else ends

        def masks(start, end, kind=masked, real=real):
            part = real if kind == "whole" else real[:, start:end]
            return {} if kind == "no" else {"value_mask": part}

        expected = run(name, x, **masks(0, N), use_causal_mask=True)
        found, _ = decoded(shared(name), x, (4, 5, N), N, masks)
        close(found[real], expected[real])


@each_causal
def test_cache_entries_beyond_the_present_have_no_influence(name):
    layer = shared(name)
    if not layer.overwrites_cache:
        pytest.skip("its cache is only a state of the past")
    empty = layer.make_cache(3, N)
    full = keras.tree.map_structure(lambda x: ops.full(x.shape, 1e3), empty)
    step, x = program(layer.call_with_cache), ops.convert_to_tensor(X[:, :4])
    close(*(numpy(step(x, cache, 0)[0]) for cache in (empty, full)))


@layers_that(is_causal, FEW)
def test_the_content_of_padding_does_not_matter_to_a_cache(name, device):
    layer, mask = shared(name), padding(T, 4, 1, size=T)
    step, outputs = program(layer.call_with_cache), []
    for poison in (0, np.nan):
        x = np.where(mask[..., None], X, np.float32(poison))
        cache = layer.make_cache(3, T + 1)
        first, cache = step(x, cache, 0, mask)
        later = np.ones((3, 1), bool)
        if layer.overwrites_cache:
            later = np.concatenate([mask, later], axis=1)
        last, _ = step(x[:, :1], cache, T, later)
        outputs.append((numpy(first)[mask], numpy(last)))
    close(*outputs)


@each_causal
def test_a_cache_of_another_layer_is_an_error(name):
    layer = shared(name)
    own = layer.make_cache(3, N)
    wider = keras.tree.map_structure(lambda x: ops.stack([x, x], -1), own)
    of_two_samples = layer.make_cache(2, N)
    for other in (wider, of_two_samples, {"other": own}, (own, own), None):
        with pytest.raises(ValueError, match=r"make_cache.*Received"):
            layer.call_with_cache(X, other, 0)
    for x, words in ((X.astype("int32"), "floating-point"), (X[None], "axes")):
        for call in (layer, lambda x: layer.call_with_cache(x, own, 0)):
            with pytest.raises(ValueError, match=rf"{words}.*Received"):
                call(x)
    for shape in ((1, T), (3, 1, T)):
        with pytest.raises(ValueError, match=r"value_mask.*Received"):
            layer.call_with_cache(X, own, 0, np.ones(shape, bool))
    if layer.overwrites_cache:
        with pytest.raises(ValueError, match=f"room for {N} tokens"):
            layer.call_with_cache(X, own, N - T + 1)


@each_causal
@pytest.mark.parametrize("shape", [(0, 4), (2, 0)])
def test_a_cache_works_without_samples_and_tokens(name, shape):
    layer = shared(name)
    x, cache = np.zeros((*shape, D), "float32"), layer.make_cache(shape[0], T)
    output, after = layer.call_with_cache(x, cache, 0)
    assert tuple(output.shape) == x.shape == tuple(layer(x).shape)
    equal(after, cache)


@layers_that(takes_two_sequences, FEW)
def test_another_sequence_is_attended_to_with_and_without_a_cache(name):
    layer, source = shared(name), normal(3, N, D, seed=1)
    mask = ragged(N)
    expected = run(name, X[:, :5], source, value_mask=mask)
    assert np.abs(expected - run(name, X[:, :5], source)).max() > 1e-4
    memory = layer.remember(ops.convert_to_tensor(source))
    for shape in ((3, N - 1), (1, N)):
        with pytest.raises(ValueError, match=r"value_mask.*Received"):
            layer.call_with_cache(X, memory, value_mask=np.ones(shape, bool))
    found, same = layer.call_with_cache(X[:, :5], memory, value_mask=mask)
    assert same is memory
    close(numpy(found), expected)


@layers_that(lambda layer: layer.supports_cross_attention)
def test_a_remembered_source_can_have_no_tokens(name):
    layer = shared(name)
    x, source = normal(3, 2, D), np.zeros((3, 0, D), "float32")
    try:
        expected = layer(x, source)
    except ValueError:
        with pytest.raises(ValueError, match="Received"):
            layer.call_with_cache(x, layer.remember(source))
        return
    output, _ = layer.call_with_cache(x, layer.remember(source))
    close(numpy(output), numpy(expected), 1e-6)


@pytest.mark.parametrize(
    "name",
    slow_unless(
        CACHED,
        [name for name in MIXERS if is_causal(mixers.get(name, H, K, N))],
    ),
)
def test_generating_with_caches_is_generating_without(name):
    prompts = ["a quick", "the lazy dog and then", "fox"]
    assert_writes_as_without_caches(language_model(name), prompts)


# --- precision, dropout -------------------------------------------------------


@pytest.mark.parametrize(
    "policy, share", [("mixed_bfloat16", 0.05), ("mixed_float16", 0.01)]
)
@layers_that(on_each_backend=FEW)
def test_half_precision_is_finite_and_close(name, policy, share):
    half, mask = shared(name, policy), ragged()
    half.set_weights(shared(name).get_weights())
    large = 10 if "unbounded" in LAYERS[name] else 100
    assert np.isfinite(
        run(name, large * X, policy=policy, value_mask=mask)
    ).all()
    traced = half(keras.KerasTensor(X.shape))
    assert traced.dtype == policy.removeprefix("mixed_")
    expected = run(name, X, value_mask=mask)
    away = np.abs(run(name, X, policy=policy, value_mask=mask) - expected)
    if "jumps" in LAYERS[name]:
        away = np.median(away)
    assert away.max() < share * np.abs(expected).max()


@each
@pytest.mark.parametrize(
    "policy, size", [("float32", 1e4), ("mixed_float16", 300.0)]
)
def test_large_features_overflow_nothing(name, policy, size):
    if policy == "mixed_float16" and "unbounded" in LAYERS[name]:
        pytest.skip("the third power of the input")
    if name == "FD linear" and policy == "float32":
        # Its logits, 1e9, are products. XLA subtracts the rounded maximum from
        # products that it does not round.
        size /= 10
    keras.utils.set_random_seed(0)
    layer = made(name, policy)

    def loss(x, **masks):
        return ops.sum(ops.cast(layer(x, **masks), "float32")) / size

    for masks in ({}, {"value_mask": ragged()}):
        assert np.isfinite(numpy(layer(size * X, **masks))).all()
        (slopes,) = gradients(lambda x, m=masks: loss(x, **m), size * X)
        assert np.isfinite(slopes).all()


@layers_that(lambda layer: hasattr(layer, "dropout"), ["V", "R"])
def test_dropout_acts_in_training_only(name):
    plain, layer = shared(name), made(name, dropout=0.5)
    assert len(plain.variables) - len(plain.weights) == ("performer" in name)
    layer.build((None, None, D))
    layer.set_weights(plain.get_weights())
    expected = run(name, X)
    close(layer(X, training=False), expected)
    close(layer(X), expected)
    drawn = [numpy(layer(X, training=True)) for _ in range(3)]
    assert np.abs(drawn[0] - expected).max() > 1e-3
    assert np.abs(drawn[0] - drawn[1]).max() > 1e-3


@pytest.mark.parametrize("name", ["V", "D", "R", "FR+V"])
def test_dropout_is_drawn_per_sample_where_weights_are(name):
    """Two samples that are equal, in one call."""
    layer = mixers.get(name, H, 4, N, dropout=0.5, seed=1)
    x = np.tile(X[:1], (2, 1, 1))
    layer(x)
    one, two = numpy(layer(x, training=True, return_attention_scores=True)[0])
    assert np.abs(one - two).max() > 1e-3
    one, two = numpy(layer(x, training=True))
    if name == "R":  # one table of weights for the batch is drawn from once
        close(one, two)
    else:
        assert np.abs(one - two).max() > 1e-3


@pytest.mark.parametrize("name", ["V", "R", "FD"])
def test_dropout_follows_normalization_and_keeps_the_mean(name):
    """A row of one weight, 1, becomes either 0 or 1 / (1 - rate)."""
    layer = randomized(mixers.get(name, 1, 4, N, dropout=0.75, seed=1))
    x = np.repeat(X[:1, :1], 4, axis=0)
    bias = numpy(layer.attention_output.bias)
    clean, dropped = numpy(layer(x)) - bias, []
    for _ in range(12):
        context = numpy(layer(x, training=True)) - bias
        for before, after in zip(clean, context, strict=True):
            dropped.append(bool(np.abs(after).max() < 1e-6))
            close(after, before * (0.0 if dropped[-1] else 4.0), 1e-4)
    assert {*dropped} == {False, True}


# --- errors -------------------------------------------------------------------


def test_the_synthesizer_is_keyword_only():
    with pytest.raises(TypeError):
        mixers.SyntheticAttention(H, K, "V")


@each_causal
def test_a_layer_that_is_not_built_says_so_before_it_decodes(name):
    layer = made(name)
    with pytest.raises(ValueError, match=r"Call it.*Received.*not built"):
        layer.call_with_cache(normal(2, 1, D), layer.make_cache(2, T), 0)
    if layer.supports_cross_attention:
        with pytest.raises(ValueError, match="not built"):
            layer.remember(normal(2, T, D))


@each
def test_masks_and_sources_of_another_shape_are_errors(name):
    layer = shared(name)
    for mask in ("query_mask", "value_mask", "key_mask"):
        for shape in [(3, T + 1), (2, T)]:
            words = f"`{mask}` must have the shape"
            with pytest.raises(ValueError, match=words):
                layer(X, **{mask: np.ones(shape, bool)})
    if layer.supports_cross_attention:
        with pytest.raises(ValueError, match=r"must be equal|neighbours"):
            layer(X, normal(2, T, D))

    if layer.supports_attention_bias:
        with pytest.raises(ValueError, match=r"as `attention_mask`.*bool"):
            layer(X, attention_bias=np.ones((1, 1, T, T), bool))


LACKING = {
    "attention_mask": np.ones((3, T, T), bool),
    "attention_bias": np.zeros((1, 1, T, T), "float32"),
    "attention_scores": True,
    "causal_mask": True,
}


@each
def test_unsupported_arguments_are_errors(name):
    layer = shared(name)
    for lack, value in LACKING.items():
        if getattr(layer, f"supports_{lack}"):
            continue
        argument = {
            "attention_scores": "return_attention_scores",
            "causal_mask": "use_causal_mask",
        }.get(lack, lack)
        words = r"(does not support|causal).*Received"
        with pytest.raises(ValueError, match=words):
            layer(X, **{argument: value})
        if lack in ("attention_mask", "attention_bias") and is_causal(layer):
            cache = layer.make_cache(3, T)
            with pytest.raises(ValueError, match=words):
                layer.call_with_cache(X, cache, 0, **{argument: value})
        if lack == "attention_mask":  # but padding in this form is supported
            for mask in (ragged()[:, None], ragged()[:, None, None]):
                found = run(name, X, attention_mask=mask)
                close(found, run(name, X, value_mask=ragged()))
    if not layer.supports_cross_attention:
        with pytest.raises(ValueError, match=r"one sequence.*Received"):
            layer(X, normal(3, T, D, seed=1))
    if not layer.supports_causal_mask:
        with pytest.raises(ValueError, match=r"no causal form.*Received"):
            SynthesizerDecoder(16, H, synthesizer=name, max_length=N)
        with pytest.raises(NotImplementedError, match="cannot decode"):
            layer.call_with_cache(X, layer.make_cache(3, T), 0)
        if not layer.supports_cross_attention:
            with pytest.raises(NotImplementedError, match="cannot decode"):
                layer.remember(X)


@layers_that(lambda layer: not layer.supports_cross_attention)
def test_mixers_of_one_sequence_have_three_axes_and_decode_in_order(name):
    for shape in ((2, T), (2, T, 3, D)):
        with pytest.raises(ValueError, match=r"axes.*Received"):
            made(name)(normal(*shape))
    layer = shared(name)
    if not layer.supports_causal_mask:
        return
    cache = layer.make_cache(3, T)
    for refused in ({"use_causal_mask": False}, {"start": None}):
        with pytest.raises(ValueError, match="Received"):
            layer.call_with_cache(X, cache, **{"start": 0, **refused})


def needs_length(name):
    try:
        mixers.get(name, H, 4)
    except ValueError as error:
        return "max_length" in str(error)
    return False


@pytest.mark.parametrize("name", [*filter(needs_length, MIXERS)])
def test_longer_sequences_are_errors_by_both_lengths(name):
    for x in (normal(3, N + 1, D), keras.Input((N + 1, D))):
        with pytest.raises(ValueError, match=rf"\b{N + 1}\b.*max_length={N}"):
            shared(name)(x)


# --- custom layers ------------------------------------------------------------


class Raw(mixers.SelfMixer):
    """Returns the arguments of its call."""

    def mix(self, x, padding_mask=None, causal=False, training=None):
        self.padding_mask = padding_mask
        return x


def test_padded_queries_are_zero_without_a_mixers_help():
    layer, mask = Raw(), ragged()
    found = numpy(layer(X, query_mask=mask))
    equal(found, np.where(mask[..., None], X, 0))
    assert layer.padding_mask is None
    layer(X, value_mask=mask)
    equal(layer.padding_mask, mask)


def test_outputs_of_each_projection_are_regularized_once():
    name = "longformer(window=1, activity_regularizer='l2')"
    layer = mixers.get(name, H, 4)
    layer(X)
    # Of queries, keys and values, of global ones, and of merged heads.
    assert len(layer.losses) == 7


# --- training -----------------------------------------------------------------


def in_order(size, length, rng):
    """Digits, and whether a 3 is directly before a 7."""
    ids = rng.integers(0, 10, (size, length))
    before, after = ids[:, :-1] == 3, ids[:, 1:] == 7
    ids[:, 1:][before & after] = 8
    wanted = np.arange(size) % 2
    for row in np.flatnonzero(wanted):
        place = rng.integers(0, length - 1)
        ids[row, place : place + 2] = 3, 7
    return ids, wanted


@pytest.mark.slow
@pytest.mark.parametrize("name", MIXERS)
def test_a_rule_of_order_is_learned(name):
    length, rng = 12, np.random.default_rng(0)
    inputs = keras.Input((length,), dtype="int32")
    embedding = keras_hub.layers.TokenAndPositionEmbedding(10, length, 32)
    x = embedding(inputs)
    for _ in range(2):
        x = SynthesizerEncoder(64, H, synthesizer=name, max_length=length)(x)
    x = keras.layers.GlobalMaxPooling1D()(x)
    model = keras.Model(inputs, keras.layers.Dense(1, "sigmoid")(x))
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    ids, wanted = in_order(4000, length, rng)
    model.fit(ids, wanted, batch_size=50, epochs=12, verbose=0)
    ids, wanted = in_order(1000, length, rng)
    accuracy = model.evaluate(ids, wanted, verbose=0)[1]
    least = 0.75 if "partial" in MIXERS[name] else 0.9
    assert accuracy > least, accuracy

"""Calls of attention that went wrong in other libraries.

A case of the table yields pairs of arrays that must be equal.
"""

import copy
import pickle
from inspect import signature

import keras
import numpy as np
import pytest
from arrays import normal, padding
from assertions import close
from backend import gradients, numpy, only_on, some_on_each_backend
from cached import in_parts
from cases import MIXERS, run, shared
from keras import ops

from keras_synth import mixers
from keras_synth.layers import (
    SynthesizerDecoder,
    SynthesizerEncoder,
    SyntheticAttention,
)

H, K, D, T, N = 2, 4, 8, 6, 8
X, OTHER = normal(2, T, D), normal(2, T, D, seed=1)
REAL = padding(T, 4, size=T)
GROUPED = "R + V(rotary=True, num_key_value_heads=1)"
NAMES = ["V", "R", "D", GROUPED]


def attention(name, **options):
    options = {"synthesizer": name, "max_length": N, **options}
    return SyntheticAttention(H, K, **options)


def with_weights_of(layer, other):
    other.build((None, None, D))
    other.set_weights(layer.get_weights())
    return other


# --- masks --------------------------------------------------------------------


def a_masked_head_is_zero_with_scores_and_without(name):
    layer, mask = attention(name), np.ones((2, H, T, T), bool)
    mask[:, 1] = False
    output, scores = layer(X, attention_mask=mask, return_attention_scores=True)
    yield output, layer(X, attention_mask=mask)
    yield scores[:, 1], np.zeros((2, T, T))


def masks_count_whatever_their_dtype(name):
    layer, pairs = attention(name), np.tril(np.ones((2, T, T), bool))
    for dtype in ("int32", "uint8", "float32"):
        for mask in ({"attention_mask": pairs}, {"value_mask": REAL}):
            (key, value), *_ = mask.items()
            yield layer(X, **mask), layer(X, **{key: value.astype(dtype)})
    bias = np.where(pairs, 0.0, -1e9)[:, None]
    yield layer(X, attention_bias=bias), layer(X, attention_mask=pairs)


def masks_of_equal_sizes_keep_their_axes(name):
    """Samples, heads, queries and keys: a wrong axis would broadcast."""
    q, v = normal(4, 4, D), normal(4, 4, D, seed=1)
    layer = SyntheticAttention(4, 2, synthesizer=name, max_length=4)
    for shape in [
        *((4, 4), (4, 1, 4), (4, 4, 4), (4, 1, 1)),
        *((1, 1, 4, 4), (4, 1, 1, 4)),
    ]:
        mask = np.random.default_rng(0).random(shape) < 0.6
        whole = mask if len(shape) == 4 else mask[..., None, :, :]
        whole = np.broadcast_to(whole, (4, 4, 4, 4))
        yield (
            layer(q, v, attention_mask=mask),
            layer(q, v, attention_mask=whole),
        )
    keys = np.random.default_rng(1).random((4, 4)) < 0.6
    whole = np.broadcast_to(keys[:, None, None], (4, 4, 4, 4))
    yield layer(q, v, value_mask=keys), layer(q, v, attention_mask=whole)


def a_window_is_a_mask_and_a_pattern(name):
    """Whole blocks of a kernel see nothing at 640 tokens."""
    x, i = normal(1, 640, D), np.arange(640)
    band = (i[:, None] - i < 10) & (i <= i[:, None])
    masked = attention(name, max_length=640)
    expected = masked(x, attention_mask=band)
    for option in ({"sliding_window": 10}, {"pattern": "local(window=9)"}):
        layer = attention(name, max_length=640, **option)
        layer = with_weights_of(masked, layer)
        yield layer(x, use_causal_mask=True), expected


# --- axes ---------------------------------------------------------------------


def a_keras_mask_has_the_axes_of_tokens(name):
    x, real = normal(2, 2, 4, D), normal(2, 2, 4) > -0.5
    real[..., 0] = True
    x = keras.layers.Masking()(x * real[..., None])
    flat, mask = numpy(x).reshape(2, 8, D), real.reshape(2, 8)
    grid = attention(name, attention_axes=(1, 2))
    found = grid(x)
    yield found._keras_mask, real
    line = with_weights_of(grid, attention(name))
    expected = numpy(line(flat, mask=mask)).reshape(x.shape)
    yield numpy(found)[real], expected[real]


# --- caches -------------------------------------------------------------------


def a_window_does_not_cut_the_source(name):
    """And a mask of real tokens changes nothing."""
    mixer = attention(name, sliding_window=2)
    block = SynthesizerDecoder(16, H, synthesizer=mixer)
    source, ends = normal(2, 11, D, seed=2), (2, 3, T)
    expected = block(X, source)
    yield in_parts(block, X, ends, N, source)[0], expected
    masks = {"decoder_padding_mask": np.ones((2, N), bool)}
    found, _ = in_parts(block, X, ends, N, source, lambda start, end: masks)
    yield found, expected


# --- files, copies ------------------------------------------------------------


def constant_masks_and_biases_are_saved(name, folder):
    x = keras.Input((T, D))
    for constant in (
        {"attention_mask": np.tril(np.ones((T, T), bool))},
        {"attention_bias": normal(1, H, T, T)},
    ):
        model = keras.Model(x, attention(name)(x, x, **constant))
        model.save(folder / "model.keras")
        loaded = keras.models.load_model(folder / "model.keras")
        yield loaded(X), model(X)
        clone = keras.models.clone_model(model)
        clone.set_weights(model.get_weights())
        yield clone(X), model(X)


def copies_share_no_weights(name):
    layer = SynthesizerEncoder(16, H, synthesizer=name, max_length=N)
    copy.deepcopy(layer)(X)  # before it is built
    expected = layer(X)
    inputs = keras.Input((T, D))
    model = keras.Model(inputs, layer(inputs))
    for original in (layer, model):
        for made in (
            copy.deepcopy(original),
            pickle.loads(pickle.dumps(original)),
        ):
            yield made(X), expected
            for weight in made.trainable_weights:
                weight.assign(ops.zeros(weight.shape, weight.dtype))
            yield original(X), expected


def a_seed_is_in_the_config(name):
    for mixer in (name, "Fix", "FR", "performer", "big_bird(block_size=2)"):
        layer = mixers.get(mixer, H, K, N, seed=7)
        again = type(layer).from_config(layer.get_config())
        layer.build(X.shape)
        again.build(X.shape)
        yield from zip(layer.get_weights(), again.get_weights(), strict=True)
        yield layer(X), again(X)


# --- gradients, symbolic calls ------------------------------------------------


def tables_learn_where_all_else_is_frozen(name):
    name = name if "R" in name else f"R + {name}"
    layer = attention(name)
    model = keras.Sequential([keras.Input((T, D)), layer])
    for weight in layer.weights:
        weight.trainable = weight.name == "R"
    model.compile(keras.optimizers.SGD(1.0), "mse", jit_compile=False)
    before = [numpy(weight) for weight in layer.weights]
    model.fit(X, OTHER, verbose=0)
    for weight, old in zip(layer.weights, before, strict=True):
        if weight.name == "R":
            assert np.abs(numpy(weight) - old)[:, :T, :T].max() > 1e-6
        else:
            yield weight, old


def shapes_are_known_before_a_layer_is_built(name):
    layer = attention(name, output_shape=(3, 4))
    for shape in [(2, T, D), [2, T, D], (None, None, D)]:
        yield (
            np.array([x or 0 for x in layer.compute_output_shape(shape)]),
            np.array([x or 0 for x in (*shape[:2], 3, 4)]),
        )
    assert not layer.built
    x = keras.KerasTensor((2, T, D))
    _, scores = layer.compute_output_spec(x, return_attention_scores=True)
    yield np.array(scores.shape), np.array((2, H, T, T))
    yield np.array(layer.compute_output_spec(x).shape), (2, T, 3, 4)


CASES = [
    a_masked_head_is_zero_with_scores_and_without,
    masks_count_whatever_their_dtype,
    masks_of_equal_sizes_keep_their_axes,
    a_window_is_a_mask_and_a_pattern,
    a_keras_mask_has_the_axes_of_tokens,
    a_window_does_not_cut_the_source,
    constant_masks_and_biases_are_saved,
    copies_share_no_weights,
    a_seed_is_in_the_config,
    tables_learn_where_all_else_is_frozen,
    shapes_are_known_before_a_layer_is_built,
]
SLOW = [copies_share_no_weights]  # this takes a second
DIFFERING = [(masks_count_whatever_their_dtype, GROUPED)]


def table():
    for case in CASES:
        for name in [GROUPED] if case in SLOW else NAMES:
            mark = [pytest.mark.each_backend] * ((case, name) in DIFFERING)
            yield pytest.param(
                case, name, id=f"{case.__name__}-{name}", marks=mark
            )


@pytest.mark.parametrize("case, name", [*table()])
def test_each_pair_is_equal(case, name, tmp_path):
    folder = (
        {"folder": tmp_path} if "folder" in signature(case).parameters else {}
    )
    for found, expected in case(name, **folder):
        close(found, expected)


# --- what is not a pair -------------------------------------------------------


causal = pytest.mark.parametrize(
    "name",
    some_on_each_backend([*NAMES, "local(window=2)", "linear"], ["V", GROUPED]),
)


@causal
def test_a_token_that_is_nan_is_not_hidden(name):
    x = X.copy()
    x[0, 3] = np.nan
    layer = mixers.get(name, H, K, N)
    for training in (False, True):
        y = numpy(layer(x, training=training, use_causal_mask=True))
        seen = 2 if "local" in name else T
        assert np.isnan(y[0, 3 : 4 + seen]).all()
        assert np.isfinite(y[1]).all()


@causal
def test_the_past_does_not_learn_from_the_future(name):
    """With dropout, which needs the weights."""
    layer = mixers.get(name, H, K, N, dropout=0.3)
    layer.build(X.shape)

    def past(x):
        y = layer(x, training=True, use_causal_mask=True)
        return ops.sum(y[:, :3] ** 2)

    (slopes,) = gradients(past, X)
    assert not slopes[:, 3:].any()
    assert np.abs(slopes[:, :3]).max() > 1e-4


@pytest.mark.parametrize("name", some_on_each_backend(MIXERS, ["V", "gmlp"]))
def test_batches_and_sequences_can_be_empty(name):
    layer = shared(name)
    for shape in [(0, T, D), (2, 0, D), (0, 0, D)]:
        x = np.zeros(shape, "float32")
        for masks in ({}, {"value_mask": np.ones(shape[:2], bool)}):
            assert run(name, x, **masks).shape == shape
        (slopes,) = gradients(lambda x: ops.sum(layer(x)), x)
        assert slopes.shape == shape


@pytest.mark.each_backend
@only_on("tensorflow", "it has ragged tensors")
def test_ragged_tensors_are_errors_with_a_solution():
    import tensorflow as tf

    x = tf.RaggedTensor.from_tensor(X, lengths=[T, 4])
    block = SynthesizerEncoder(16, H, synthesizer="V")
    for layer in (attention("R"), mixers.get("light_conv", H), block):
        with pytest.raises(ValueError, match=r"to_tensor.*RaggedTensor"):
            layer(x)

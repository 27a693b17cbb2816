"""Blocks around any mixer: biases, masks, objects that do not fit."""

import keras
import numpy as np
import pytest
from arrays import normal
from assertions import close
from backend import gradients, numpy
from keras import ops

from keras_synth import mixers
from keras_synth.layers import (
    FeedForward,
    Residual,
    SynthesizerDecoder,
    SynthesizerEncoder,
)

H, K, D, N, T = 2, 4, 8, 9, 7


def test_a_mixer_can_have_any_further_arguments():
    class Any(mixers.SelfMixer):
        def call(self, query, value=None, key=None, mask=None, **kwargs):
            assert kwargs == {"scale": 2.0, "value_mask": None}
            return kwargs["scale"] * query

    x = normal(3, T, D)
    found = numpy(Any()(x, x, scale=2.0, value_mask=None))
    close(found, 2 * x, atol=0)


@pytest.mark.parametrize(
    ("cls", "mixer", "options", "words"),
    [
        (SynthesizerEncoder, "R", {}, "9 tokens is longer"),
        (SynthesizerDecoder, "R", {}, "9 tokens is longer"),
        (
            SynthesizerEncoder,
            "fnet",
            {"return_attention_scores": True},
            "does not support `return_attention_scores`",
        ),
        (
            SynthesizerDecoder,
            "linear",
            {"decoder_attention_mask": keras.KerasTensor((None, N, N))},
            "does not support `attention_mask`",
        ),
    ],
)
def test_a_model_that_cannot_run_is_not_made(cls, mixer, options, words):
    block = cls(16, H, synthesizer=mixer, max_length=T)
    with pytest.raises(ValueError, match=words):
        block(keras.Input((N, D)), **options)


@pytest.mark.parametrize("cls", [SynthesizerEncoder, SynthesizerDecoder])
def test_padding_can_be_anywhere_in_grids_of_tokens(cls):
    name = f"{'decoder_' * (cls is SynthesizerDecoder)}padding_mask"
    x, mask = normal(2, 3, 3, D), normal(2, 3, 3, seed=1) > 0
    x[~mask] = np.nan
    block = cls(16, H, synthesizer="R+V", max_length=N)
    found = numpy(block(x, **{name: mask}))
    flat = cls(16, H, synthesizer="R+V", max_length=N)
    flat.build((2, N, D))
    flat.set_weights(block.get_weights())
    expected = numpy(flat(x.reshape(2, N, D), **{name: mask.reshape(2, N)}))
    close(found[mask], expected.reshape(x.shape)[mask])


def test_objects_with_weights_or_other_heads_are_errors():
    built = mixers.get("V", H, K)
    built.build((None, T, D))
    with pytest.raises(ValueError, match=r"weights of this one.*Received"):
        SynthesizerEncoder(16, H, synthesizer=built)
    with pytest.raises(ValueError, match=r"same number of heads.*Received"):
        SynthesizerEncoder(16, H + 1, synthesizer=mixers.get("V", H, K))


@pytest.mark.parametrize(
    ("cls", "name"),
    [
        (SynthesizerEncoder, "padding_mask"),
        (SynthesizerDecoder, "decoder_padding_mask"),
    ],
)
@pytest.mark.parametrize("shape", [(2, T - 1), (2, 1), (3, T), (2, T, 1)])
def test_a_padding_mask_of_another_shape_is_an_error(cls, name, shape):
    block = cls(16, H, synthesizer="V")
    mask = {name: np.ones(shape, bool)}
    with pytest.raises(ValueError, match=rf"`{name}` must.*\(2, 7\).*Received"):
        block(normal(2, T, D), **mask)


@pytest.mark.parametrize("options", [{}, {"normalize_first": True}])
def test_a_decoder_in_half_precision_reads_the_masks_of_keras(options):
    """Of tensors that it casts."""
    embedding = keras.layers.Embedding(9, D, mask_zero=True)
    ids = np.array([[0, 0, 1, 2, 3], [0, 4, 5, 6, 7]])
    block = SynthesizerDecoder(
        16, H, synthesizer="V", dtype="mixed_bfloat16", **options
    )
    found = block(embedding(ids))
    assert keras.backend.standardize_dtype(found.dtype) == "bfloat16"
    x = ops.convert_to_tensor(numpy(embedding(ids)))  # without a mask
    expected = numpy(block(x, decoder_padding_mask=ids != 0))
    close(numpy(found)[ids != 0], expected[ids != 0], atol=0)
    assert np.abs(numpy(block(x)) - numpy(found)).max() > 0.01


@pytest.mark.each_backend
@pytest.mark.parametrize("normalize_first", [False, True])
def test_nan_in_padding_reaches_no_gradient(normalize_first):
    options = {"synthesizer": "V", "normalize_first": normalize_first}
    real = np.arange(T) < np.array([T, 4, 1])[:, None]
    spoiled = np.where(real[..., None], normal(3, T, D), np.float32(np.nan))

    def loss(y):
        return ops.sum(ops.where(real[..., None], y, 0.0) ** 3)

    encoder = SynthesizerEncoder(16, H, **options)
    decoder = SynthesizerDecoder(16, H, **options)
    encoder.build(spoiled.shape)
    decoder.build(spoiled.shape, spoiled.shape)
    slopes = gradients(lambda x: loss(encoder(x, real)), spoiled)
    masks = {"decoder_padding_mask": real, "encoder_padding_mask": real}
    slopes += gradients(
        lambda x, source: loss(decoder(x, source, **masks)), spoiled, spoiled
    )
    for slope in slopes:
        assert np.isfinite(slope).all()
        assert not slope[~real].any()
        assert np.abs(slope[real]).max() > 1e-4


# --- dropout ------------------------------------------------------------------

X = np.ones((1, 4, 8), "float32")


def made(**options):
    """A network whose output is the mean of its hidden layer of ones."""
    layer = FeedForward(
        1000, kernel_initializer="ones", use_bias=False, **options
    )
    layer.build(X.shape)
    kernel, output = layer.weights
    kernel.assign(np.full(kernel.shape, 1 / 8))
    output.assign(np.full(output.shape, 1 / 1000))
    return layer


@pytest.mark.each_backend
def test_hidden_features_are_dropped_in_training():
    layer = made(dropout=0.5)
    close(layer(X, training=False), X, atol=0, rtol=1e-5)
    dropped = numpy(layer(X, training=True))[..., 0]  # (1, 4)
    # Half of 1,000 ones, doubled: the standard deviation is 0.03.
    assert 0.001 < np.abs(dropped - 1).max() < 0.2
    assert len(np.unique(dropped)) > 1  # each token has its own draw


def test_sums_are_normalized_as_in_the_blocks_of_kerashub():
    x = 1e-3 * normal(2, T, D)  # small enough that epsilon counts
    expected = keras.layers.LayerNormalization(epsilon=1e-5)(2 * x)
    close(Residual().after(x, x), expected, atol=0)


def test_a_block_hands_it_on():
    options = {"synthesizer": "V", "dropout": 0.0, "feed_forward_dropout": 0.9}
    block = SynthesizerEncoder(32, 2, **options)
    x = normal(1, 4, 8)
    still, moving = (numpy(block(x, training=t)) for t in (False, True))
    assert np.abs(still - moving).max() > 1e-3


def test_a_block_drops_summands_but_not_the_sum():
    """With a rate of a half, summands of a block are dropped or doubled."""
    block = SynthesizerEncoder(
        8, 2, synthesizer="fnet", dropout=0.5, normalize_first=True
    )
    x = normal(2, 4, 8)
    block(x)
    for weight in block.feed_forward.weights:  # it adds nothing
        weight.assign(np.zeros(weight.shape))
    added = numpy(block(x)) - x
    dropped = numpy(block(x, training=True)) - x
    is_dropped = np.abs(dropped) < 1e-6
    assert 0.1 < is_dropped.mean() < 0.9
    close(dropped[~is_dropped], 2 * added[~is_dropped], atol=1e-4)


def test_an_initializer_can_be_a_function():
    def halves(shape, dtype=None):
        return ops.full(shape, 0.5, dtype)

    layer = FeedForward(4, kernel_initializer=halves, bias_initializer=halves)
    x = np.ones((1, 1, 2), "float32")
    close(layer(x), [[[4 * 0.5 * 1.5 + 0.5] * 2]])

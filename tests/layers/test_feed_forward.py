"""Dropout between the two layers of a feed-forward network."""

import numpy as np
from arrays import normal
from backend import numpy

from keras_synth.layers import FeedForward, SynthesizerEncoder

X = np.ones((1, 4, 8), "float32")


def made(**options):
    """A network that gives the mean of its hidden layer, which is all ones."""
    layer = FeedForward(
        1000, kernel_initializer="ones", use_bias=False, **options
    )
    layer.build(X.shape)
    kernel, output = layer.weights
    kernel.assign(np.full(kernel.shape, 1 / 8))
    output.assign(np.full(output.shape, 1 / 1000))
    return layer


def test_hidden_features_are_dropped_in_training():
    layer = made(dropout=0.5)
    np.testing.assert_allclose(numpy(layer(X, training=False)), X, rtol=1e-5)
    dropped = numpy(layer(X, training=True))[..., 0]  # (1, 4)
    # Half of 1,000 ones, doubled: the standard deviation is 0.03.
    assert 0.001 < np.abs(dropped - 1).max() < 0.2
    assert len(np.unique(dropped)) > 1  # each token has a draw of its own


def test_a_block_hands_it_on():
    options = {"synthesizer": "V", "dropout": 0.0, "feed_forward_dropout": 0.9}
    block = SynthesizerEncoder(32, 2, **options)
    x = normal(1, 4, 8)
    still, moving = (numpy(block(x, training=t)) for t in (False, True))
    assert np.abs(still - moving).max() > 1e-3
    again = SynthesizerEncoder.from_config(block.get_config())
    assert again.feed_forward_dropout == 0.9


def test_a_block_drops_what_it_adds_not_the_sum():
    """What a block adds to its input is dropped, or doubled for a half."""
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
    np.testing.assert_allclose(
        dropped[~is_dropped], 2 * added[~is_dropped], atol=1e-4
    )

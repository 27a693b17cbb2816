"""`Mixer` alone says what a call is: arguments, masks and refusals."""

import keras
import numpy as np
import pytest
from arrays import normal, padding
from cases import D, H, K, N, T, each_mixer

from keras_synth import mixers

EVERY = [getattr(mixers, name) for name in mixers.__all__ if name[0].isupper()]


def built(identifier):
    mixer = mixers.get(identifier, H, K, N)
    mixer.build((None, None, D))
    return mixer


def writers(name):
    """The classes that write out a method."""
    bases = {base for cls in EVERY for base in cls.__mro__}
    return {
        base.__name__
        for base in bases
        if base.__module__.startswith("keras_synth") and name in vars(base)
    }


def test_arguments_are_written_once():
    assert writers("call") == {"Mixer"}
    assert writers("call_with_cache") == {"Mixer"}


@each_mixer
@pytest.mark.parametrize("name", ["query_mask", "value_mask", "key_mask"])
def test_padding_of_another_shape_is_refused(mixer, name):
    layer, x = built(mixer), normal(3, T, D)
    for shape in [(3, T + 1), (2, T)]:
        mask = np.ones(shape, bool)
        with pytest.raises(ValueError, match=f"`{name}` must have the shape"):
            layer(x, **{name: mask})


@each_mixer
def test_a_source_of_another_batch_is_refused(mixer):
    layer = built(mixer)
    if layer.supports_cross_attention:
        with pytest.raises(ValueError, match="must be equal"):
            layer(normal(3, T, D), normal(2, T, D))


class Raw(mixers.SelfMixer):
    """Returns what it was given."""

    def mix(self, x, padding_mask=None, causal=False, training=None):
        self.given = padding_mask
        return x


def test_padded_queries_are_zero_without_a_mixers_help():
    layer, x, mask = Raw(), normal(3, T, D), padding(T, 4, 1, size=T)
    found = keras.ops.convert_to_numpy(layer(x, query_mask=mask))
    np.testing.assert_array_equal(found, np.where(mask[..., None], x, 0))
    assert layer.given is None
    layer(x, value_mask=mask)
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(layer.given), mask)


def test_outputs_of_each_projection_are_regularized_once():
    layer = mixers.get("longformer(window=1, activity_regularizer='l2')", H, K)
    layer(normal(3, T, D))
    # Of queries, keys and values, of global ones, and of merged heads.
    assert len(layer.losses) == 7


class Private(mixers.MultiHeadMixer):
    """Has helpers of its own, by names that come to mind."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        names = "mix attend step mask axes split call lengths spec make_mask"
        for name in names.split():
            setattr(self, f"_{name}", None)

    def attend(self, queries, keys, values, mask, *, training=None):
        return values[:, : queries.shape[1]]


def test_helpers_of_ones_own_may_have_common_names():
    layer, x = Private(H, K), normal(3, T, D)
    expected = layer(x, mask=padding(T, 4, 1, size=T))
    assert expected.shape == x.shape
    found, cache = layer.call_with_cache(x, layer.make_cache(3, N), 0)
    assert found.shape == x.shape
    assert cache.shape == (3, N, H, 2 * K)

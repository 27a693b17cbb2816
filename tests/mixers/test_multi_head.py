"""The base of mixers with queries, keys and values, by custom mixers."""

import keras
import numpy as np
import pytest
from arrays import normal, padding
from assertions import close
from cases import randomized
from keras import ops

from keras_synth import mixers
from keras_synth.attend import attend
from keras_synth.logits import Logits

H, K, D, N, T = 2, 4, 8, 9, 7


@keras.saving.register_keras_serializable(package="test")
class Softmax(mixers.MultiHeadMixer):
    """Scaled dot-product attention, by the base and `attend`."""

    supports_attention_mask = True
    supports_attention_bias = True
    supports_attention_scores = True

    def attend(
        self,
        queries,
        keys,
        values,
        mask,
        *,
        bias=None,
        training=None,
        return_weights=False,
    ):
        logits = Logits(queries * self.key_dim**-0.5, keys)
        if bias is not None:
            logits = logits + Logits(bias=bias)
        return attend(
            logits,
            values,
            mask._replace(queries=None),
            return_weights=return_weights,
        )


@keras.saving.register_keras_serializable(package="test")
class Mean(mixers.MultiHeadMixer):
    """The mean of all values: no causal form, no logits, no weights."""

    supports_causal_mask = False

    def attend(self, queries, keys, values, mask, *, training=None):
        mean = ops.mean(values, axis=1, keepdims=True)
        return ops.broadcast_to(mean, (*queries.shape[:3], values.shape[-1]))


def assert_equal(found, expected):
    for one, other in zip(found, expected, strict=True):
        close(one, other)


X, SOURCE = normal(3, T, D), normal(3, N, D, seed=1)
CALLS = {
    "plain": {},
    "causal": {"use_causal_mask": True},
    "query mask": {"query_mask": padding(T, 4, 0, size=T)},
    "mask": {"mask": padding(T, 4, 1, size=T), "use_causal_mask": True},
    "pairs": {
        "attention_mask": np.random.default_rng(2).random((3, 1, T, T)) < 0.5,
        "key_mask": padding(T, 3, 1, size=T),
    },
    "bias": {"attention_bias": normal(1, H, T, T, seed=4)},
}


@pytest.mark.parametrize("case", CALLS)
def test_it_is_attention(case):
    mixer = randomized(Softmax(H, K, value_dim=3), 0.5)
    attention = mixers.get("V", H, K, value_dim=3)
    attention.build((None, None, D))
    attention.set_weights(mixer.get_weights())
    for scores in (False, True):
        found, expected = (
            layer(X, **CALLS[case], return_attention_scores=scores)
            for layer in (mixer, attention)
        )
        both = (found, expected) if scores else ([found], [expected])
        assert_equal(*both)


def test_arguments_that_a_subclass_lacks_are_errors():
    mixer = Mean(H, K)
    assert mixer(X, SOURCE).shape == (3, T, D)
    with pytest.raises(ValueError, match="Received: return_attention_scores=T"):
        mixer(X, return_attention_scores=True)
    cache = mixer.remember(X)
    assert mixer.make_cache(3, T).shape == cache.shape
    found, _ = mixer.call_with_cache(X, cache)  # another sequence
    assert_equal([found], [mixer(X)])


def test_bad_tensors_are_errors():
    mixer = Softmax(H, K)
    with pytest.raises(ValueError, match=r"floating-point.*Received"):
        mixer(np.ones((3, T, D), "int32"))
    with pytest.raises(ValueError, match=r"axes.*Received|Received.*shape"):
        mixer(normal(3, T, 2, D))

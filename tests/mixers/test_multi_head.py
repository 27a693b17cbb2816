"""The base of mixers with queries, keys and values, by custom mixers."""

import keras
import numpy as np
import pytest
from arrays import normal, padding
from assertions import close
from cases import randomized

from keras_synth import mixers
from keras_synth.attend import attend
from keras_synth.logits import Logits

H, K, D, T = 2, 4, 8, 7


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


X = normal(3, T, D)
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
    close(mixer(X, **CALLS[case]), attention(X, **CALLS[case]))
    given = {**CALLS[case], "return_attention_scores": True}
    close(mixer(X, **given), attention(X, **given))

"""V: shared keys and values, and rotary positions."""

import keras
import numpy as np
import pytest
from arrays import normal
from assertions import close, equal
from backend import numpy

from keras_synth import mixers, synthesizers
from keras_synth.layers import SyntheticAttention

B, T, H, K, D = 2, 9, 4, 6, 16


@pytest.mark.each_backend
@pytest.mark.parametrize("shared", [1, 2, 4])
@pytest.mark.parametrize("causal", [False, True])
def test_shared_heads_equal_those_of_keras(shared, causal):
    theirs = keras.layers.GroupQueryAttention(K, H, shared)
    mine = SyntheticAttention(H, K, synthesizer="V", num_key_value_heads=shared)
    x = normal(B, T, D)
    mask = np.arange(T) < np.array([[T], [5]])
    theirs(x, x), mine(x)
    mine.set_weights(theirs.get_weights())
    expected = theirs(
        x, x, query_mask=mask, value_mask=mask, use_causal_mask=causal
    )
    found = mine(x, query_mask=mask, value_mask=mask, use_causal_mask=causal)
    close(numpy(found)[mask], numpy(expected)[mask], atol=2e-6)


@pytest.mark.each_backend
@pytest.mark.parametrize("percentage", [1.0, 0.4])
def test_rotations_equal_those_of_keras_hub(percentage):
    import keras_hub

    theirs = keras_hub.layers.RotaryEmbedding(max_wavelength=500)
    mine = synthesizers.get(
        f"V(rotary=True, rotary_max_wavelength=500, "
        f"rotary_percentage={percentage})",
        H,
        K,
    )
    x, start, width = normal(B, T, H, K), 3, int(K * percentage)
    expected = numpy(theirs(x[..., :width], start_index=start))
    found = numpy(mine.rotate(x, start + np.arange(T)))
    close(found[..., :width], expected, atol=2e-6)
    equal(found[..., width:], x[..., width:])


def test_heads_without_keys_share_values():
    assert mixers.get("R", H, K, T).num_key_value_heads is None
    layer = mixers.get("R", H, K, T, num_key_value_heads=2)
    x = normal(B, T, D)
    _, scores = layer(x, return_attention_scores=True)
    values = np.repeat(numpy(layer.value(x)), 2, axis=2)
    context = np.einsum("bhts,bshv->bthv", numpy(scores), values)
    expected = numpy(layer.attention_output(context))
    close(layer(x), expected)


@pytest.mark.parametrize(
    "name, words",
    [
        ("attention(V, num_key_value_heads=3)", "must divide"),
        ("V(num_key_value_heads=3)", "must divide"),
        ("attention(additive, num_key_value_heads=2)", 'only "V"'),
        ("attention(additive + V, num_key_value_heads=2)", "same number of k"),
        (
            "attention(V(num_key_value_heads=4), num_key_value_heads=2)",
            "the same number of heads",
        ),
        ("attention(heads(V=2, R=2), num_key_value_heads=2)", "Groups"),
        ("heads(2*V(num_key_value_heads=1) + 2*R)", "Groups of heads"),
        ("V(rotary=True, rotary_percentage=0.5)", "even"),
        ("V(rotary=True, rotary_percentage=2.0)", "even"),
        ("V(rotary_percentage=0.5)", "need rotary=True"),
        ("V(rotary_max_wavelength=9)", "need rotary=True"),
        ("additive(rotary=True)", "rotary"),
    ],
)
def test_heads_and_rotations_that_do_not_fit_are_refused(name, words):
    with pytest.raises(ValueError, match=words):
        mixers.get(name, H, K, T)

"""What Reformer, Routing and Sinkhorn attention promise alike."""

import numpy as np
import pytest
from arrays import normal, padding
from backend import gradients, numpy, slow_but_on
from keras import ops

from keras_synth import mixers
from keras_synth.layers import SynthesizerDecoder

H, K, V, D, N, T = 2, 4, 5, 8, 13, 11
MADE = {
    "reformer": {"bucket_size": 3, "hashes": 2},
    "routing": {"clusters": 3},
    "sinkhorn": {"block_size": 3},
}
each = pytest.mark.parametrize("name", MADE)


def made(name):
    mixer = mixers.get(name, H, K, N, value_dim=V, seed=3, **MADE[name])
    mixer.build((None, None, D))
    for i, weight in enumerate(mixer.trainable_weights):
        weight.assign(0.7 * normal(*weight.shape, seed=i))
    return mixer


@slow_but_on("torch")
@each
def test_padding_and_its_length_change_nothing(name):
    mixer, x, real = made(name), normal(3, T, D), padding(T, 4, 1, size=T)
    clean = numpy(mixer(x, mask=real))
    more = np.pad(x, [[0, 0], [0, 2], [0, 0]])
    longer = padding(T, 4, 1, size=T + 2)
    more = np.where(longer[..., None], more, np.float32(np.nan))
    np.testing.assert_allclose(
        numpy(mixer(more, mask=longer))[longer], clean[real], atol=1e-5
    )

    def loss(y):
        mask = ops.convert_to_tensor(longer)
        return ops.sum(ops.square(mixer(y, mask=mask)))

    (slopes,) = gradients(loss, more)
    assert np.isfinite(slopes).all()
    assert np.abs(slopes[longer]).max() > 1e-3


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("reformer", {"bucket_size": 0}, "positive"),
        ("reformer", {"bucket_size": N + 1}, "at most `max_length`"),
        ("reformer", {"hashes": 0}, "positive"),
        ("reformer", {"max_length": 0}, "positive"),
        ("routing", {"clusters": 0}, "positive"),
        ("routing", {"clusters": N + 1}, "at most `max_length`"),
        ("routing", {"decay": 1}, "up to, not including, 1"),
        ("sinkhorn", {"block_size": 0}, "positive"),
        ("sinkhorn", {"block_size": N + 1}, "at most `max_length`"),
        ("sinkhorn", {"iterations": 0}, "positive"),
        ("sinkhorn", {"temperature": 0}, "number above 0"),
        ("sinkhorn", {"temperature": "low"}, "number above 0"),
        *((name, {"max_length": None}, "needs `max_length`") for name in MADE),
    ],
)
def test_bad_options_are_refused(name, options, words):
    with pytest.raises(ValueError, match=r"Received") as error:
        mixers.get(name, H, K, **{"max_length": N, **options})
    assert words in str(error.value)


@each
def test_what_they_have_no_form_for_is_refused(name):
    mixer, x = made(name), normal(2, T, D)
    with pytest.raises(ValueError, match=r"causal.*Received"):
        mixer(x, use_causal_mask=True)
    with pytest.raises(ValueError, match=r"no causal form.*Received"):
        SynthesizerDecoder(16, H, synthesizer=name, max_length=N)
    with pytest.raises(ValueError, match=r"14 tokens.*max_length=13.*Received"):
        mixer(normal(2, N + 1, D))
    with pytest.raises(ValueError, match=r"one sequence.*Received"):
        mixer(x, normal(2, 5, D))
    with pytest.raises(NotImplementedError, match="cannot decode"):
        mixer.call_with_cache(x, mixer.make_cache(2, T), 0)

"""Mixers in other dtypes, with `keras.config.set_floatx` as well."""

import keras
import numpy as np
import pytest
from arrays import normal, padding
from assertions import close
from backend import gradients, numpy, some_on_each_backend
from cases import D, H, K, N, T
from keras import ops

from keras_synth import mixers
from keras_synth.layers import SynthesizerDecoder

# JAX has no float64 unless it is told to.
pytestmark = pytest.mark.filterwarnings("ignore:Explicitly requested dtype")
NAMES = [
    *("V", "R", "R + V", "local(window=2)", "relu", "additive", "reformer"),
    *("attention(R, normalizer='sigmoid')", "longformer(window=2)"),
    *("attention(R + V, pattern='local(window=2)')", "big_bird(block_size=2)"),
    *("performer", "linear", "routing(clusters=3)", "sinkhorn(block_size=3)"),
]


@pytest.fixture(params=["float16", "bfloat16", "float64"])
def floatx(request):
    if request.param != "bfloat16":  # by which Keras makes floats of integers
        keras.config.set_floatx(request.param)
    yield request.param
    keras.config.set_floatx("float32")


@pytest.mark.parametrize(
    "name", some_on_each_backend(NAMES, ["V", "R", "linear"])
)
def test_outputs_and_gradients_are_finite_in_any_floatx(name, floatx):
    layer = mixers.get(name, H, K, N, dtype=floatx)
    layer.build((None, None, D))
    mask = padding(T, 3, 1, size=T)

    def loss(x):
        y = layer(ops.cast(x, floatx), value_mask=mask, query_mask=mask)
        return ops.sum(ops.cast(y, "float32"))

    (slopes,) = gradients(loss, normal(3, T, D))
    assert np.isfinite(slopes).all()


@pytest.mark.parametrize("name", ["V", "linear", "light_conv(width=3)"])
def test_decoders_decode_in_any_floatx(name, floatx):
    decoder = SynthesizerDecoder(
        16, H, synthesizer=name, max_length=N, dtype=floatx
    )
    decoder.build((None, None, D))
    x, (cache, _) = ops.cast(normal(3, T, D), floatx), decoder.make_caches(3, T)
    output, cache = decoder(
        x, self_attention_cache=cache, self_attention_cache_update_index=0
    )
    close(numpy(output), numpy(decoder(x)), 0.05)
    if name == "V":
        assert cache.dtype == x.dtype

"""Pooling: a loop over neighbours, and what it is a case of."""

import numpy as np
import pytest
from arrays import normal
from backend import numpy, slow_but_on

from keras_synth import mixers
from keras_synth.layers import SynthesizerDecoder

D, T = 8, 7


def ragged():
    """Padding at the end, between tokens, at the start, and everywhere."""
    mask = np.ones((4, T), bool)
    mask[0, 4:] = mask[1, 2:4] = mask[2, :3] = mask[3] = False
    return mask


def pooled(x, real, size, causal):
    """Token by token."""
    y = np.zeros(x.shape)
    before = size - 1 if causal else (size - 1) // 2
    for b, i in np.ndindex(*x.shape[:2]):
        seen = range(max(0, i - before), min(x.shape[1], i - before + size))
        seen = [j for j in seen if real[b, j]]
        if real[b, i]:
            y[b, i] = np.mean([x[b, j] for j in seen], axis=0) - x[b, i]
    return y


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "size",
    [4, *(pytest.param(n, marks=slow_but_on("torch")) for n in (1, 3, 20))],
)
def test_it_is_the_average_of_neighbours_minus_the_token(size, causal):
    """Whatever padding holds, and wherever it is."""
    layer, x = mixers.get("pooling", size=size), normal(4, T, D)
    for real in (ragged(), np.ones((4, T), bool)):
        expected = pooled(x, real, size, causal)
        poisoned = np.where(real[..., None], x, np.nan)
        found = layer(poisoned, value_mask=real, use_causal_mask=causal)
        np.testing.assert_allclose(numpy(found), expected, atol=1e-5)
        assert not layer.weights


def test_a_size_of_one_mixes_nothing():
    np.testing.assert_allclose(
        numpy(mixers.PoolingMixer(size=1)(normal(2, T, D))), 0, atol=1e-6
    )


def test_it_is_uniform_attention_in_a_window_minus_the_token():
    """Values being tokens as they are."""
    x = normal(2, T, D)
    attention = mixers.get("relative", 1, D, sliding_window=2, use_bias=False)
    attention.build(x.shape)
    attention.synthesizer.distances.assign(
        np.zeros(attention.synthesizer.distances.shape)
    )
    attention.value.kernel.assign(np.eye(D)[:, None])
    attention.attention_output.kernel.assign(np.eye(D)[None])
    expected = numpy(attention(x)) - x
    np.testing.assert_allclose(
        numpy(mixers.PoolingMixer(size=3)(x)), expected, atol=1e-5
    )


@pytest.mark.parametrize("size", [0, -1, 2.5, True, "3"])
def test_bad_sizes_are_refused(size):
    with pytest.raises(ValueError, match=r"`size` must be .*Received"):
        mixers.get("pooling", size=size)


@slow_but_on("torch")
def test_a_decoder_that_skips_padding_counts_real_tokens_alone():
    block = SynthesizerDecoder(16, 2, synthesizer="pooling(size=3)")
    x, real = normal(2, T, D), np.arange(T) >= [[0], [2]]
    expected = numpy(block(x, decoder_padding_mask=real))
    cache, outputs = block.make_caches(2, T)[0], []
    for i in range(T):
        output, cache = block(
            x[:, i : i + 1],
            decoder_padding_mask=real[:, i : i + 1],
            self_attention_cache=cache,
            self_attention_cache_update_index=i,
        )
        outputs.append(numpy(output))
    found = np.concatenate(outputs, axis=1)
    np.testing.assert_allclose(found[real], expected[real], atol=1e-5)

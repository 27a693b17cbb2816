"""Linformer and compressed attention: to sums of keys instead of keys."""

import keras
import numpy as np
import pytest
from arrays import normal
from backend import numpy

from keras_synth import mixers

H, K, D, N, T = 2, 4, 8, 9, 7


@pytest.mark.parametrize(
    "share, shapes", [("none", (H, H)), ("heads", (1, 1)), ("key_value", (1,))]
)
def test_heads_keys_and_values_share_tables(share, shapes):
    mixer = mixers.get("linformer(rank=3)", H, K, N, share=share)
    mixer.build((None, None, D))
    tables = [w for w in mixer.weights if w.name in ("E", "F")]
    assert [w.shape for w in tables] == [(heads, 3, N) for heads in shapes]


def test_sums_vary_as_a_key_does_at_first():
    mixer = mixers.get("linformer(rank=50)", H, K, 400)
    mixer.build((None, None, D))
    sums = np.einsum("rs,bsk->brk", numpy(mixer.E)[0], normal(20, 400, K))
    assert abs(sums.std() - 1) < 0.05
    mixer = mixers.get("compressed(stride=4)", H, 32)
    mixer.build((None, None, D))
    kernel = numpy(mixer.key_kernel)[:, 0]
    sums = np.einsum("mtk,tkl->ml", normal(50, 4, 32), kernel)
    assert abs(sums.std() - 1) < 0.1


def test_linformer_keeps_to_its_length():
    mixer, x = mixers.get("linformer(rank=3)", H, K, N), normal(3, T, D)
    assert mixer(normal(3, N + 2, D), x).shape == (3, N + 2, D)
    longer = normal(3, N + 1, D)
    words = rf"{N + 1} tokens.*max_length={N}.*Received"
    for call in (
        lambda: mixer(x, longer),
        lambda: mixer.call_with_cache(x, mixer.remember(longer)),
        lambda: mixer(keras.Input((N + 1, D))),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    assert mixers.get("linformer", H, K, 1000).rank == 128
    assert mixers.get("linformer", H, K, N).rank == N

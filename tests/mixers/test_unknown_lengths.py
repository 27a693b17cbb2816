"""Caches in functions that are traced before any length is known."""

import keras
import numpy as np
import pytest
from arrays import normal
from backend import numpy
from cases import MIXERS, randomized

from keras_synth import mixers

H, K, D, N, T = 2, 4, 8, 9, 5
DECODING = [
    name
    for name in [*MIXERS, "R", "D+V", "R(long_inputs='tile')"]
    if mixers.registry.mixer_class(name).supports_causal_mask
]
# Of the present tokens, or of all that the cache has room for.
MASKS = ["none", "present", "whole"]
REAL = np.arange(N) < [[T], [T - 1]]

on_tensorflow = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow",
    reason="only TensorFlow traces lengths that are not known",
)


def made(name):
    return randomized(mixers.get(name, H, K, max_length=N))


def without_lengths(x):
    """The spec of a tensor `(B, ...)` or `(B, N, ...)`, both not known."""
    import tensorflow as tf

    others = [*x.shape[1:]]
    if others[0] == N:
        others[0] = None
    return tf.TensorSpec((None, *others), x.dtype)


def check(name, kind, compiled=False, integers=False):
    import tensorflow as tf

    mixer, x = made(name), normal(2, T, D)
    caches = [mixer.make_cache(2, N)] * 2

    def step(x, cache, real, start):
        mask = None if kind == "none" else real
        return mixer.call_with_cache(x, cache, start, value_mask=mask)

    specs = [
        tf.TensorSpec((None, None, D)),
        tf.nest.map_structure(without_lengths, caches[0]),
        tf.TensorSpec((None, None), "bool"),
    ]
    traced = tf.function(
        step if not integers else lambda *given: step(*given, 0),
        jit_compile=compiled,
        input_signature=specs
        + ([] if integers else [tf.TensorSpec((), "int32")]),
    )
    for start, end in [(0, 3), (3, 4), (4, T)][: 1 if integers else None]:
        real = REAL if kind == "whole" else REAL[:, start:end]
        found, expected = [
            function(x[:, start:end], cache, tf.constant(real), *more)
            for function, cache, more in (
                (traced, caches[0], () if integers else (start,)),
                (step, caches[1], (start,)),
            )
        ]
        caches = [found[1], expected[1]]
        assert found[0].shape == (2, end - start, D)
        for a, b in zip(
            keras.tree.flatten(found), keras.tree.flatten(expected), strict=True
        ):
            np.testing.assert_allclose(numpy(a), numpy(b), atol=1e-4)


@pytest.mark.each_backend
@on_tensorflow
@pytest.mark.parametrize(
    "name", ["gmlp", "mlp_mixer", "light_conv(width=3)", "linear", "V"]
)
def test_steps_of_unknown_length(name):
    check(name, "whole")


@on_tensorflow
@pytest.mark.slow
@pytest.mark.parametrize("name", DECODING)
@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("integers", [False, True])
def test_all_masks_and_starts(name, kind, integers):
    check(name, kind, integers=integers)


@on_tensorflow
@pytest.mark.slow
@pytest.mark.parametrize("name", DECODING)
@pytest.mark.parametrize("kind", MASKS)
def test_steps_compiled_by_xla(name, kind):
    check(name, kind, compiled=True)

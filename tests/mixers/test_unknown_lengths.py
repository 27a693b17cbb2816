"""Caches in functions that are traced before any length is known."""

import itertools

import numpy as np
import pytest
from arrays import normal
from assertions import close
from backend import numpy, only_on
from cases import MIXERS, randomized

from keras_synth import mixers

pytestmark = only_on("tensorflow", "others know lengths when they trace")
H, K, D, N, T = 2, 4, 8, 9, 5
DECODING = [
    name
    for name in [*MIXERS, "R", "D+V", "R(long_inputs='tile')"]
    if mixers.registry.mixer_class(name).supports_causal_mask
]
# Of the present tokens, or of all that the cache has room for.
MASKS = ["none", "present", "whole"]
REAL = np.arange(N) < [[T], [T - 1]]


def without_lengths(x):
    """The spec of a tensor `(B, ...)` or `(B, N, ...)`, both not known."""
    import tensorflow as tf

    others = [*x.shape[1:]]
    if others[0] == N:
        others[0] = None
    return tf.TensorSpec((None, *others), x.dtype)


QUICK = ["gmlp", "light_conv(width=3)", "V"]
WAYS = [(False, False), (False, True), (True, False)]


@pytest.mark.parametrize(
    "name, kind, compiled, integers",
    [
        *(
            pytest.param(
                name, "whole", False, False, marks=pytest.mark.each_backend
            )
            for name in QUICK
        ),
        *(
            pytest.param(*case, *way, marks=pytest.mark.slow)
            for *case, way in itertools.product(DECODING, MASKS, WAYS)
        ),
    ],
)
def test_steps_of_unknown_length(name, kind, compiled, integers):
    import tensorflow as tf

    mixer, x = randomized(mixers.get(name, H, K, N)), normal(2, T, D)
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
        close(found, expected, atol=1e-4)


FEW = ["relative", "alibi + V", "longformer(window=2)", "strided(stride=3)"]
FIRST = "attention(V, pattern='local(window=2) | global(tokens=4)'"


@pytest.mark.each_backend
@pytest.mark.parametrize("name", [*FEW, f"{FIRST}, sliding_window=3)"])
@pytest.mark.parametrize("length", [0, 1, 3, 4, T])
def test_few_tokens_or_none(name, length):
    import tensorflow as tf

    layer, x = mixers.get(name, H, K, N), normal(2, length, D)
    expected = numpy(layer(x))
    spec = tf.TensorSpec((None, None, D))
    close(tf.function(layer, input_signature=[spec])(x), expected)

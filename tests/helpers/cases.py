"""Every synthesizer, mixture and mixer once: the contract runs on them all.

`shared(name)` is a layer of the table that is built once, with random weights;
`run(name, x, ...)` is its call, compiled once for each shape on JAX.
"""

import functools

import keras
import numpy as np
import pytest
from arrays import normal
from backend import numpy, program, slow_unless, some_on_each_backend
from keras import ops

from keras_synth import mixers
from keras_synth.layers import SyntheticAttention
from keras_synth.synthesizers import (
    DenseSynthesizer,
    DotProductSynthesizer,
    FactorizedDenseSynthesizer,
    FactorizedRandomSynthesizer,
    MixtureSynthesizer,
    RandomSynthesizer,
    get,
)

# Heads, features per head, model width, longest and actual length.
H, K, D, N, T = 2, 4, 8, 9, 7


def named(identifier):
    return lambda: get(identifier, H, K, N)


CASES = {
    "V": named("V"),
    "V rotary": named("V(rotary=True)"),
    "R+V grouped": named("R + V(rotary=True, num_key_value_heads=1)"),
    "D": named("D"),
    "D linear": lambda: DenseSynthesizer(H, None, N),
    "D shared heads": lambda: DenseSynthesizer(H, K, N, shared_heads=True),
    "D gelu": lambda: DenseSynthesizer(H, 3, N, activation="gelu"),
    "D linear shared": lambda: DenseSynthesizer(
        H, None, N, shared_heads=True, use_bias=False
    ),
    "FD": named("FD"),
    "FD linear": lambda: FactorizedDenseSynthesizer(H, None, N),
    "FD factors": lambda: FactorizedDenseSynthesizer(H, K, N, factors=(2, 5)),
    "R": named("R"),
    "R tiled": lambda: RandomSynthesizer(H, 4, long_inputs="tile"),
    "Fix": named("Fix"),
    "FR": named("FR"),
    "FR rank 3": lambda: FactorizedRandomSynthesizer(H, N, rank=3),
    "FR tiled": lambda: FactorizedRandomSynthesizer(H, 4, long_inputs="tile"),
    "R+FR": named("R+FR"),
    "R+V": named("R+V"),
    "D+V": named("D+V"),
    "R+D": named("R+D"),
    "FD+V": named("FD+V"),
    "D+D": named("D+D"),
    "D+V shared": lambda: MixtureSynthesizer(
        [DenseSynthesizer(H, K, N), DotProductSynthesizer(H, K)],
        share_queries=True,
    ),
    "R+V per layer": lambda: MixtureSynthesizer(
        [RandomSynthesizer(H, N), DotProductSynthesizer(H, K)], per_head=False
    ),
    "additive+R": named("additive + R"),
    "local D": named("local_dense(window=2)"),
    "local D+V": named("local_dense(window=3) + V"),
    "relative": named("relative(max_distance=3)"),
    "learned alibi+V": named("alibi(trainable=True) + V"),
    "t5+R+V": named("t5_relative(num_buckets=8, max_distance=6) + R + V"),
    "heads": named("heads(1 * D + 1 * mixture(relative(max_distance=2) + V))"),
    "nested": lambda: MixtureSynthesizer(
        [named("R+V")(), named("D+FD")(), DotProductSynthesizer(H, 3)]
    ),
}

# One of each kind, for the tests that take seconds: those that compile.
KINDS = [
    *("V", "D", "FD", "local D", "R", "Fix", "FR"),
    *("t5+R+V", "D+V shared", "heads", "nested"),
]

each_kind = pytest.mark.parametrize("case", KINDS)
each_case = pytest.mark.parametrize("case", CASES)


# Every mixer, with options that fit the sizes above, and what it breaks of the
# promises that all others keep:
# "amount": how much padding there is counts;
# "jumps": with other rounding single tokens may see others;
# "partial": a token misses neighbours, so that rules of order are learned less
# well;
# "unbounded": the output grows with the third power of the input;
# and "alike": it is computed as others are.
MIXERS = {
    "V": set(),
    "heads(V=1, R=1)": {"alike"},
    "gaussian": {"alike"},
    "pattern(patterns=('current', 'next'))": {"alike"},
    "V(fixed=True)": {"alike"},
    "attention(R + V, pattern='local(window=2) | global(tokens=1)', "
    "normalizer='softmax1')": set(),
    "attention(D, pattern='local(window=1) | stride(stride=3)', "
    "normalizer='sigmoid')": {"alike"},
    "attention(FD, pattern='blocks(number=1, block_size=2) | "
    "random(number=1, block_size=2)')": {"alike"},
    "attention(R, normalizer='relu')": set(),
    "fnet": {"amount"},
    "light_conv(width=3)": set(),
    "light_conv(width=4, border='renormalize')": {"alike"},
    "dynamic_conv(width=3)": set(),
    "pooling(size=4)": set(),
    "mlp_mixer": set(),
    "gmlp": set(),
    "linformer(rank=3)": set(),
    "compressed(stride=2, kernel=3)": set(),
    "reformer(bucket_size=4, hashes=2)": {"jumps"},
    "routing(clusters=3)": {"jumps", "partial"},
    "sinkhorn(block_size=3)": set(),
    "linear": set(),
    "performer(features=8)": set(),
    "additive": set(),
    "relu": {"unbounded"},
    "local(window=2)": set(),
    "local_dense(window=2)": set(),
    "local(window=2, synthesizer='R + V')": {"alike"},
    "strided(stride=3)": set(),
    "longformer(window=1)": set(),
    "big_bird(block_size=2, random_blocks=1, seed=1)": set(),
}

# --- both tables as one -------------------------------------------------------

LAYERS = {**dict.fromkeys(CASES, frozenset()), **MIXERS}
# One of each way to compute.
UNLIKE = {*KINDS, *(name for name in MIXERS if "alike" not in MIXERS[name])}


def layers_that(condition=lambda layer: True, on_each_backend=(), quick=LAYERS):
    """Parametrizes a test by layers.

    Args:
        condition: Function of a layer that is not built.
        on_each_backend: Names that `make test` asks of each backend.
        quick: Names that it asks at all, the others are slow.
    """
    names = slow_unless(
        quick, [name for name in LAYERS if condition(_sample(name))]
    )
    return pytest.mark.parametrize(
        "name", some_on_each_backend(names, on_each_backend)
    )


@functools.cache
def _sample(name):
    return made(name)


def made(name, policy="float32", **options):
    """A new layer of either table, not built."""
    keras.config.set_dtype_policy(policy)
    try:
        if name in CASES:
            return SyntheticAttention(
                H, K, synthesizer=CASES[name](), **options
            )
        return mixers.get(name, H, K, N, **options)
    finally:
        keras.config.set_dtype_policy("float32")


def randomized(layer, scale=0.3):
    """The layer, built, with noise on all trained weights, zeros included."""
    if not layer.built:
        layer.build((None, None, D))
    for seed, weight in enumerate(layer.trainable_weights):
        noise = scale * normal(*weight.shape, seed=seed)
        weight.assign(numpy(weight.value) + noise)
    return layer


@functools.cache
def shared(name, policy="float32"):
    """The layer that all tests share: they change nothing of it."""
    keras.utils.set_random_seed(0)
    return randomized(made(name, policy))


def run(name, *inputs, policy="float32", **arguments):
    """The outputs of the shared layer, as NumPy arrays."""
    static = {k: v for k, v in arguments.items() if isinstance(v, bool)}
    masks = {k: v for k, v in arguments.items() if k not in static}
    call = _program(name, policy, tuple(sorted(static.items())))
    layer = shared(name, policy)
    state = layer.trainable_variables, layer.non_trainable_variables
    state = [[variable.value for variable in part] for part in state]
    inputs, masks = keras.tree.map_structure(
        ops.convert_to_tensor, (list(inputs), masks)
    )
    return keras.tree.map_structure(numpy, call(*state, inputs, masks))


@functools.cache
def _program(name, policy, static):
    def call(trained, others, inputs, masks):
        found, _ = shared(name, policy).stateless_call(
            trained, others, *inputs, **masks, **dict(static)
        )
        return found

    return program(call)


def output_bias(name):
    """The shared layer's output for rows without visible keys: `(d,)`."""
    for weight in shared(name).weights:
        if weight.path.endswith(("/attention_output/bias", "/output/bias")):
            return numpy(weight.value)
    return np.zeros(D)

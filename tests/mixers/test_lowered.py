"""Every layer becomes a program for TPUs and for CUDA, without either.

Nothing of the programs runs. That they are made at all says that nothing in
them is unknown to the platform's compiler before it sees shapes of its own.
"""

import itertools

import pytest
from arrays import normal, padding
from backend import only_on
from cases import LAYERS, D, H, K, N, T, made
from keras import ops
from platforms import Pretended

from keras_synth import mixers

pytestmark = only_on("jax", "it lowers for what is not there")
PLATFORMS = ["tpu", "cuda"]
POLICIES = ["float32", "mixed_bfloat16"]
MASKS = ["nothing", "padding", "causal", "both"]
PATTERNS = [
    "local(window=2)",
    "stride(stride=3)",
    "global(tokens=1)",
    "local(window=2, dilation=3) | first(tokens=1)",
    "blocks(number=1, block_size=2) | random(number=1, block_size=2)",
]
CHOICES = [
    f"attention({name}, pattern='{pattern}', normalizer='{normalizer}')"
    for name in ("V", "R", "R + V", "FD")
    for pattern in PATTERNS
    for normalizer in ("softmax", "softmax1", "relu", "sigmoid")
]
# One of each kind of program, for `make test`.
QUICK = [
    *("V", "R + V", "alibi + V", "longformer(window=1)", "performer"),
    *("local_dense(window=2)", "reformer(bucket_size=4, hashes=2)"),
]
LONG = [
    *("V", "R", "FR", "D", "FD", "R + V", "additive + R"),
    *("local(window=64)", "longformer(window=64)", "strided(stride=64)"),
    *("big_bird", "linear", "gmlp"),
]


def layer_of(name, policy, length):
    """A built mixer, of a name of any of the tables above."""
    if length <= N and name in LAYERS:
        layer = made(name, policy)
    else:
        layer = mixers.get(name, H, K, max(N, length), dtype=policy)
    layer.build((2, length, D))
    return layer


def options_of(masks, length):
    options = {}
    if masks in ("padding", "both"):
        mask = padding(3, length, size=length)
        options["value_mask"] = ops.convert_to_tensor(mask)
    if masks in ("causal", "both"):
        options["use_causal_mask"] = True
    return options


def quick():
    for name in QUICK:
        causal = mixers.registry.mixer_class(name).supports_causal_mask
        case = name, "both" if causal else "padding", "mixed_bfloat16", T
        yield pytest.param(*case, marks=pytest.mark.each_backend)


def slow():
    """Every layer, pattern and normalizer, and lengths that are cut."""
    every = [
        *itertools.product(LAYERS, MASKS, POLICIES, [T]),
        *itertools.product(CHOICES, ["padding", "both"], POLICIES[1:], [T]),
        *itertools.product(LONG, MASKS, POLICIES[1:], [4096]),
    ]
    for case in every:
        yield pytest.param(*case, marks=pytest.mark.slow)


@pytest.mark.parametrize("name, masks, policy, length", [*quick(), *slow()])
@pytest.mark.parametrize("platform", PLATFORMS)
def test_every_layer_is_lowered(
    name, masks, policy, length, platform, monkeypatch
):
    layer = layer_of(name, policy, length)
    if masks in ("causal", "both") and not layer.supports_causal_mask:
        pytest.skip("it has no causal form")
    inputs, options = normal(2, length, D), options_of(masks, length)
    Pretended(monkeypatch, platform).lower(layer, inputs, **options)

"""PyTorch's compiler sees each layer as one graph, for all lengths."""

import keras
import numpy as np
import pytest
from arrays import normal, padding
from assertions import close, equal
from backend import numpy
from cases import MIXERS, D, H, K, N, T

from keras_synth import analysis, mixers
from keras_synth.layers import SynthesizerDecoder, SynthesizerEncoder

if keras.backend.backend() != "torch":
    pytest.skip("PyTorch's compiler", allow_module_level=True)

import torch

pytestmark = [
    # Of Keras: how it promotes dtypes.
    pytest.mark.filterwarnings(
        r"ignore:.*wrapped function at .dtypes\.py:UserWarning"
    ),
    # Of PyTorch: Inductor imports it.
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),
]
B = 2
slow = pytest.mark.slow  # to compile is


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()


def gradients_of(function, x, weights):
    x = x.clone().requires_grad_()
    output = function(x)
    found = torch.autograd.grad(
        (output**2).sum(), [x, *weights], allow_unused=True
    )
    return output, [None if y is None else numpy(y) for y in found]


def check_compiled(layer, call, x, backend="aot_eager"):
    """Outputs and gradients as one graph are those of eager operations."""
    call(x)
    weights = [w.value for w in layer.trainable_variables]
    compiled = torch.compile(call, fullgraph=True, backend=backend)
    (output, slopes), (expected, others) = (
        gradients_of(function, x, weights) for function in (compiled, call)
    )
    close(output, expected, atol=2e-5)
    for a, b in zip(slopes, others, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            close(a, b, rtol=2e-4, atol=2e-4)


def tokens(length=T, seed=0):
    return keras.ops.convert_to_tensor(normal(B, length, D, seed=seed))


def mask(length=T):
    real = torch.from_numpy(padding(length, length // 2, size=length))
    return real.to(tokens(length).device)


NAMES = ["V", "R", "R + V"]


def block(cls, name):
    return cls(2 * D, H, synthesizer=name, max_length=N)


def layer_of(name):
    """A mixer, or a block of one."""
    if name.startswith("encoder "):
        return block(SynthesizerEncoder, name.removeprefix("encoder "))
    if name.startswith("decoder "):
        return block(SynthesizerDecoder, name.removeprefix("decoder "))
    return mixers.get(name, num_heads=H, key_dim=K, max_length=N)


BLOCKS = [f"{side} {name}" for side in ("encoder", "decoder") for name in NAMES]
QUICK = [
    ("gmlp", True, "aot_eager"),
    ("strided(stride=3)", True, "aot_eager"),
    ("attention(R, normalizer='relu')", True, "aot_eager"),
]
# The strides of its gradient are not those that `aot_eager` foresees.
INDUCTOR = {"linear"}
EVERY = [
    (name, masked, "inductor" if name in INDUCTOR else "aot_eager")
    for name in [*MIXERS, *BLOCKS]
    for masked in (False, True)
] + [(name, True, "inductor") for name in NAMES]


@pytest.mark.parametrize(
    "name, masked, backend",
    [x if x in QUICK else pytest.param(*x, marks=slow) for x in EVERY],
)
def test_each_mixer_and_block_is_one_graph(name, masked, backend):
    layer, given = layer_of(name), {}
    if masked:
        of = {"encoder": "padding_mask", "decoder": "decoder_padding_mask"}
        given = {of.get(name.split()[0], "value_mask"): mask()}
    check_compiled(layer, lambda x: layer(x, **given), tokens(), backend)


def test_a_block_that_casts_its_input_is_one_graph():
    block = SynthesizerDecoder(
        16, H, synthesizer="R+V", max_length=N, dtype="mixed_bfloat16"
    )
    expected, options = block(tokens()), {"fullgraph": True, "backend": "eager"}
    found = torch.compile(lambda x: block(x), **options)(tokens())
    equal(found, expected)


@pytest.mark.parametrize("fullgraph", [True, False])
def test_a_layer_that_casts_its_input_keeps_a_mask_of_keras(fullgraph):
    layer = mixers.get("V", num_heads=H, key_dim=K, dtype="mixed_bfloat16")
    x = normal(B, T, D) * (np.arange(T) < 3)[:, None]
    x = keras.layers.Masking()(x)
    pairs = keras.ops.ones((B, T, T), "bool")
    expected = layer(x, attention_mask=pairs)
    options = {"fullgraph": fullgraph, "backend": "eager"}
    call = torch.compile(lambda x: layer(x, attention_mask=pairs), **options)
    equal(call(x), expected)


@pytest.mark.parametrize("name", ["FD", "V(rotary=True)"])
def test_a_layer_is_one_graph_by_itself(name):
    layer = mixers.get(name, H, K, N)
    x = torch.tensor(normal(B, T, D))
    expected = layer(x)
    compiled = torch.compile(layer, fullgraph=True, backend="eager")
    close(compiled(x), expected)


def test_a_call_that_is_compiled_within_a_capture_is_not_captured():
    layer = mixers.get("V", H, K, N)
    x = torch.tensor(normal(B, T, D))
    expected = layer(x)
    compiled = torch.compile(layer, fullgraph=True, backend="eager")
    with analysis.capture() as seen:
        found = compiled(x)
    close(found, expected)
    assert not seen

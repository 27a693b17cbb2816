"""cuDNN's attention on JAX: its arguments.

No GPU is needed, and none runs here: attention is told of one, and XLA computes
what cuDNN would be given. On a GPU tests/accelerator asks cuDNN itself.
"""

import keras
import numpy as np
import pytest
from arrays import normal, padding
from backend import numpy
from keras import ops
from platforms import Pretended

from keras_synth.layers import SyntheticAttention

pytestmark = [
    pytest.mark.each_backend,
    pytest.mark.skipif(
        keras.backend.backend() != "jax", reason="of cuDNN by JAX"
    ),
]
H, K, D = 2, 8, 16
NAMES = ["V", "R + V", "D + V", "alibi + V", "D"]
QUICK = ["R + V", "alibi + V"]
MASKS = {
    "nothing": {},
    "padding": {"value_mask": True},
    "causal": {"use_causal_mask": True},
    "both": {"value_mask": True, "use_causal_mask": True},
}


def each(parameter, given, quick):
    """Parametrizes a test; cases that are not quick are slow."""
    marked = [
        x if x in quick else pytest.param(x, marks=pytest.mark.slow)
        for x in given
    ]
    return pytest.mark.parametrize(parameter, marked)


def layer_of(name, length, dtype, **options):
    """A layer of weights that depend only on its name and length."""
    layer = SyntheticAttention(
        H, K, synthesizer=name, max_length=length, dtype=dtype, **options
    )
    layer.build((None, length, D))
    rng = np.random.default_rng(1)
    for weight in layer.weights:
        weight.assign(0.3 * rng.normal(size=weight.shape))
    return layer


def arguments_of(masks, length, real=3):
    options = dict(MASKS[masks])
    if "value_mask" in options:
        mask = padding(length, real, size=length)
        options["value_mask"] = ops.convert_to_tensor(mask)
    return options


def loss_of(layer, options):
    """A function of weights and tokens, and the weights' values."""

    def loss(values, x):
        output, _ = layer.stateless_call(values, [], x, **options)
        return ops.sum(ops.square(ops.cast(output, "float32")))

    return loss, [weight.value for weight in layer.trainable_variables]


def inputs(length):
    return ops.convert_to_tensor(normal(2, length, D))


class Given:
    """Computes with XLA for arguments that cuDNN supports."""

    def __init__(self, monkeypatch, capability=(9, 0), **options):
        Pretended(monkeypatch, "cuda", capability, **options)
        self.widest = 256 if capability >= (9, 0) else 128
        self.original = ops.dot_product_attention
        self.taken = []
        monkeypatch.setattr(ops, "dot_product_attention", self)

    def __call__(self, query, key, value, bias, flash_attention, **options):
        # By default Keras uses cuDNN's attention if it supports the arguments.
        by_cudnn = flash_attention is not False
        self.taken.append("cudnn" if by_cudnn else "xla")
        if by_cudnn:
            assert "mask" not in options
            lengths = query.shape[1], key.shape[1]
            assert not any(length % 2 for length in lengths)
            assert query.shape[-1] % 8 == 0
            assert query.shape[-1] <= self.widest
            assert query.dtype in ("bfloat16", "float16")
            if bias is not None:
                assert bias.shape[2:] == lengths
                assert bias.dtype == query.dtype
        return self.original(
            query, key, value, bias, flash_attention=False, **options
        )


# Relative to the largest output: eight bits of precision, or eleven.
ERRORS = {"mixed_bfloat16": 0.03, "mixed_float16": 0.005}


def assert_alike(found, expected, policy):
    found, expected = numpy(found), numpy(expected)
    assert np.isfinite(found).all()
    error = ERRORS[policy] * np.abs(expected).max()
    np.testing.assert_allclose(found, expected, atol=error)


@each("name", [*NAMES, "R + gaussian + V", "FD + V"], QUICK)
@each("masks", MASKS, ["nothing", "both"])
@each("length", [6, 7], [7])
@each("policy", ERRORS, ["mixed_bfloat16"])
def test_it_receives_the_intended_arguments(
    name, masks, length, policy, monkeypatch
):
    options = arguments_of(masks, length)
    expected = layer_of(name, length, "float32")(inputs(length), **options)
    given = Given(monkeypatch)
    found = layer_of(name, length, policy)(inputs(length), **options)
    assert given.taken == ["cudnn"]
    assert_alike(found, expected, policy)


@pytest.mark.parametrize("masks", ["nothing", "both"])
def test_float16_is_supported_and_float32_is_not(masks, monkeypatch):
    given = Given(monkeypatch)
    for dtype, taken in (("mixed_float16", "cudnn"), ("float32", "xla")):
        layer_of("R + V", 6, dtype)(inputs(6), **arguments_of(masks, 6))
        assert given.taken.pop() == taken


def test_nothing_is_for_cudnn_on_older_devices(monkeypatch):
    given = Given(monkeypatch, (7, 5))
    layer_of("R + V", 6, "mixed_bfloat16")(inputs(6))
    assert given.taken == ["xla"]


@each("name", ["V", "R + V", "D + V"], ["D + V"])
def test_heads_that_are_full_get_padding_as_a_bias(name, monkeypatch):
    given = Given(monkeypatch, (8, 0))  # at most 128 features
    layer = SyntheticAttention(
        H,
        64 if name == "D + V" else 128,
        synthesizer=name,
        max_length=7,
        dtype="bfloat16",
    )
    layer(inputs(7), **arguments_of("padding", 7))
    assert given.taken == ["cudnn"]


@each("name", ["R + V", "D + V", "alibi + V"], QUICK)
@each("masks", ["nothing", "both"], ["both"])
def test_gradients_are_those_of_float32(name, masks, monkeypatch):
    import jax

    def slopes(policy):
        loss, values = loss_of(
            layer_of(name, 7, policy), arguments_of(masks, 7)
        )
        return jax.jit(jax.grad(loss))(values, inputs(7))

    expected = [numpy(x) for x in slopes("float32")]
    given = Given(monkeypatch)
    found = [numpy(x) for x in slopes("mixed_bfloat16")]
    assert given.taken == ["cudnn"]
    error = 0.03 * max(np.abs(x).max() for x in expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=error)


@pytest.mark.parametrize("policy", ERRORS)
@each(
    "name",
    ["gaussian + V", "pattern(patterns=('end', 'start')) + V", "alibi + V"],
    ["gaussian + V"],
)
def test_keys_that_are_all_far_away(name, policy, monkeypatch):
    length, options = 600, arguments_of("padding", 600, real=20)
    expected = layer_of(name, length, "float32")(inputs(length), **options)
    given = Given(monkeypatch)
    found = layer_of(name, length, policy)(inputs(length), **options)
    assert given.taken == ["cudnn"]
    assert_alike(found, expected, policy)


def test_older_versions_lack_the_gradient_of_a_bias_per_sample(monkeypatch):
    given = Given(monkeypatch, bias_gradients=False)
    for name, taken in (("R + V", "cudnn"), ("FD + V", "xla")):
        layer_of(name, 6, "mixed_bfloat16")(inputs(6))
        assert given.taken.pop() == taken


def test_newer_versions_have_no_check_of_a_biass_gradient(monkeypatch):
    given = Given(monkeypatch, bias_gradients=None)
    layer_of("R + V", 6, "mixed_bfloat16")(inputs(6))
    assert given.taken == ["cudnn"]


@each("capability", [(8, 0), (9, 0)], [(8, 0)])
@each("masks", MASKS, ["both"])
def test_wide_heads_receive_the_intended_arguments(
    capability, masks, monkeypatch
):
    options = {
        "synthesizer": "R + V",
        "max_length": 7,
        "pattern": "local(window=3)",
    }
    layers = [
        SyntheticAttention(H, 128, dtype=dtype, seed=1, **options)
        for dtype in ("float32", "mixed_bfloat16")
    ]
    for layer in layers:
        layer.build((None, 7, D))
    layers[1].set_weights(layers[0].get_weights())
    arguments = arguments_of(masks, 7)
    expected = layers[0](inputs(7), **arguments)
    given = Given(monkeypatch, capability)
    found = layers[1](inputs(7), **arguments)
    assert given.taken == ["cudnn"]
    assert_alike(found, expected, "mixed_bfloat16")

"""cuDNN's attention on JAX: its arguments.

No GPU is needed, and none runs here: attention is told of one, and XLA computes
what cuDNN would be given. On a GPU tests/accelerator asks cuDNN itself.
"""

import itertools

import numpy as np
import pytest
from arrays import normal, padding
from assertions import close
from backend import numpy, only_on, slow_unless
from keras import ops
from noise import drawn
from platforms import Pretended

from keras_synth.layers import SyntheticAttention

pytestmark = [
    pytest.mark.each_backend,
    only_on("jax", "it has cuDNN's attention"),
]
H, K, D = 2, 8, 16
MASKS = {
    "nothing": {},
    "padding": {"value_mask": True},
    "causal": {"use_causal_mask": True},
    "both": {"value_mask": True, "use_causal_mask": True},
}


def layer_of(name, length, dtype, key_dim=K, **options):
    """A layer of weights that depend only on its name and sizes."""
    layer = SyntheticAttention(
        H,
        key_dim,
        synthesizer=name,
        max_length=length,
        dtype=dtype,
        **options,
    )
    layer.build((None, length, D))
    return drawn(layer, 1, 0.3)


def arguments_of(masks, length, real=3):
    options = dict(MASKS[masks])
    if "value_mask" in options:
        mask = padding(length, real, size=length)
        options["value_mask"] = ops.convert_to_tensor(mask)
    return options


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
NAMES = ["V", "R + V", "D + V", "alibi + V", "D", "R + gaussian + V", "FD + V"]
STEEP = ["gaussian + V", "pattern(patterns=('end', 'start')) + V", "alibi + V"]
# Heads that are full get padding as a bias: at most 128 features, or 256.
WIDE = {"key_dim": 128, "pattern": "local(window=3)"}
EVERY = [
    *itertools.product(NAMES, MASKS, [(6, 3), (7, 3)], ERRORS, [{}]),
    *itertools.product(STEEP, ["padding"], [(600, 20)], ERRORS, [{}]),
    *itertools.product(["R + V"], MASKS, [(7, 3)], ["mixed_bfloat16"], [WIDE]),
    ("D + V", "padding", (7, 3), "mixed_bfloat16", {"key_dim": 64}),
]
# One of each kind.
QUICK = [
    *itertools.product(
        ["R + V", "alibi + V"],
        *(["nothing", "both"], [(7, 3)], ["mixed_bfloat16"], [{}]),
    ),
    *(("gaussian + V", "padding", (600, 20), policy, {}) for policy in ERRORS),
    *(("R + V", "both", (7, 3), "mixed_bfloat16", WIDE), EVERY[-1]),
]
slow = pytest.mark.slow


@pytest.mark.parametrize("case", slow_unless(QUICK, EVERY), ids=str)
def test_it_receives_the_intended_arguments(case, monkeypatch):
    name, masks, (length, real), policy, options = case
    arguments = arguments_of(masks, length, real)
    layer = layer_of(name, length, "float32", **options)
    expected = numpy(layer(inputs(length), **arguments))
    given = Given(monkeypatch, (8, 0) if options else (9, 0))
    layer = layer_of(name, length, policy, **options)
    found = numpy(layer(inputs(length), **arguments))
    assert given.taken == ["cudnn"]
    assert np.isfinite(found).all()
    error = ERRORS[policy] * np.abs(expected).max()
    close(found, expected, atol=error)


@pytest.mark.parametrize(
    ("device", "name", "policy", "taken"),
    [
        ({}, "R + V", "mixed_float16", "cudnn"),
        ({}, "R + V", "float32", "xla"),
        ({"capability": (7, 5)}, "R + V", "mixed_bfloat16", "xla"),
        # Older versions lack the gradient of a bias per sample, newer ones a
        # check of it.
        ({"bias_gradients": False}, "R + V", "mixed_bfloat16", "cudnn"),
        ({"bias_gradients": False}, "FD + V", "mixed_bfloat16", "xla"),
        ({"bias_gradients": None}, "R + V", "mixed_bfloat16", "cudnn"),
    ],
)
def test_it_is_used_where_it_can_be(device, name, policy, taken, monkeypatch):
    given = Given(monkeypatch, **device)
    layer_of(name, 6, policy)(inputs(6))
    assert given.taken == [taken]


@pytest.mark.parametrize(
    "name", ["R + V", "alibi + V", pytest.param("D + V", marks=slow)]
)
@pytest.mark.parametrize("masks", [pytest.param("nothing", marks=slow), "both"])
def test_gradients_are_those_of_float32(name, masks, monkeypatch):
    import jax

    def slopes(policy):
        layer = layer_of(name, 7, policy)

        def loss(values, x):
            output, _ = layer.stateless_call(
                values, [], x, **arguments_of(masks, 7)
            )
            return ops.sum(ops.square(ops.cast(output, "float32")))

        weights = [weight.value for weight in layer.trainable_variables]
        return map(numpy, jax.jit(jax.grad(loss))(weights, inputs(7)))

    expected = [*slopes("float32")]
    given = Given(monkeypatch)
    found = [*slopes("mixed_bfloat16")]
    assert given.taken == ["cudnn"]
    error = 0.03 * max(np.abs(x).max() for x in expected)
    close(found, expected, atol=error)

"""PyTorch's `torch.func` maps and differentiates each layer as Keras' own."""

import keras
import numpy as np
import pytest
from arrays import normal, padding
from backend import numpy
from cases import LAYERS, D, T, made
from small_tasks import VOCABULARY, backbone

from keras_synth.attention.routes import sizes

if keras.backend.backend() != "torch":
    pytest.skip("torch.func", allow_module_level=True)

import torch
from torch.autograd import functional

B = 3
MASK = keras.ops.convert_to_tensor(
    np.stack([padding(T, n, size=T)[0] for n in (7, 5, 3)])
)
WITHOUT_WEIGHTS = {"fnet", "pooling(size=4)"}


@pytest.fixture(params=[False, True], ids=["whole", "padded"])
def mask(request):
    return MASK if request.param else None


@pytest.fixture(autouse=True)
def _in_pieces(monkeypatch):
    monkeypatch.setattr(sizes, "TILE", 3 * T)


def tokens():
    return keras.ops.convert_to_tensor(normal(B, T, D))


def built(name):
    layer = made(name)
    layer(tokens())
    return layer


def near(found, expected):
    found, expected = numpy(found), numpy(expected)
    size = 1 + np.abs(expected).max()
    np.testing.assert_allclose(found, expected, atol=2e-5 * size)


def check_mapped(model, given, data, masks):
    """Compares gradients by weights for each sample with those of one.

    `given` makes arguments of a call from a sample and its mask.
    """
    weights = [w.value.detach() for w in model.trainable_variables]
    others = [w.value for w in model.non_trainable_variables]

    def loss(weights, x, real):
        args, options = given(x[None], real[None])
        found, _ = model.stateless_call(weights, others, *args, **options)
        return (found**3).sum()

    slopes = torch.func.vmap(torch.func.grad(loss), (None, 0, 0))(
        weights, data, masks
    )
    own = [w.value for w in model.trainable_variables]
    for i, (x, real) in enumerate(zip(data, masks, strict=True)):
        args, options = given(x[None], real[None])
        alone = (model(*args, **options) ** 3).sum()
        alone = torch.autograd.grad(alone, own, allow_unused=True)
        for found, expected in zip(slopes, alone, strict=True):
            near(found[i], 0.0 if expected is None else expected)


@pytest.mark.parametrize(
    "name", [name for name in LAYERS if name not in WITHOUT_WEIGHTS]
)
def test_gradients_of_each_sample_are_mapped(name, mask):
    masks = keras.ops.ones((B, T), "bool") if mask is None else mask

    def given(x, real):
        return (x,), {} if mask is None else {"value_mask": real}

    check_mapped(built(name), given, tokens(), masks)


@pytest.mark.parametrize("name", LAYERS)
def test_jacobians_equal_those_computed_output_by_output(name, mask):
    layer = built(name)
    given = {} if mask is None else {"value_mask": mask[1:2]}

    def some(x):
        return layer(x, **given)[0, :2, :3]

    x = tokens()[1:2]
    expected = functional.jacobian(some, x)
    near(functional.jacobian(some, x, vectorize=True), expected)
    near(torch.func.jacrev(some)(x), expected)
    near(torch.func.jacfwd(some)(x), expected)


@pytest.mark.parametrize("name", ["R", "FR", "D", "FD", "R+V", "additive+R"])
def test_hessians_equal_those_computed_row_by_row(name, mask):
    """Also of a gradient that is asked for its own more than once."""
    layer = built(name)
    given = {} if mask is None else {"value_mask": mask[1:2]}

    def loss(x):
        return (layer(x, **given)[0, :2, :3] ** 2).sum()

    x = tokens()[1:2]
    found = torch.func.hessian(loss)(x)
    # Of PyTorch's kernels that of V has second derivatives on no CPU.
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        near(found, functional.hessian(loss, x))


@pytest.mark.parametrize("name", ["V", "R+V", "D"])
def test_gradients_of_each_text_are_mapped(name):
    drawn = np.random.default_rng(0).integers(1, len(VOCABULARY), (B, T))

    def given(ids, real):
        return ({"token_ids": ids, "padding_mask": real},), {}

    ids = keras.ops.convert_to_tensor(drawn)
    check_mapped(backbone("classifier", name), given, ids, MASK)

"""Second derivatives, as of gradient penalties, on every route."""

import keras
import numpy as np
import pytest
import reference
from arrays import normal
from assertions import close
from backend import numpy, on_cpu, only_on, second_derivatives
from keras import ops

from keras_synth.attend import attend
from keras_synth.attention.routes import sizes
from keras_synth.layers import SyntheticAttention
from keras_synth.logits import Logits
from keras_synth.masks import AttentionMask

B, T, S, H, K, V = 3, 4, 5, 2, 3, 4
KEYS = np.array([[1, 1, 1, 0, 0], [1, 0, 1, 1, 1], [1, 1, 1, 1, 1]], bool)
OPERANDS = {
    "a table": {"bias": (1, H, T, S)},
    "pairs": {
        "queries": (B, T, H, K),
        "keys": (B, S, H, K),
        "bias": (1, H, T, S),
    },
    "a bias of every sample": {"bias": (B, H, T, S)},
}


def problem(operands, route, lead=0.0):
    """A loss of logits and values, these, and a direction for each."""
    shapes = {**OPERANDS[operands], "values": (B, S, H, V)}
    arrays = [normal(*s, seed=i) for i, s in enumerate(shapes.values())]
    directions = [normal(*s, seed=9 + i) for i, s in enumerate(shapes.values())]
    if lead:  # of a padded key: little weight is left for the others
        arrays[0][..., 3] += lead
    keys = ops.convert_to_tensor(KEYS)
    mask = AttentionMask(keys=keys, causal=True)

    def loss(*tensors):
        given = dict(zip(shapes, tensors, strict=True))
        values = given.pop("values")
        return ops.sum(attend(Logits(**given), values, mask, route=route) ** 2)

    return loss, arrays, directions


# PyTorch's operations run at once; JAX would compile each for itself.
COMPILED = {"torch": [False], "jax": [True], "tensorflow": [False, True]}
COMPILED = COMPILED[keras.backend.backend()]
# Loops over tiles are for CPUs.
LOOP = ["tiles"] + ["torch_cpu"] * (keras.backend.backend() == "torch")
LOOP = LOOP if on_cpu() else []
ROUTES = [("a table", "shared", 0), ("a table", "shared", 50)]
ROUTES += [(operands, route, 0) for operands in OPERANDS for route in LOOP]


@pytest.mark.each_backend
@pytest.mark.parametrize("compiled", COMPILED)
@pytest.mark.parametrize(("operands", "route", "lead"), ROUTES)
def test_second_derivatives_are_second_differences(
    operands, route, lead, compiled, monkeypatch
):
    """The second derivatives of the paper's formula in float64."""
    if compiled and route == "tiles" and keras.backend.backend() != "jax":
        pytest.skip("XLA on TensorFlow does not compile them")
    monkeypatch.setattr(sizes, "TILE", T * S)  # one head at a time
    loss, arrays, directions = problem(operands, route, lead)
    found = second_derivatives(loss, arrays, directions, compiled)
    curvature = sum(
        np.sum(a * b) for a, b in zip(found, directions, strict=True)
    )
    visible = KEYS[:, None, None, :] & np.tri(T, S, dtype=bool)

    def loss_at(step):
        moved = [
            x + step * d.astype("float64")
            for x, d in zip(arrays, directions, strict=True)
        ]
        given = dict(zip(OPERANDS[operands], moved, strict=False))
        logits = given["bias"]
        if "queries" in given:
            logits = logits + np.einsum(
                "bthk,bshk->bhts", given["queries"], given["keys"]
            )
        context, _ = reference.attention(logits, moved[-1], visible)
        return np.sum(context**2)

    step = 1e-4
    expected = loss_at(step) - 2 * loss_at(0) + loss_at(-step)
    close(curvature, expected / step**2, atol=0, rtol=1e-3)


@pytest.mark.each_backend
def test_a_loop_over_features_has_second_derivatives():
    layer = SyntheticAttention(H, K, synthesizer="additive")
    layer.build((None, T, 2))

    def loss(x):
        return ops.sum(layer(x) ** 2)

    x, direction = normal(B, T, 2), normal(B, T, 2, seed=1)
    (found,) = second_derivatives(loss, [x], [direction], COMPILED[0])
    before, now, after = (
        numpy(loss(ops.convert_to_tensor(x + step * direction)))
        for step in (-0.02, 0.0, 0.02)
    )
    curvature = (before - 2 * now + after) / 0.02**2
    close(np.sum(found * direction), curvature, atol=0, rtol=1e-2)


@pytest.mark.each_backend
@only_on("jax", "these are its own")
@pytest.mark.parametrize("name", ["R", "R+V"])
def test_jax_has_a_hessian_and_forward_mode(name):
    import jax

    layer = SyntheticAttention(H, K, synthesizer=name, max_length=S)
    layer.build((None, S, 2))

    def loss(x):
        return ops.sum(layer(x, value_mask=KEYS) ** 2)

    x = ops.convert_to_tensor(normal(B, S, 2))
    hessian, again = (
        numpy(jax.jit(function(loss))(x))
        for function in (jax.hessian, lambda f: jax.jacrev(jax.jacrev(f)))
    )
    close(hessian, again)
    assert np.abs(hessian).max() > 1e-3
    _, along = jax.jvp(loss, (x,), (x,))
    close(along, ops.sum(x * jax.grad(loss)(x)), atol=0, rtol=1e-4)

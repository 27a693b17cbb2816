"""Outputs and gradients on whatever device is there, against NumPy.

What a new device has to pass first, in a minute: every synthesizer of the
paper and one mixer of each kind, plain, padded and causal, and in bfloat16.
benchmarks/accelerator.py runs it before it measures. Imports neither KerasHub
nor a plugin of pytest.
"""

import types

import keras
import numpy as np
import oracles
import pytest
from arrays import padding
from assertions import close
from backend import on_cpu
from random_cases import Case, Run, along, expected, supports

# Ignore warnings of a new device.
pytestmark = [pytest.mark.accelerator, pytest.mark.filterwarnings("ignore")]

H, K, N, B, T = 2, 8, 20, 3, 16
SYNTHESIZERS = [("V",), ("D",), ("R",), ("FR",), ("R", "V"), ("D", "V")]
# A random direction adds up the rounding errors of all weights.
TOLERANCES = {"float32": 1e-4, "mixed_bfloat16": 0.1}
# Accelerators may multiply float32 in ten bits.
ELSEWHERE = {"float32": 1e-2, "mixed_bfloat16": 0.1}


def case_of(name, mask, policy):
    return Case(
        parts=name,
        heads=H,
        key_dim=K,
        max_length=N,
        value_dim=K,
        batch=B,
        target=T,
        causal=mask == "causal",
        masks=frozenset({"value"} if mask == "padded" else ()),
        policy=policy,
        seed=3,
    )


def check(run, formula, rows=slice(None)):
    """Compares the output, and the gradient along a random direction."""
    case = run.case
    tolerance = (TOLERANCES if on_cpu() else ELSEWHERE)[case.policy]
    found, slopes = run.found(compiled=keras.backend.backend() != "torch")
    wanted = formula(run.arrays)
    size = max(1.0, np.abs(wanted).max())
    close(found[rows], wanted[rows], rtol=0, atol=tolerance * size)
    products, wanted = along(run, slopes, formula)
    mine = sum(map(np.sum, products))
    size = np.sqrt(sum(np.sum(x**2) for x in products))
    assert abs(mine - wanted) <= tolerance * max(1.0, size)


def policies(mask):
    return ["float32", "mixed_bfloat16"] if mask == "padded" else ["float32"]


each_way = pytest.mark.parametrize(
    ("mask", "policy"),
    [(m, p) for m in ("plain", "padded", "causal") for p in policies(m)],
)


@pytest.mark.parametrize("parts", SYNTHESIZERS, ids="+".join)
@each_way
def test_a_synthesizer_is_its_formula(parts, mask, policy):
    case = case_of(parts, mask, policy)
    run = Run(case)
    check(run, lambda arrays: expected(case, arrays, run))


# --- mixers -------------------------------------------------------------------

FORMULAS = {
    "local(window=2)": oracles.of_pairs(
        oracles.dot_product, lambda i, j: abs(i - j) <= 2
    ),
    "longformer(window=1)": oracles.longformer(1, 1),
    "linear": oracles.of_pairs(oracles.linear),
    "relu": oracles.of_pairs(oracles.relu),
    "linformer(rank=3)": oracles.of_sums(oracles.linformer),
    "light_conv(width=3)": oracles.convolution,
    "fnet": oracles.fnet,
    "gmlp(activation='tanh')": oracles.gmlp,
}


class Moved:
    """A layer with other weights, which are float64 arrays."""

    def __init__(self, layer, arrays):
        self.layer = layer
        self.weights = [
            types.SimpleNamespace(path=weight.path, value=array)
            for weight, array in zip(
                layer.trainable_variables, arrays, strict=True
            )
        ]

    def __getattr__(self, name):
        return getattr(self.layer, name)


@pytest.mark.parametrize("name", FORMULAS)
@each_way
def test_a_mixer_is_its_formula(name, mask, policy):
    if mask == "causal" and "causal_mask" not in supports(name):
        pytest.skip(f"{name} has no causal form")
    run = Run(case_of(name, mask, policy))
    real = padding(*((T, 9, 4) if mask == "padded" else (T, T, T)), size=T)
    if mask == "padded":
        run.masks["value_mask"] = real
    run.direction *= real[..., None]

    def formula(arrays):
        x, *weights = (np.asarray(array, "float64") for array in arrays)
        layer = Moved(run.layer, weights)
        return FORMULAS[name](layer, x, x, real, mask == "causal")

    check(run, formula, real)

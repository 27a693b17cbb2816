"""Outputs and gradients on whatever device is there, against NumPy.

What a new device has to pass first, in a minute: every synthesizer of the
paper and one mixer of each kind, plain, padded and causal, and in bfloat16.
benchmarks/accelerator.py runs it before it measures. Imports neither KerasHub
nor a plugin of pytest.
"""

import math

import keras
import numpy as np
import pytest
import reference
from backend import on_cpu
from random_cases import Case, Run, expected, supports

# Ignore warnings of a new device.
pytestmark = [
    pytest.mark.accelerator,
    pytest.mark.filterwarnings("ignore"),
]

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
        source=None,
        causal=mask == "causal",
        window=None,
        masks=frozenset({"value"} if mask == "padded" else ()),
        bias=None,
        policy=policy,
        route=None,
        piece=None,
        seed=3,
    )


def check(case, formula):
    """Compares the output, and the gradient along a random direction."""
    run = Run(case)
    tolerance = (TOLERANCES if on_cpu() else ELSEWHERE)[case.policy]
    found, slopes = run.found(compiled=keras.backend.backend() != "torch")
    wanted = formula(run.arrays)
    size = max(1.0, np.abs(wanted).max())
    np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance * size)
    rng = np.random.default_rng(case.seed)
    along = [rng.normal(size=x.shape) for x in run.arrays]
    step = 1e-5
    ahead, behind = (
        np.sum(
            run.direction
            * formula(
                [x + s * d for x, d in zip(run.arrays, along, strict=True)]
            )
        )
        for s in (step, -step)
    )
    products = [x * d for x, d in zip(slopes, along, strict=True)]
    mine, wanted = sum(map(np.sum, products)), (ahead - behind) / (2 * step)
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
    check(case, lambda arrays: expected(case, arrays, run))


# --- mixers -------------------------------------------------------------------


class Given:
    """The weights of a mixer, as float64 arrays.

    Attributes:
        x: Array `(B, T, d)`.
        real: Boolean array `(B, T)`.
        causal: Whether no token sees a later one.
    """

    def __init__(self, run, arrays):
        trained = run.layer.trainable_variables
        self.weights = {
            variable.path.split("/", 1)[1].removeprefix(
                "synthesizer/"
            ): np.asarray(array, "float64")
            for variable, array in zip(trained, arrays[1:], strict=True)
        }
        self.x = np.asarray(arrays[0], "float64")
        self.causal = run.case.causal
        self.real = run.masks.get("value_mask", np.ones((B, T), bool))

    def __getitem__(self, path):
        return self.weights[path]

    def dense(self, name, x=None):
        kernel, bias = (self[f"{name}/{end}"] for end in ("kernel", "bias"))
        x = self.x if x is None else x
        return np.tensordot(x, kernel, kernel.ndim - bias.ndim) + bias

    def heads(self, start="", values="value"):
        """Queries, keys and values, each `(B, T, H, k)`."""
        names = (f"{start}query", f"{start}key", values)
        return [self.dense(name) for name in names]

    def visible(self, allowed=True):
        """Who sees whom, `(B, 1, T, T)`."""
        pairs = np.broadcast_to(allowed, (T, T))
        if self.causal:
            pairs = np.tril(pairs)
        return (self.real[:, None] & pairs)[:, None]

    def output(self, context):
        kernel, bias = (
            self[f"attention_output/{x}"] for x in ("kernel", "bias")
        )
        return np.einsum("bthv,hvd->btd", context, kernel) + bias


def distance():
    return np.arange(T) - np.arange(T)[:, None]


def attended(given, parts, visible):
    queries, keys, values = parts
    logits = np.einsum("bthk,bshk->bhts", queries, keys) / np.sqrt(K)
    return reference.attention(logits, values, visible)[0]


def local(given):
    visible = given.visible(np.abs(distance()) <= 2)
    parts = given.heads()
    return given.output(attended(given, parts, visible))


def longformer(given):
    """The first token sees all and is seen by all, as a global one."""
    near = np.abs(distance()) <= 1
    near[0] = near[:, 0] = True
    visible = given.visible(near)
    context = attended(given, given.heads(), visible)
    whole = given.heads("global_", "global_value")
    context[:, :1] = attended(given, whole, visible)[:, :1]
    return given.output(context)


def linear(given):
    queries, keys, values = given.heads()
    queries, keys = (np.where(x > 0, x + 1, np.exp(x)) for x in (queries, keys))
    weights = np.einsum("bthk,bshk->bhts", queries, keys) * given.visible()
    total = weights.sum(-1, keepdims=True)
    weights = weights / np.where(total, total, 1)
    return given.output(np.einsum("bhts,bshv->bthv", weights, values))


def relu(given):
    queries, keys, values = given.heads()
    visible = given.visible()
    logits = np.einsum("bthk,bshk->bhts", queries, keys) / np.sqrt(K)
    number = np.maximum(visible.sum(-1, keepdims=True), 1)
    weights = np.maximum(logits, 0) * visible / number
    return given.output(np.einsum("bhts,bshv->bthv", weights, values))


def linformer(given):
    queries, keys, values = given.heads()
    real = given.real[..., None, None]
    keys, values = (
        np.einsum("rs,bshk->brhk", given[name][0, :, :T], x * real)
        for name, x in (("E", keys), ("F", values))
    )
    logits = np.einsum("bthk,brhk->bhtr", queries, keys) / np.sqrt(K)
    return given.output(reference.attention(logits, values)[0])


def light_conv(given):
    real, width = given.real[..., None], 3
    tokens, gate = np.split(given.dense("value", given.x * real), 2, axis=-1)
    tokens = tokens / (1 + np.exp(-gate)) * real
    tokens = tokens.reshape(B, T, H, -1)
    taps = reference.softmax_rows(given["kernel"])  # (H, width)
    ahead = width - 1 if given.causal else (width - 1) // 2
    context = np.zeros_like(tokens)
    for tap in range(width):
        shift = np.eye(T, k=tap - ahead)
        moved = np.einsum("ts,bshc->bthc", shift, tokens)
        context += taps[:, tap, None] * moved
    return given.dense("output", context.reshape(B, T, -1))


def fnet(given):
    return np.fft.fft2(given.x * given.real[..., None]).real


def gmlp(given):
    hidden = given.dense("value")
    hidden = hidden * (1 + np.vectorize(math.erf)(hidden / np.sqrt(2))) / 2
    u, v = np.split(hidden, 2, axis=-1)
    v = v - v.mean(-1, keepdims=True)
    v = v / np.sqrt(v.var(-1, keepdims=True) + 1e-5)
    v = v * given["norm/gamma"] + given["norm/beta"]
    table = given["W"][:T, :T]
    table = np.tril(table) if given.causal else table
    v = np.einsum("ts,bsd->btd", table, v * given.real[..., None])
    v = v + given["b"][:T, None]
    return given.dense("output", u * v * given.real[..., None])


FORMULAS = {
    "local(window=2)": local,
    "longformer(window=1)": longformer,
    "linear": linear,
    "relu": relu,
    "linformer(rank=3)": linformer,
    "light_conv(width=3)": light_conv,
    "fnet": fnet,
    "gmlp": gmlp,
}


@pytest.mark.parametrize("name", FORMULAS)
@each_way
def test_a_mixer_is_its_formula(name, mask, policy):
    if mask == "causal" and "causal_mask" not in supports(name):
        pytest.skip(f"{name} has no causal form")
    case = case_of(name, mask, policy)
    run = Run(case)
    check(case, lambda arrays: FORMULAS[name](Given(run, arrays)))

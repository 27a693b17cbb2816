"""Each layer computes its formula, `keras_synth.formulas`."""

import math
import pathlib

import numpy as np
import pytest
from arrays import normal
from backend import numpy
from keras import ops

from keras_synth import formulas as f
from keras_synth import mixers

B, T, H, K, D, N = 2, 12, 4, 4, 16, 15


class Weights(dict):
    """A layer's weights, by the ends of their paths."""

    def __init__(self, layer):
        for weight in layer.weights:
            path = weight.path.split("/")
            self["/".join(path[1:])] = ops.convert_to_tensor(weight)

    def __missing__(self, name):
        if name.startswith("synthesizer/"):
            raise KeyError(name)
        return self[f"synthesizer/{name}"]

    def dense(self, *names):
        """Kernel and bias of each of these projections, one after another."""
        return [
            self[f"{n}/{part}"] for n in names for part in ("kernel", "bias")
        ]


def pairs_of_tokens(x, w, prefix=""):
    return f.dot_product(x, x, *w.dense(f"{prefix}query", f"{prefix}key"))


# --- synthesizers: identifier -> logits ---------------------------------------


def rotated_pairs(x, w):
    queries, keys = (
        f.rotate(f.split_heads(x, *w.dense(name)), 2, 100.0)
        for name in ("query", "key")
    )
    return f.compare(queries, keys)


LOGITS = {
    "V": pairs_of_tokens,
    "V(rotary=True, rotary_max_wavelength=100, rotary_percentage=0.5)": (
        rotated_pairs
    ),
    "additive": lambda x, w: f.additive(
        x, x, *w.dense("query", "key"), w["scale"]
    ),
    "D": lambda x, w: f.dense(x, *w.dense("hidden"), w["W2"], w["b2"], T),
    "FD": lambda x, w: f.factorized_dense(
        x, *w.dense("hidden"), w["A"], w["b_A"], w["B"], w["b_B"], T
    ),
    "R": lambda x, w: f.random(w["R"], T, T),
    "Fix": lambda x, w: f.random(w["R"], T, T),
    "FR": lambda x, w: f.factorized_random(w["R1"], w["R2"], T, T),
    "relative(max_distance=3)": lambda x, w: f.relative(w["distances"], T, T),
    "alibi": lambda x, w: f.alibi(
        ops.convert_to_tensor([0.25, 0.0625, 0.015625, 0.00390625]), T, T
    ),
    "alibi(trainable=True)": lambda x, w: f.alibi(
        ops.exp(w["log_slopes"]), T, T
    ),
    "t5_relative(num_buckets=8, max_distance=6)": lambda x, w: f.t5_relative(
        w["relative_attention_bias"], T, T, 6
    ),
    "t5_relative(num_buckets=5, max_distance=7, bidirectional=False)": (
        lambda x, w: f.t5_relative(
            w["relative_attention_bias"], T, T, 7, bidirectional=False
        )
    ),
    "gaussian(offsets=(-1, 2), stddev=1.5)": lambda x, w: f.gaussian(
        ops.convert_to_tensor([-1.0, 2.0, -1.0, 2.0]), 1.5, T, T
    ),
    "pattern(patterns=('previous', 'current', 'next', 'window'))": (
        lambda x, w: f.pattern(("previous", "current", "next", "window"), T, T)
    ),
    "pattern(patterns=('left', 'right', 'start', 'end'))": (
        lambda x, w: f.pattern(("left", "right", "start", "end"), T, T)
    ),
    "R + V": lambda x, w: f.mixture(
        [
            f.random(w["part_0/R"], T, T),
            pairs_of_tokens(x, w, "synthesizer/part_1/"),
        ],
        w["alphas"],
    ),
}

# --- mixers with queries, keys and values: identifier -> context --------------

CONTEXTS = {
    "linformer(rank=3, share='none')": lambda x, w, q, k, v: f.linformer(
        q, k, v, w["E"], w["F"]
    ),
    "compressed(stride=2, kernel=3)": lambda x, w, q, k, v: f.compressed(
        q, k, v, w["key_kernel"], w["value_kernel"], stride=2
    ),
    "longformer(window=1, global_tokens=2)": lambda x, w, q, k, v: f.longformer(
        *(q, k, v, *projected(x, w, "global_")), size=1, tokens=2
    ),
    "linear": lambda x, w, q, k, v: f.linear(q, k, v),
    "performer(features=8)": lambda x, w, q, k, v: f.performer(
        q, k, v, w["projection"]
    ),
    "routing(clusters=5)": lambda x, w, q, k, v: f.routing(
        q, k, v, w["centroids"], size=3
    ),
    "sinkhorn(block_size=3, iterations=2)": lambda x, w, q, k, v: f.sinkhorn(
        q, k, v, w["sort_kernel"], block_size=3, iterations=2
    ),
    "reformer(bucket_size=3, hashes=2)": lambda x, w, q, k, v: f.reformer(
        q, v, w["rotations"], bucket_size=3
    ),
}


def projected(x, w, prefix=""):
    names = [f"{prefix}{name}" for name in ("query", "key", "value")]
    # Reformer has no separate keys.
    names = [n for n in names if f"{n}/kernel" in w]
    return [f.split_heads(x, *w.dense(name)) for name in names]


# --- mixers of tokens: identifier -> output -----------------------------------


def gated(x, w):
    kernel, bias = w.dense("value")
    a, b = ops.split(ops.matmul(x, kernel) + bias, 2, axis=-1)
    return a * ops.sigmoid(b)


def output(x, w):
    kernel, bias = w.dense("output")
    return ops.matmul(x, kernel) + bias


def taps(w):
    return ops.reshape(w["kernel/kernel"], (D, H, -1))


OUTPUTS = {
    "light_conv(width=4)": lambda x, w, causal: output(
        f.light_conv(gated(x, w), w["kernel"], causal), w
    ),
    "dynamic_conv(width=3)": lambda x, w, causal: output(
        f.dynamic_conv(gated(x, w), taps(w), causal), w
    ),
    "pooling(size=4)": lambda x, w, causal: f.pooling(x, 4, causal),
    "fnet": lambda x, w, causal: f.fnet(x),
    "mlp_mixer": lambda x, w, causal: f.mlp_mixer(
        x, lower(w["W1"], causal), w["b1"], lower(w["W2"], causal), w["b2"]
    ),
    "gmlp": lambda x, w, causal: f.gmlp(
        *(x, *w.dense("value"), w["norm/gamma"], w["norm/beta"]),
        *(lower(w["W"], causal), w["b"], *w.dense("output")),
    ),
}


def lower(W, causal):
    if not causal:
        return W
    return ops.convert_to_tensor(np.tril(numpy(W)))


# --- the comparison -----------------------------------------------------------


def built(identifier, **options):
    """The layer with random weights, tokens, and the layer's weights."""
    layer = mixers.get(
        identifier, num_heads=H, key_dim=K, max_length=N, **options
    )
    x = ops.convert_to_tensor(normal(B, T, D))
    layer(x, x)
    for seed, weight in enumerate(layer.trainable_weights):
        weight.assign(normal(*weight.shape, seed=seed + 1) / math.sqrt(2))
    return layer, x, Weights(layer)


def assert_same(layer, x, expected, **options):
    np.testing.assert_allclose(
        numpy(layer(x, x, **options)), numpy(expected), atol=1e-5, rtol=1e-5
    )


def attended(x, w, logits, *choices):
    values = f.split_heads(x, *w.dense("value"))
    context = f.attention(logits, values, *choices)
    return f.merge_heads(context, *w.dense("attention_output"))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("identifier", LOGITS)
def test_a_synthesizer_is_its_formula(identifier, causal):
    layer, x, w = built(identifier)
    allowed = f.causal(T, T) if causal else True
    expected = attended(x, w, LOGITS[identifier](x, w), allowed)
    assert_same(layer, x, expected, use_causal_mask=causal)


@pytest.mark.parametrize(
    "normalizer", ["softmax", "softmax1", "relu", "sigmoid"]
)
def test_a_normalizer_is_its_formula(normalizer):
    layer, x, w = built("V", normalizer=normalizer)
    logits = pairs_of_tokens(x, w)
    allowed = f.causal(T, T)
    expected = attended(x, w, logits, allowed, getattr(f, normalizer))
    assert_same(layer, x, expected, use_causal_mask=True)


PATTERNS = {
    "local(window=2)": f.window(T, T, 2),
    "local(window=2, dilation=3)": f.window(T, T, 2, 3),
    "stride(stride=3)": f.stride(T, T, 3),
    "first(tokens=2) | local(window=1)": (
        f.first_tokens(T, T, 2) | f.window(T, T, 1)
    ),
    "global(tokens=2) | local(window=1)": (
        f.global_tokens(T, T, 2) | f.window(T, T, 1)
    ),
    "blocks(number=3, block_size=2)": f.block_window(T, T, 3, 2),
    "random(number=2, block_size=2, seed=3)": (
        f.random_blocks(T, T, 2, 2, max_length=N, seed=3)
    ),
}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_is_its_formula(pattern):
    layer, x, w = built("V", pattern=pattern)
    expected = attended(x, w, pairs_of_tokens(x, w), PATTERNS[pattern])
    assert_same(layer, x, expected)


def test_local_dense_is_its_formula():
    layer, x, w = built("local_dense(window=2)")
    logits = f.local_dense(x, *w.dense("hidden"), w["W2"], w["b2"])
    assert_same(layer, x, attended(x, w, logits, f.window(T, T, 2)))


@pytest.mark.parametrize("identifier", CONTEXTS)
def test_a_mixer_with_heads_is_its_formula(identifier):
    layer, x, w = built(identifier)
    *others, values = projected(x, w)
    context = CONTEXTS[identifier](x, w, others[0], others[-1], values)
    expected = f.merge_heads(context, *w.dense("attention_output"))
    assert_same(layer, x, expected)


@pytest.mark.parametrize("identifier", ["linear", "performer(features=8)"])
def test_a_product_of_features_is_its_causal_formula(identifier):
    layer, x, w = built(identifier)
    others = [w["projection"]] if "projection" in w else []
    formula = getattr(f, identifier.partition("(")[0])
    context = formula(*projected(x, w), *others, allowed=f.causal(T, T))
    expected = f.merge_heads(context, *w.dense("attention_output"))
    assert_same(layer, x, expected, use_causal_mask=True)


@pytest.mark.parametrize(
    "identifier, causal",
    [(x, False) for x in OUTPUTS] + [(x, True) for x in OUTPUTS if x != "fnet"],
)
def test_a_mixer_of_tokens_is_its_formula(identifier, causal):
    layer, x, w = built(identifier)
    expected = OUTPUTS[identifier](x, w, causal)
    assert_same(layer, x, expected, use_causal_mask=causal)


SOURCE = pathlib.Path(__file__).read_text(encoding="utf-8")


@pytest.mark.once
@pytest.mark.parametrize("name", f.__all__)
def test_every_formula_is_compared_with_a_layer(name):
    normalizers = ("softmax", "softmax1", "relu", "sigmoid")  # by `getattr`
    assert f"f.{name}(" in SOURCE or name in normalizers

"""Each layer computes its formula, `keras_synth.formulas`."""

import math

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
    "mixture(R + V, alphas_initializer=None)": lambda x, w: (
        f.random(w["part_0/R"], T, T)
        + pairs_of_tokens(x, w, "synthesizer/part_1/")
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
    "linear": lambda x, w, q, k, v, **seen: f.linear(q, k, v, **seen),
    "performer(features=8)": lambda x, w, q, k, v, **seen: f.performer(
        q, k, v, w["projection"], **seen
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


def of_logits(logits, *normalizer, pattern=True):
    def output(x, w, causal):
        allowed = f.causal(T, T) & pattern if causal else pattern
        values = f.split_heads(x, *w.dense("value"))
        context = f.attention(logits(x, w), values, allowed, *normalizer)
        return f.merge_heads(context, *w.dense("attention_output"))

    return output


def of_context(context):
    def output(x, w, causal):
        *others, values = projected(x, w)
        seen = {"allowed": f.causal(T, T)} if causal else {}
        found = context(x, w, others[0], others[-1], values, **seen)
        return f.merge_heads(found, *w.dense("attention_output"))

    return output


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
NORMALIZERS = {
    "softmax": f.softmax,
    "softmax1": f.softmax1,
    "relu": f.relu,
    "sigmoid": f.sigmoid,
}
FORMULAS = {
    **{name: of_logits(logits) for name, logits in LOGITS.items()},
    **{
        f"attention(V, normalizer='{name}')": of_logits(
            pairs_of_tokens, weights
        )
        for name, weights in NORMALIZERS.items()
    },
    **{
        f"attention(V, pattern='{name}')": of_logits(
            pairs_of_tokens, pattern=pattern
        )
        for name, pattern in PATTERNS.items()
    },
    "local_dense(window=2)": of_logits(
        lambda x, w: f.local_dense(x, *w.dense("hidden"), w["W2"], w["b2"]),
        pattern=f.window(T, T, 2),
    ),
    **{name: of_context(context) for name, context in CONTEXTS.items()},
    **OUTPUTS,
}
NOT_CAUSAL = {"fnet", *CONTEXTS} - {"linear", "performer(features=8)"}


@pytest.mark.parametrize(
    "name, causal",
    [(x, False) for x in FORMULAS]
    + [(x, True) for x in FORMULAS if x not in NOT_CAUSAL],
)
def test_a_layer_is_its_formula(name, causal):
    layer = mixers.get(name, num_heads=H, key_dim=K, max_length=N)
    x = ops.convert_to_tensor(normal(B, T, D))
    layer(x, x)
    for seed, weight in enumerate(layer.trainable_weights):
        weight.assign(normal(*weight.shape, seed=seed + 1) / math.sqrt(2))
    found = numpy(layer(x, x, use_causal_mask=causal))
    expected = numpy(FORMULAS[name](x, Weights(layer), causal))
    np.testing.assert_allclose(found, expected, atol=1e-5, rtol=1e-5)

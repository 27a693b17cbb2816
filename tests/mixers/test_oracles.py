"""Each mixer is its formula in NumPy, whatever its masks and its source."""

import itertools

import numpy as np
import oracles
import pytest
from arrays import normal, padding
from assertions import close
from backend import numpy, program, some_on_each_backend
from cases import randomized

from keras_synth import mixers
from keras_synth.mixers.patterns import RandomBlocks

H, K, D, N, T = 2, 4, 8, 13, 11
NEAR = mixers.patterns.get("blocks(number=3, block_size=2) | global(tokens=2)")
BLOCKS = RandomBlocks(2, 2, 5, N, without=NEAR).table


def near_blocks(i, j):
    return (
        abs(i // 2 - j // 2) <= 1 or min(i, j) < 2 or j // 2 in BLOCKS[i // 2]
    )


pairs, dot = oracles.of_pairs, oracles.dot_product
heads, sums = oracles.of_real_heads, oracles.of_sums
ORACLES = {
    "linear": pairs(oracles.linear),
    "performer(features=6)": pairs(oracles.performer),
    "additive": pairs(oracles.additive),
    "relu": pairs(oracles.relu),
    "V(fixed=True)": pairs(dot),
    "local(window=3)": pairs(dot, lambda i, j: abs(i - j) <= 3),
    "strided(stride=4)": pairs(
        dot, lambda i, j: abs(i - j) <= 4 or (i - j) % 4 == 0
    ),
    "big_bird(block_size=2, global_blocks=1, random_blocks=2, random_seed=5)": (
        pairs(dot, near_blocks)
    ),
    "longformer(window=3, global_tokens=2)": oracles.longformer(3, 2),
    "linformer(rank=3, share='none')": sums(oracles.linformer),
    "linformer(rank=3)": sums(oracles.linformer),
    "linformer(rank=3, share='key_value')": sums(oracles.linformer),
    "compressed(stride=2, kernel=5)": sums(oracles.compressed),
    "compressed(stride=3, kernel=4)": sums(oracles.compressed),
    "compressed(stride=20)": sums(oracles.compressed),
    "reformer(bucket_size=3, hashes=4)": heads(oracles.reformer),
    "reformer(bucket_size=1, hashes=1)": heads(oracles.reformer),
    "reformer(bucket_size=5, hashes=2)": heads(oracles.reformer),
    "reformer(bucket_size=13, hashes=3)": heads(oracles.reformer),
    "routing(clusters=3)": heads(oracles.routing),
    "routing(clusters=1)": heads(oracles.routing),
    "routing(clusters=13)": heads(oracles.routing),
    "sinkhorn(block_size=3)": heads(oracles.sinkhorn),
    "sinkhorn(block_size=1, iterations=2)": heads(oracles.sinkhorn),
    "sinkhorn(block_size=4, iterations=1)": heads(oracles.sinkhorn),
    "sinkhorn(block_size=13)": heads(oracles.sinkhorn),
    "light_conv(width=3)": oracles.convolution,
    "light_conv(width=4, border='renormalize')": oracles.convolution,
    "light_conv(width=1, use_glu=False)": oracles.convolution,
    "dynamic_conv(width=3)": oracles.convolution,
    "dynamic_conv(width=20, border='renormalize')": oracles.convolution,
    "pooling(size=4)": oracles.pooling,
    "pooling(size=1)": oracles.pooling,
    "pooling(size=20)": oracles.pooling,
    "mlp_mixer(activation='tanh')": oracles.mlp_mixer,
    "mlp_mixer(activation='tanh', hidden_dim=5)": oracles.mlp_mixer,
    "gmlp(activation='tanh')": oracles.gmlp,
    "gmlp(activation='tanh', ffn_dim=6)": oracles.gmlp,
    "fnet": oracles.fnet,
}
# The first one of each name.
QUICK = {name.split("(")[0]: name for name in reversed(ORACLES)}.values()
END, GAPS = padding(T, 4, 0, size=T), np.ones((3, T), bool)
GAPS[0, 2:4] = GAPS[1, :3] = GAPS[2] = False
# These take padding as at the end; those have no features of values.
IN_ORDER = ("linformer", "compressed", "reformer", "routing", "sinkhorn")
OF_TOKENS = ("light", "dynamic", "pooling", "mlp_mixer", "gmlp", "fnet")
each = pytest.mark.parametrize("name", some_on_each_backend(ORACLES, QUICK))


def layer_of(name):
    options = {} if name.startswith(OF_TOKENS) else {"value_dim": 3}
    return randomized(mixers.get(name, H, K, N, **options), 0.5)


def check(layer, name, x, real, found, source=None, causal=False):
    source = x if source is None else source
    expected = ORACLES[name](
        layer, x.astype("float64"), source.astype("float64"), real, causal
    )
    rows = real if source is x else slice(None)
    close(found[rows], expected[rows], atol=1e-4, rtol=1e-4)


@each
def test_a_mixer_is_its_formula(name):
    """For any content of padding."""
    layer, x = layer_of(name), normal(3, T, D)
    ragged = END if name.startswith(IN_ORDER) else GAPS
    causal = [False, True] if layer.supports_causal_mask else [False]
    poisoned = np.where(ragged[..., None], x, np.float32(np.nan))

    def calls(x, poisoned):
        return [
            layer(y, value_mask=real, use_causal_mask=c)
            for y, real in ((x, None), (poisoned, ragged))
            for c in causal
        ]

    found = map(numpy, program(calls)(x, poisoned))
    for real in (np.ones((3, T), bool), ragged):
        for c in causal:
            check(layer, name, x, real, next(found), causal=c)


CROSS = [
    name
    for name in QUICK
    if mixers.get(name, H, K, N).supports_cross_attention
    and getattr(mixers.get(name, H, K, N), "pattern", None) is None
]
LONG = [(256, 130), (130, 256)]  # more than one chunk


@pytest.mark.parametrize(
    "name, lengths",
    [
        *itertools.product(CROSS, [(5, N), (N, 5)]),
        *itertools.product(["linear", "performer(features=6)"], LONG),
    ],
)
def test_a_mixer_of_another_sequence_is_its_formula(name, lengths):
    """And of causal calls, in which a query sees the keys up to its place."""
    layer = layer_of(name)
    x, source = (normal(2, n, D, seed=n) for n in lengths)
    real = padding(lengths[1], 2, size=lengths[1])
    causal = [False, True] if layer.supports_causal_mask else [False]
    for c in causal:
        found = layer(x, source, value_mask=real, use_causal_mask=c)
        check(layer, name, x, real, numpy(found), source, c)

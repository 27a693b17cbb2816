"""Sparse attention: blocks give what a mask of all pairs would give."""

import itertools

import keras
import numpy as np
import pytest
from backend import numpy

from keras_synth import mixers
from keras_synth.mixers import patterns
from keras_synth.mixers.patterns import (
    BlockWindow,
    GlobalTokens,
    RandomBlocks,
    Stride,
    Window,
)

B, H, K, D, N = 3, 2, 4, 8, 40

PATTERNS = {
    "window": Window(2),
    "wide window": Window(30),
    "dilated window": Window(2, dilation=3),
    "stride": Stride(5),
    "global": GlobalTokens(2),
    "blocks": BlockWindow(3, 4),
    "wide blocks": BlockWindow(5, 2),
    "random": RandomBlocks(2, 4, seed=1, max_length=N),
}
PAIRS = [f"{a} | {b}" for a, b in itertools.permutations(PATTERNS, 2)]


def pattern_of(name):
    a, *others = (PATTERNS[one] for one in name.split(" | "))
    return a | others[0] if others else a


def normal(*shape, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=shape).astype("float32")


def padding(length):
    return np.arange(length) < [[length], [(length + 1) // 2], [1]]


# --- the oracle ---------------------------------------------------------------


def sees(pattern, i, j):
    """The definitions once more, of two integers."""
    if isinstance(pattern, Window):
        distance = abs(i - j)
        return (
            distance % pattern.dilation == 0
            and distance // pattern.dilation <= pattern.size
        )
    if isinstance(pattern, Stride):
        return i % pattern.stride == j % pattern.stride
    if isinstance(pattern, GlobalTokens):
        return min(i, j) < pattern.number
    size = getattr(pattern, "block_size", None)
    if isinstance(pattern, BlockWindow):
        reach = pattern.number // 2
        return -reach <= i // size - j // size <= reach
    if isinstance(pattern, RandomBlocks):
        return j // size in pattern.table[i // size]
    return any(sees(one, i, j) for one in pattern.patterns)


def allowed_pairs(pattern, length, real=None, causal=False):
    """Boolean `(B, T, T)`."""
    real = np.ones((B, length), bool) if real is None else real
    found = np.zeros((B, length, length), bool)
    for i, j in itertools.product(range(length), repeat=2):
        if sees(pattern, i, j) and (j <= i or not causal):
            found[:, i, j] = real[:, j]
    return found


def masked_attention(q, k, v, allowed):
    """Of one head: `(B, T, k) -> (B, T, v)`, zero where nothing is seen."""
    scores = np.einsum("btk,bsk->bts", q, k) / np.sqrt(q.shape[-1])
    scores = np.where(allowed, scores, -np.inf)
    top = np.where(allowed.any(-1), scores.max(-1), 0.0)
    weights = np.exp(scores - top[..., None])
    total = weights.sum(-1, keepdims=True)
    return np.einsum("bts,bsv->btv", weights / np.where(total, total, 1), v)


def projected(layer, x):
    """`(B, T, d) -> (B, H, T, k)`."""
    found = np.einsum("btd,dhk->bhtk", x, numpy(layer.kernel))
    return found + numpy(layer.bias)[:, None]


def expected_of(mixer, x, allowed):
    """What a mixer must return, in NumPy."""
    compared = getattr(mixer, "synthesizer", mixer)
    own = [
        projected(layer, x)
        for layer in (compared.query, compared.key, mixer.value)
    ]
    first = getattr(mixer, "global_tokens", 0)
    others = [
        projected(getattr(mixer, f"global_{name}"), x)
        for name in ("query", "key", "value")
        if first
    ]
    output = numpy(mixer.attention_output.bias)
    for head in range(H):
        context = masked_attention(*(p[:, head] for p in own), allowed)
        if first:
            context[:, :first] = masked_attention(
                *(p[:, head] for p in others), allowed
            )[:, :first]
        kernel = numpy(mixer.attention_output.kernel)[head]
        output = output + context @ kernel
    return output


def with_biases(mixer):
    """Weights whose biases are not zero."""
    rng = np.random.default_rng(7)
    mixer.set_weights(
        [0.4 * rng.normal(size=w.shape) for w in mixer.get_weights()]
    )
    return mixer


def sparse(pattern, **options):
    mixer = mixers.SparseAttention(H, K, pattern, **options)
    mixer.build((None, None, D))
    return with_biases(mixer)


# --- blocks are a mask --------------------------------------------------------


def check_blocks(pattern, length, causal):
    mixer, x = sparse(pattern), normal(B, length, D)
    real = padding(length)
    found = numpy(mixer(x, value_mask=real, use_causal_mask=causal))
    allowed = allowed_pairs(pattern, length, real, causal)
    np.testing.assert_allclose(found, expected_of(mixer, x, allowed), atol=1e-5)
    found = numpy(mixer(x, use_causal_mask=causal))
    allowed = allowed_pairs(pattern, length, None, causal)
    np.testing.assert_allclose(found, expected_of(mixer, x, allowed), atol=1e-5)


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of queries so small that windows have several."""
    monkeypatch.setattr(patterns, "BLOCK", 4)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("length", [1, 3, 23])
def test_blocks_are_a_mask_of_all_pairs(name, length, causal, small_blocks):
    check_blocks(pattern_of(name), length, causal)


@pytest.mark.parametrize("name", PAIRS)
def test_blocks_of_unions_are_a_mask_of_all_pairs(name, small_blocks):
    check_blocks(pattern_of(name), 23, causal=False)
    check_blocks(pattern_of(name), 10, causal=True)


# --- by name ------------------------------------------------------------------

NAMES = {
    "local": "local(window=3)",
    "strided": "strided(stride=4)",
    "longformer": "longformer(window=3, global_tokens=2)",
    "big_bird": "big_bird(block_size=2, global_blocks=1, random_blocks=2, "
    "random_seed=5)",
}
each_name = pytest.mark.parametrize("name", NAMES)
# The definition of each, for the oracle.
MEANING = {
    "local": Window(3),
    "strided": Window(4) | Stride(4),
    "longformer": Window(3) | GlobalTokens(2),
}
MEANING["big_bird"] = BlockWindow(3, 2) | GlobalTokens(2)
MEANING["big_bird"] |= RandomBlocks(2, 2, 5, N, without=MEANING["big_bird"])


def named(name, **options):
    mixer = mixers.get(NAMES[name], H, K, N, **options)
    mixer.build((None, None, D))
    return with_biases(mixer)


@pytest.mark.parametrize("causal", [False, True])
@each_name
def test_named_mixers_are_masks_of_all_pairs(name, causal):
    mixer, length = named(name), 19
    x, real = normal(B, length, D), padding(19)
    found = numpy(mixer(x, value_mask=real, use_causal_mask=causal))
    allowed = allowed_pairs(MEANING[name], length, real, causal)
    np.testing.assert_allclose(found, expected_of(mixer, x, allowed), atol=1e-5)


@each_name
def test_padding_has_no_influence(name):
    mixer, x, real = named(name), normal(B, 19, D), padding(19)
    expected = numpy(mixer(x, mask=real))
    for value in (1e9, np.inf, np.nan):
        padded = np.where(real[..., None], x, value).astype("float32")
        padded = np.pad(padded, [(0, 0), (0, 9), (0, 0)], constant_values=value)
        mask = np.pad(real, [(0, 0), (0, 9)])
        found = numpy(mixer(padded, mask=mask))[:, :19]
        np.testing.assert_allclose(found[real], expected[real], atol=1e-5)
        assert np.isfinite(numpy(mixer(padded, mask=mask))).all()


@each_name
def test_decoding_is_calling_with_a_causal_mask(name):
    mixer, x = named(name), normal(B, 19, D)
    expected = numpy(mixer(x, use_causal_mask=True))
    for ends in ((1, 2, 19), (7, 12, 13, 14, 19), range(1, 20)):
        cache, outputs, start = mixer.make_cache(B, 24), [], 0
        for end in ends:
            output, cache = mixer.call_with_cache(x[:, start:end], cache, start)
            outputs.append(numpy(output))
            start = end
        found = np.concatenate(outputs, axis=1)
        np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("whole", [False, True])
@each_name
def test_decoding_leaves_padding_out(name, whole):
    mixer, x, real = named(name), normal(B, 19, D), padding(19)
    expected = numpy(mixer(x, value_mask=real, use_causal_mask=True))
    x = np.where(real[..., None], x, 7.0).astype("float32")
    room = np.pad(real, [(0, 0), (0, 5)])  # of all that the cache may hold
    cache, outputs, start = mixer.make_cache(B, 24), [], 0
    for end in (4, 5, 6, 12, 13, 19):
        mask = room if whole else real[:, start:end]
        output, cache = mixer.call_with_cache(
            x[:, start:end], cache, start, value_mask=mask
        )
        outputs.append(numpy(output))
        start = end
    found = np.concatenate(outputs, axis=1)
    np.testing.assert_allclose(found[real], expected[real], atol=1e-5)


# --- the original ---------------------------------------------------------


def test_longformer_is_that_of_transformers():
    if keras.backend.backend() != "torch":
        pytest.skip("of PyTorch modules")
    pytest.importorskip("transformers.models.longformer.modeling_longformer")
    import torch
    from transformers import LongformerConfig
    from transformers.models.longformer import modeling_longformer

    window, length = 2, 12
    config = LongformerConfig(
        hidden_size=D,
        num_attention_heads=H,
        attention_window=[2 * window],
        attention_probs_dropout_prob=0.0,
    )
    theirs = modeling_longformer.LongformerSelfAttention(config, 0).eval()
    ours = mixers.LongformerAttention(H, D // H, window, global_tokens=2)
    ours.build((None, None, D))
    with_biases(ours)
    # Their module ends before the output projection.
    ours.attention_output.set_weights(
        [np.eye(D).reshape(H, D // H, D), np.zeros(D)]
    )
    for name in ("query", "key", "value"):
        for their_name, our_name in (
            (name, name),
            (f"{name}_global", f"global_{name}"),
        ):
            linear = getattr(theirs, their_name)
            dense = getattr(ours, our_name)
            kernel = numpy(dense.kernel).reshape(D, D).T
            linear.weight.data = torch.tensor(kernel)
            linear.bias.data = torch.tensor(numpy(dense.bias).reshape(D))
    x, real = normal(B, length, D), np.arange(length) < [[12], [7], [3]]
    kinds = np.where(real, 0.0, -10000.0).astype("float32")
    kinds[:, :2] = 10000.0
    kinds = torch.tensor(kinds)
    expected = theirs(
        torch.tensor(x),
        attention_mask=kinds,
        is_index_masked=kinds < 0,
        is_index_global_attn=kinds > 0,
        is_global_attn=True,
    )[0]
    found = numpy(ours(x, mask=real))
    np.testing.assert_allclose(found[real], numpy(expected)[real], atol=1e-5)


# --- random blocks ------------------------------------------------------------


def test_random_blocks_depend_on_nothing_but_seed_and_longest_length():
    one, same, other = (RandomBlocks(2, 4, s, N) for s in (1, 1, 2))
    np.testing.assert_array_equal(one.table, same.table)
    assert (one.table != other.table).any()
    assert one.table.shape == (N // 4, 2)
    assert all(len({*row}) == 2 for row in one.table.tolist())


def test_random_blocks_of_big_bird_are_not_seen_anyway():
    mixer = named("big_bird")
    *near, drawn = mixer.pattern.patterns
    rows, blocks = np.nonzero(drawn.table >= 0)[0], drawn.table
    blocks = blocks[blocks >= 0]
    assert len(rows) > N // 2
    for pattern in near:
        assert not pattern.allows(2 * rows, 2 * blocks).any()


def test_a_seed_that_is_not_given_is_stored():
    one = mixers.get("big_bird(block_size=2)", H, K, N)
    again = mixers.BigBirdAttention.from_config(one.get_config())
    assert one.pattern == again.pattern
    tables = [m.pattern.patterns[-1].table for m in (one, again)]
    np.testing.assert_array_equal(*tables)
    other = mixers.get("big_bird(block_size=2)", H, K, N)
    assert (other.pattern.patterns[-1].table != tables[0]).any()

"""Sparse attention: blocks give what a mask of all pairs would give."""

import itertools

import keras
import keras_hub
import numpy as np
import pytest
from arrays import normal, padding
from backend import (
    beside,
    build_optimizer,
    gradients,
    numpy,
    program,
    slow_but_on,
)
from keras import ops
from language_models import greedy, language_model

from keras_synth import masks, mixers
from keras_synth.attend import attend
from keras_synth.layers import SynthesizerDecoder
from keras_synth.logits import Logits
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
# Of different groups, and of the same.
FEW = ["stride | wide window", "random | global", "blocks | dilated window"]


def pattern_of(name):
    a, *others = (PATTERNS[one] for one in name.split(" | "))
    return a | others[0] if others else a


def real_tokens(length):
    return padding(length, (length + 1) // 2, 1, size=length)


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
    mixer = mixers.SyntheticAttention(
        H, K, synthesizer="V", pattern=pattern, **options
    )
    mixer.build((None, None, D))
    return with_biases(mixer)


# --- blocks are a mask --------------------------------------------------------


def check_blocks(pattern, length, causal):
    mixer, x = sparse(pattern), normal(B, length, D)
    real = real_tokens(length)

    def calls(x):
        return [
            mixer(x, value_mask=mask, use_causal_mask=causal)
            for mask in (real, None)
        ]

    for mask, found in zip((real, None), program(calls)(x), strict=True):
        allowed = allowed_pairs(pattern, length, mask, causal)
        truth = expected_of(mixer, x, allowed)
        np.testing.assert_allclose(numpy(found), truth, atol=1e-5)


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of queries so small that windows have several."""
    monkeypatch.setattr(patterns.regular, "BLOCK", 4)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "name",
    [
        name
        if name in ("window", "random")
        else pytest.param(name, marks=slow_but_on("torch", "tensorflow"))
        for name in PATTERNS
    ],
)
def test_blocks_are_a_mask_of_all_pairs(name, causal, small_blocks):
    for length in (1, 3, 23):
        check_blocks(pattern_of(name), length, causal)


@slow_but_on("torch")
@pytest.mark.parametrize("name", FEW)
def test_blocks_of_unions_are_a_mask_of_all_pairs(name, small_blocks):
    check_blocks(pattern_of(name), 23, causal=False)
    check_blocks(pattern_of(name), 10, causal=True)


@slow_but_on("torch")
@pytest.mark.parametrize("name", [name for name in PAIRS if name not in FEW])
def test_blocks_of_all_unions_are_masks_of_all_pairs(name, small_blocks):
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
    x, real = normal(B, length, D), real_tokens(19)
    found = numpy(mixer(x, value_mask=real, use_causal_mask=causal))
    allowed = allowed_pairs(MEANING[name], length, real, causal)
    np.testing.assert_allclose(found, expected_of(mixer, x, allowed), atol=1e-5)


@slow_but_on("torch")
@each_name
def test_padding_has_no_influence(name):
    mixer, x, real = named(name), normal(B, 19, D), real_tokens(19)
    expected = numpy(mixer(x, mask=real))
    for value in (1e9, np.inf, np.nan):
        padded = np.where(real[..., None], x, value).astype("float32")
        padded = np.pad(padded, [(0, 0), (0, 9), (0, 0)], constant_values=value)
        mask = np.pad(real, [(0, 0), (0, 9)])
        found = numpy(mixer(padded, mask=mask))[:, :19]
        np.testing.assert_allclose(found[real], expected[real], atol=1e-5)
        assert np.isfinite(numpy(mixer(padded, mask=mask))).all()


@slow_but_on("torch", "tensorflow")
@each_name
def test_decoding_is_calling_with_a_causal_mask(name):
    mixer, x = named(name), normal(B, 11, D)
    expected = numpy(mixer(x, use_causal_mask=True))
    for ends in ((1, 2, 11), (7, 8, 9, 10, 11)):
        cache, outputs, start = mixer.make_cache(B, 15), [], 0
        for end in ends:
            output, cache = mixer.call_with_cache(x[:, start:end], cache, start)
            outputs.append(numpy(output))
            start = end
        found = np.concatenate(outputs, axis=1)
        np.testing.assert_allclose(found, expected, atol=1e-5)


@slow_but_on("torch")
@pytest.mark.parametrize("whole", [False, True])
@each_name
def test_decoding_leaves_padding_out(name, whole):
    mixer, x, real = named(name), normal(B, 19, D), real_tokens(19)
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


@beside("transformers")
def test_longformer_is_that_of_transformers():
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
    again = mixers.SyntheticAttention.from_config(one.get_config())
    assert one.pattern == again.pattern
    tables = [m.pattern.patterns[-1].table for m in (one, again)]
    np.testing.assert_array_equal(*tables)
    other = mixers.get("big_bird(block_size=2)", H, K, N)
    assert (other.pattern.patterns[-1].table != tables[0]).any()


# --- gradients ----------------------------------------------------------------


def of_all_pairs(q, k, v, allowed):
    """The formula with a mask of all pairs, to be differentiated."""
    scores = ops.einsum("bthk,bshk->bhts", q, k) / K**0.5
    scores = ops.where(allowed[:, None], scores, -1e9)
    weights = ops.where(allowed[:, None], ops.softmax(scores), 0.0)
    return ops.einsum("bhts,bshv->bthv", weights, v)


@pytest.mark.parametrize(
    "name",
    ["window", "dilated window | stride", "random | global", "blocks | window"],
)
def test_gradients_are_those_of_a_mask_of_all_pairs(name, small_blocks):
    pattern, length = pattern_of(name), 11
    qkv = [normal(B, length, H, K, seed=i) for i in range(3)]
    upstream = ops.convert_to_tensor(normal(B, length, H, K, seed=3))
    real = real_tokens(length)
    mask = masks.AttentionMask(
        keys=ops.convert_to_tensor(real), pattern=pattern
    )
    allowed = allowed_pairs(pattern, length, real)
    allowed = ops.convert_to_tensor(allowed)

    def blocked(q, k, v):
        logits = Logits(q / K**0.5, k)
        return ops.sum(attend(logits, v, mask) * upstream)

    def dense(q, k, v):
        return ops.sum(of_all_pairs(q, k, v, allowed) * upstream)

    for found, expected in zip(
        gradients(blocked, *qkv), gradients(dense, *qkv), strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=1e-5)


@slow_but_on("torch")
@pytest.mark.parametrize("causal", [False, True])
@each_name
def test_gradients_reach_all_weights_and_stay_finite(name, causal):
    mixer, real = named(name), real_tokens(9)
    x = np.where(real[..., None], normal(B, 9, D), np.nan)
    upstream = np.where(real[..., None], normal(B, 9, D, seed=1), 0.0)
    x, upstream = (ops.convert_to_tensor(a, "float32") for a in (x, upstream))

    def loss(*weights):
        state = [v.value for v in mixer.non_trainable_variables]
        output, _ = mixer.stateless_call(
            list(weights),
            state,
            x,
            mask=ops.convert_to_tensor(real),
            use_causal_mask=causal,
        )
        return ops.sum(output * upstream)

    weights = [numpy(w) for w in mixer.trainable_variables]
    for weight, slope in zip(
        mixer.trainable_variables, gradients(loss, *weights), strict=True
    ):
        assert np.isfinite(slope).all(), weight.path
        if "key/bias" not in weight.path.replace("global_", ""):
            assert np.abs(slope).max() > 1e-6, weight.path


# --- what every mixer promises ------------------------------------------------


@slow_but_on("torch")
@each_name
def test_causal_forms_do_not_see_the_future(name):
    mixer, x = named(name), normal(B, 19, D)
    expected = numpy(mixer(x, use_causal_mask=True))
    changed = np.concatenate([x[:, :9], 5 + x[:, 9:]], axis=1)
    found = numpy(mixer(changed, use_causal_mask=True))
    np.testing.assert_allclose(found[:, :9], expected[:, :9], atol=1e-5)
    assert np.abs(found[:, 9:] - expected[:, 9:]).max() > 1e-2


@slow_but_on("torch")
@each_name
def test_rows_that_see_nothing_are_the_output_bias(name):
    mixer, x = named(name), normal(B, 19, D)
    for arguments in (
        {"value_mask": np.zeros((B, 19), bool)},
        {"query_mask": np.zeros((B, 19), bool)},
    ):
        bias = numpy(mixer.attention_output.bias)
        found = numpy(mixer(x, **arguments))
        np.testing.assert_allclose(found, bias + 0 * found, atol=1e-6)


@slow_but_on("torch")
@each_name
def test_dropout_drops_weights_in_training(name):
    mixer, x = named(name, dropout=0.5, seed=3), normal(B, 19, D)
    plain = named(name)
    plain.set_weights([w for w in mixer.get_weights() if w.dtype == "float32"])
    expected = numpy(plain(x))
    np.testing.assert_allclose(numpy(mixer(x)), expected, atol=1e-5)
    drawn = [numpy(mixer(x, training=True)) for _ in range(30)]
    assert np.abs(drawn[0] - drawn[1]).max() > 1e-3
    # Weights are rescaled: in the mean nothing changes.
    assert np.abs(np.mean(drawn, axis=0) - expected).max() < 1.0


@slow_but_on("torch")
@pytest.mark.parametrize("dtype", ["mixed_float16", "mixed_bfloat16"])
@each_name
def test_half_precision_is_near_and_finite(name, dtype):
    mixer, half = named(name), named(name, dtype=dtype)
    x = normal(B, 19, D)
    found, expected = numpy(half(x)), numpy(mixer(x))
    np.testing.assert_allclose(found, expected, atol=0.1)
    assert np.isfinite(numpy(half(30 * x))).all()


@slow_but_on("torch")
@each_name
def test_configs_and_files_give_the_same(name, tmp_path):
    inputs = keras.Input((None, D))
    mixer = mixers.get(NAMES[name], H, K, N, seed=1, name="mixer")
    model = keras.Model(inputs, mixer(inputs))
    x = normal(B, 13, D)
    expected = numpy(model(x))
    again = mixers.get(NAMES[name], H, K, N, seed=1, name="mixer")
    np.testing.assert_array_equal(numpy(again(x)), expected)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(numpy(loaded(x)), expected, atol=1e-6)
    config = mixer.get_config()
    assert type(mixer).from_config(config).get_config() == config
    model.quantize("int8")
    found = numpy(model(x))
    np.testing.assert_allclose(found, expected, atol=0.1)
    assert np.abs(found - expected).max() > 0
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(numpy(loaded(x)), found, atol=1e-6)


def test_patterns_survive_configs():
    for name in [*PATTERNS, *PAIRS[:3]]:
        mixer = sparse(pattern_of(name), max_length=N)
        config = mixer.get_config()
        again = mixers.SyntheticAttention.from_config(config)
        assert again.pattern == mixer.pattern == pattern_of(name)
        assert again.get_config() == config
    random = RandomBlocks(2, 4, 1)
    mixer = sparse(Window(2) | random, max_length=N)
    assert mixer.pattern == Window(2) | PATTERNS["random"]


def test_patterns_are_values():
    assert Window(2) | Stride(3) == Window(2) | Stride(3)
    assert (Window(2) | Stride(3)) | Window(2) == Window(2) | Stride(3)
    assert len({Window(2), Window(2), Window(3)}) == 2
    with pytest.raises(AttributeError):
        Window(2).size = 3


@pytest.mark.parametrize("name", PATTERNS)
def test_patterns_allow_the_same_as_arrays_and_as_tensors(name):
    pattern = PATTERNS[name]
    i, j = np.arange(N)[:, None], np.arange(N)[None]
    expected = [[sees(pattern, a, b) for b in range(N)] for a in range(N)]
    np.testing.assert_array_equal(pattern.allows(i, j), expected)
    found = pattern.allows(*map(ops.convert_to_tensor, (i, j)))
    np.testing.assert_array_equal(ops.convert_to_numpy(found), expected)


@slow_but_on("torch", "tensorflow")
@each_name
def test_lengths_may_be_unknown_when_compiled(name):
    inputs = keras.Input((None, D))
    mask = keras.Input((None,), dtype="bool")
    mixer = named(name)
    model = keras.Model([inputs, mask], mixer(inputs, mask=mask))
    jit = keras.backend.backend() != "torch"
    model.compile(loss="mse", jit_compile=jit)
    build_optimizer(model)
    for length in (5, 13):
        x, real = normal(B, length, D), real_tokens(length)
        expected = numpy(mixer(x, mask=real))
        found = model.predict([x, real], verbose=0)
        np.testing.assert_allclose(found, expected, atol=1e-5)
    assert np.isfinite(model.train_on_batch([x, real], x))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Window(0), "positive integer"),
        (lambda: Window(2, dilation=0), "positive integer"),
        (lambda: Stride(-1), "positive integer"),
        (lambda: GlobalTokens(1.5), "positive integer"),
        (lambda: BlockWindow(2, 4), "odd"),
        (lambda: RandomBlocks(1, 0, 1), "positive integer"),
        (lambda: RandomBlocks(1, 4, None), "need a seed"),
        (lambda: RandomBlocks(1, 4, -1), "need a seed"),
        (lambda: RandomBlocks(9, 4, 1, N - 8), "Draw fewer"),
        (lambda: patterns.Union(()), "at least one"),
        (lambda: patterns.Union((Window(2), 3)), "A pattern must be"),
        (lambda: sparse("window"), "Unknown pattern 'window'"),
        (lambda: sparse(3), "A pattern must be"),
        (lambda: sparse(RandomBlocks(1, 4, 1)), "max_length"),
        (
            lambda: sparse(PATTERNS["random"], max_length=64),
            "Leave out the pattern's",
        ),
        (lambda: sparse(Window(9), max_length=8), "beyond"),
        (lambda: sparse(Stride(9), max_length=8), "beyond"),
        (lambda: sparse(GlobalTokens(9), max_length=8), "beyond"),
        (lambda: mixers.get("local", H, K), "needs `window`"),
        (lambda: mixers.get("local(window=0)", H, K), "positive integer"),
        (lambda: mixers.get("local(window=9)", H, K, 8), "beyond"),
        (lambda: mixers.get("strided", H, K), "needs `stride`"),
        (lambda: mixers.get("strided(stride=2, window=0)", H, K), "`window`"),
        (lambda: mixers.get("strided(stride=9)", H, K, 8), "beyond"),
        (lambda: mixers.get("longformer", H, K), "needs `window`"),
        (
            lambda: mixers.get(
                "longformer(window=2, global_tokens=9)", H, K, 8
            ),
            "beyond",
        ),
        (lambda: mixers.get("big_bird", H, K), "needs `max_length`"),
        (lambda: mixers.get("big_bird", H, K, 64), "beyond"),
        (lambda: mixers.get("big_bird(window_blocks=2)", H, K, 512), "odd"),
    ],
)
def test_bad_input_is_refused_at_construction(make, words):
    with pytest.raises(ValueError, match="Received") as error:
        make()
    assert words in str(error.value)


def test_what_is_too_long_or_cannot_be_honoured_is_refused():
    mixer = named("big_bird")
    for call in (
        lambda: mixer(normal(B, N + 1, D)),
        lambda: named("longformer")(
            normal(B, 5, D), attention_mask=np.ones((5, 5), bool)
        ),
        lambda: mixer.call_with_cache(
            normal(B, 1, D), mixer.make_cache(B, N + 1), 0
        ),
        lambda: mixer(normal(B, 5, D), normal(B, 6, D, seed=1)),
        lambda: named("longformer")(normal(B, N + 1, D)),
        lambda: named("longformer")(normal(B, 5, D), normal(B, 5, D, seed=1)),
    ):
        with pytest.raises(ValueError, match="Received"):
            call()
    local, x = named("local"), normal(B, 5, D)
    cache = local.make_cache(B, N)
    for call in (
        lambda: local.call_with_cache(x, cache["tokens"], 0),
        lambda: local.call_with_cache(
            x, cache, 0, attention_bias=np.zeros((1, 1, 5, N), "float32")
        ),
        lambda: named("longformer").call_with_cache(x, cache["tokens"], 0),
        lambda: named("longformer").call_with_cache(
            x, named("longformer").make_cache(B, N), None
        ),
    ):
        with pytest.raises(ValueError, match="Received"):
            call()


# --- local --------------------------------------------------------------------


def test_a_window_of_all_is_multi_head_attention():
    theirs = keras.layers.MultiHeadAttention(H, K)
    ours = mixers.get("local(window=20)", H, K)
    x = normal(B, 19, D)
    theirs(x, x), ours(x)
    with_biases(theirs)
    ours.set_weights(theirs.get_weights())
    expected = numpy(theirs(x, x, use_causal_mask=True))
    found = numpy(ours(x, use_causal_mask=True))
    np.testing.assert_allclose(found, expected, atol=1e-5)


@slow_but_on("torch")
@pytest.mark.parametrize("synthesizer", ["V", "R + V", "D", "heads(V=1, R=1)"])
def test_local_attention_is_a_sliding_window(synthesizer):
    options = {"synthesizer": synthesizer, "max_length": N}
    ours = mixers.get("local(window=3)", H, K, **options)
    other = mixers.SyntheticAttention(H, K, sliding_window=4, **options)
    x, real = normal(B, 19, D), real_tokens(19)
    for layer in (ours, other):
        layer.build((None, None, D))
    with_biases(other)
    ours.set_weights(other.get_weights())
    bias = normal(1, H, 19, 19, seed=5)
    pairs = normal(B, 19, 19, seed=6) > 0
    for arguments in (
        {"mask": real},
        {"use_causal_mask": True, "value_mask": real},
        {"attention_bias": bias},
        {"attention_mask": pairs},
    ):
        np.testing.assert_allclose(
            numpy(ours(x, **arguments)),
            numpy(other(x, **arguments)),
            atol=1e-5,
        )
    found, scores = ours(x, return_attention_scores=True)
    np.testing.assert_allclose(numpy(found), numpy(ours(x)), atol=1e-5)
    far = np.abs(np.arange(19)[:, None] - np.arange(19)) > 3
    assert not numpy(scores)[:, :, far].any()
    assert ours.overwrites_cache == (synthesizer != "V")


# --- decoding in a model ------------------------------------------------------

MODELS = [
    "local(window=2)",
    'local(window=2, synthesizer="R + V")',
    "strided(stride=3)",
    "longformer(window=2, global_tokens=2)",
    "big_bird(block_size=2, random_seed=1)",
]


@slow_but_on("torch")
@pytest.mark.parametrize("name", MODELS)
def test_generating_with_caches_is_generating_without(name):
    model = language_model([name, "V"])
    model.compile(sampler="greedy")
    prompts = ["a quick", "the lazy dog and then", "fox"]
    features = model.preprocessor.generate_preprocess(prompts, 12)
    written = model.generate_step(
        {k: ops.convert_to_tensor(v) for k, v in features.items()}
    )
    np.testing.assert_array_equal(
        numpy(written["token_ids"]), greedy(model, prompts, 12)
    )


@slow_but_on("torch")
@pytest.mark.parametrize("name", [MODELS[0], MODELS[3]])
def test_beams_of_any_cache_are_chosen_among(name):
    model = language_model([name, "V"])
    model.compile(sampler=keras_hub.samplers.BeamSampler(num_beams=2))
    texts = model.generate(["a quick", "the lazy dog"], max_length=12)
    assert texts[0].startswith("a quick")


@slow_but_on("torch", "tensorflow")
@pytest.mark.parametrize("name", MODELS)
def test_a_decoder_decodes_with_its_cache(name):
    block = SynthesizerDecoder(16, H, synthesizer=name, max_length=N)
    x = normal(B, 9, D)
    expected = numpy(block(x))
    cache, _ = block.make_caches(B, N)
    outputs = []
    for start, end in ((0, 3), (3, 4), (4, 9)):
        output, cache = block(
            x[:, start:end],
            self_attention_cache=cache,
            self_attention_cache_update_index=start,
        )
        outputs.append(numpy(output))
    np.testing.assert_allclose(
        np.concatenate(outputs, axis=1), expected, atol=1e-5
    )


@pytest.mark.parametrize("name", ["local", "strided", "big_bird"])
def test_a_cache_may_be_filled_without_a_causal_mask(name):
    mixer, x = named(name), normal(B, 19, D)
    found, _ = mixer.call_with_cache(
        x, mixer.make_cache(B, 24), 0, use_causal_mask=False
    )
    np.testing.assert_allclose(numpy(found), numpy(mixer(x)), atol=1e-5)


def test_caches_of_other_sequences_are_refused():
    for name in ("strided", "big_bird"):
        mixer = named(name)
        cache = mixer.make_cache(B, 24)
        with pytest.raises(ValueError, match=r"cross-attention.*Received"):
            mixer.call_with_cache(normal(B, 5, D), cache)

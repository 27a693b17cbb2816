"""Logits, pattern, normalizer: every choice of each, against one oracle.

The oracle makes weights of given logits in NumPy, row by row. Logits have
oracles of their own, in tests/synthesizers.
"""

import functools
import itertools

import keras
import numpy as np
import pytest
from arrays import normal
from assertions import close, equal
from backend import numpy, some_on_each_backend
from cached import decoded
from cases import randomized
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import ops

import keras_synth
from keras_synth import routes
from keras_synth.layers import SyntheticAttention
from keras_synth.mixers import normalizers, patterns

B, T, H, K, D, N = 3, 13, 2, 4, 8, 16
SYNTHESIZERS = ["V", "D", "R", "FR", "FD", "R + V", "D + V", "alibi + V"]
SYNTHESIZERS += ["additive", "R + FR"]
PATTERNS = {
    "all": None,
    "local": "local(window=2)",
    "global": "local(window=1) | global(tokens=2)",
    "strided": "local(window=1) | stride(stride=4)",
    "dilated": "local(window=2, dilation=3) | first(tokens=1)",
    "blocks": "blocks(number=3, block_size=2) | random(number=1, block_size=2)",
    "array": np.random.default_rng(0).uniform(size=(N, N)) > 0.6,
}
NORMALIZERS = ["softmax", "relu", "sigmoid", "softmax1"]
MASKS = {
    "none": {},
    "padded": {"value_mask": True},
    "causal": {"use_causal_mask": True},
    "both": {"value_mask": True, "use_causal_mask": True},
    "pairs": {"attention_mask": True},
}
EVERY = [*itertools.product(SYNTHESIZERS, PATTERNS, NORMALIZERS, MASKS)]
# Of all cases these have each pair of choices: enough where each of them is
# compiled.
SOME = [
    (
        synthesizer,
        pattern,
        NORMALIZERS[(i + j) % 4],
        [*MASKS][(i + 2 * j) % 5],
    )
    for i, synthesizer in enumerate(SYNTHESIZERS)
    for j, pattern in enumerate(PATTERNS)
]


def real_tokens():
    real = np.ones((B, T), bool)
    real[0, 9:] = False
    real[1, :3] = False
    real[2] = False
    return real


def pairs():
    return np.random.default_rng(1).uniform(size=(B, T, T)) > 0.3


def weights_of(logits, allowed, normalizer):
    """Attention weights in float64, row by row."""
    found = np.zeros(logits.shape)
    for index in np.ndindex(*logits.shape[:-1]):
        seen = np.flatnonzero(allowed[index])
        if not len(seen):
            continue
        row = logits[index][seen].astype("float64")
        if normalizer == "relu":
            own = np.maximum(row, 0) / len(seen)
        elif normalizer == "sigmoid":
            own = 1 / (1 + np.exp(np.log(len(seen)) - row))
        else:
            own = np.exp(row - row.max())
            sink = np.exp(-row.max()) if normalizer == "softmax1" else 0.0
            own = own / (own.sum() + sink)
        found[index][seen] = own
    return found


def allowed_pairs(pattern, mask, reach=T):
    at = np.arange(T)
    allowed = np.abs(at[:, None] - at) <= reach
    if pattern is not None:
        own = patterns.get(pattern).fitted(N)
        allowed = allowed & own.allows(at[:, None], at[None])
    if mask.get("use_causal_mask"):
        allowed = allowed & (at[:, None] >= at)
    allowed = np.broadcast_to(allowed, (B, T, T))
    if "value_mask" in mask:
        allowed = allowed & real_tokens()[:, None]
    if "attention_mask" in mask:
        allowed = allowed & pairs()
    return np.broadcast_to(allowed[:, None], (B, H, T, T))


def options_of(mask):
    made = {"value_mask": real_tokens, "attention_mask": pairs}
    return {k: made[k]() if k in made else v for k, v in mask.items()}


def expected(layer, x, pattern, normalizer, mask, reach=T):
    synthesizer = layer.synthesizer
    logits = synthesizer(x, keys=synthesizer.project_keys(x), length=T)
    logits = numpy(logits.with_rows(T).materialize())
    logits = np.broadcast_to(logits, (B, H, T, T))
    allowed = allowed_pairs(pattern, mask, reach)
    weights = weights_of(logits, allowed, normalizer)
    context = np.einsum("bhts,bshv->bthv", weights, numpy(layer.value(x)))
    return numpy(layer.attention_output(context.astype("float32"))), weights


@functools.cache
def layer_of(synthesizer, pattern, normalizer, window=None, policy="float32"):
    """One for all masks: they change no weight."""
    return SyntheticAttention(
        H,
        K,
        synthesizer=keras_synth.synthesizers.get(
            synthesizer,
            *(H, K, N),
            seed=1,
            defaults={"dtype": policy},
        ),
        max_length=N,
        pattern=PATTERNS[pattern],
        normalizer=normalizer,
        sliding_window=window,
        seed=2,
        dtype=policy,
    )


@pytest.mark.parametrize(
    "case",
    some_on_each_backend(EVERY, SOME),
    ids="-".join,
)
def test_every_combination_is_the_formula(case):
    synthesizer, pattern, normalizer, mask = case
    layer = layer_of(synthesizer, pattern, normalizer)
    x, mask = ops.convert_to_tensor(3 * normal(B, T, D)), MASKS[mask]
    found = numpy(layer(x, **options_of(mask)))
    theirs, _ = expected(layer, x, PATTERNS[pattern], normalizer, mask)
    close(found, theirs, atol=2e-5, rtol=1e-4)


# --- choices drawn together ---------------------------------------------------

REACHES = {"local_dense(window=2)": 2, "local_dense(window=3) + V": 3}
TOLERANCES = {"float32": 1e-5, "mixed_float16": 0.01, "mixed_bfloat16": 0.05}
PADDED, PAIRS = {"value_mask": True}, {"attention_mask": True}
choices = st.fixed_dictionaries(
    {
        "synthesizer": st.sampled_from(
            [*SYNTHESIZERS, *REACHES, "heads(V=1, R=1)"]
        ),
        "pattern": st.sampled_from([*PATTERNS]),
        "normalizer": st.sampled_from(NORMALIZERS),
        "window": st.sampled_from([None, 1, 3, 20]),
        "policy": st.sampled_from(["float32", *TOLERANCES]),
    }
)
masks = st.builds(
    lambda *parts: dict(itertools.chain(*map(dict.items, parts))),
    *(st.sampled_from([{}, mask]) for mask in (PADDED, PAIRS)),
    st.booleans().map(lambda causal: {"use_causal_mask": causal}),
)
# PyTorch compiles nothing: the time of the others is that of their compilers.
SHARE = 10 if keras.backend.backend() == "torch" else 1
drawn = settings(max_examples=SHARE * settings.default.max_examples // 40)


@functools.cache
def random_layer(**choice):
    """Equal weights for all policies."""
    return randomized(layer_of.__wrapped__(**choice), 0.5)


@pytest.mark.each_backend
@drawn
@given(choice=choices, mask=masks)
def test_choices_drawn_together_are_the_formula(choice, mask):
    """With a window and half precision."""
    half = random_layer(**choice)
    exact = random_layer(**{**choice, "policy": "float32"})
    x, options = ops.convert_to_tensor(normal(B, T, D)), options_of(mask)
    reach = REACHES.get(choice["synthesizer"], T)
    if choice["window"] is not None:
        reach = min(reach, choice["window"] - 1)
    pattern = PATTERNS[choice["pattern"]]
    output, weights = expected(
        exact, x, pattern, choice["normalizer"], mask, reach
    )
    tolerance = TOLERANCES[choice["policy"]] * np.abs(output).max()
    found, scores = half(x, **options, return_attention_scores=True)
    for own in (half(x, **options), found):
        close(own, output, atol=tolerance)
    close(scores, weights, atol=2 * tolerance)


@pytest.mark.each_backend
@drawn
@given(choice=choices, parts=st.sampled_from([(4, 5), (1, 12), (3, 6, 7)]))
def test_chunks_are_decoded_as_one_causal_call(choice, parts):
    """Chunks that begin later, also in half precision."""
    layer, x = random_layer(**choice), normal(B, T, D)
    output = numpy(layer(x, use_causal_mask=True))
    found, _ = decoded(layer, x, (*parts, T), N)
    tolerance = TOLERANCES[choice["policy"]] * np.abs(output).max()
    close(found, output, atol=tolerance)


# --- routes -------------------------------------------------------------------


def test_a_custom_route_is_used_only_for_softmax():
    class Zero(routes.ExplicitRoute):
        name = "zero"
        normalizers = (normalizers.Softmax,)

        def cost(self, request):
            return -1.0

        def run(self, request):
            return ops.zeros_like(super().run(request))

    layer = layer_of("V", "all", "relu")
    x = ops.convert_to_tensor(normal(B, T, D))
    before = numpy(layer(x))
    with routes.using(Zero()):
        equal(layer(x), before)
        softmax = layer_of("V", "all", "softmax")
        softmax(x)
        bias = numpy(softmax.attention_output.bias.value)
        equal(softmax(x), np.broadcast_to(bias, x.shape))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_choices_come_back_from_a_file(pattern, tmp_path):
    layer = SyntheticAttention.from_config(
        layer_of("R", pattern, "sigmoid").get_config()
    )
    model = keras.Sequential([keras.Input((T, D)), layer])
    model.save(tmp_path / "model.keras")
    (again,) = keras.saving.load_model(tmp_path / "model.keras").layers
    assert again.pattern == layer.pattern
    assert again.normalizer == layer.normalizer


# --- errors -------------------------------------------------------------------


@pytest.mark.parametrize(
    "options, words",
    [
        ({"normalizer": "hardmax"}, '\'hardmax\'.*"relu", "sigmoid".*Received'),
        ({"pattern": "windows(size=3)"}, "Unknown pattern 'windows'"),
        ({"pattern": "local(window=99)"}, "beyond max_length=16"),
        ({"pattern": np.ones((3, 4), bool)}, r"\(3, 4\)"),
        ({"pattern": np.ones((8, 8), bool)}, "larger array"),
        ({"normalizer": "relu", "flash_attention": True}, "softmax"),
    ],
)
def test_bad_choices_are_errors(options, words):
    with pytest.raises(ValueError, match=words):
        SyntheticAttention(H, K, synthesizer="V", max_length=N, **options)


def test_a_pattern_is_for_one_sequence():
    layer = SyntheticAttention(H, K, synthesizer="V", pattern="local(window=2)")
    with pytest.raises(ValueError, match="5 and 7 tokens"):
        layer(normal(B, 5, D), normal(B, 7, D))
    layer(normal(B, 5, D))
    memory, x = layer.remember(normal(B, 7, D)), normal(B, 5, D)
    with pytest.raises(ValueError, match="start=None"):
        layer.call_with_cache(ops.convert_to_tensor(x), memory)


# --- custom normalizers -------------------------------------------------------


class Shares(normalizers.ReLU):
    """Each row's ReLUs divided by their sum."""

    name = "shares"

    def weights(self, logits, count=None):
        found = 1e-3 + ops.relu(logits)
        return found / ops.sum(found, axis=-1, keepdims=True)


def test_a_row_that_is_normalised_in_another_way_is_not_cut(monkeypatch):
    layer = SyntheticAttention(
        H,
        K,
        synthesizer="V",
        pattern="local(window=1) | stride(stride=4)",
        normalizer=Shares(),
    )
    x = ops.convert_to_tensor(normal(B, T, D))
    _, scores = layer(x, return_attention_scores=True)
    context = ops.einsum("bhts,bshv->bthv", scores, layer.value(x))
    expected = numpy(layer.attention_output(context))
    close(layer(x), expected)


def test_rows_that_see_nothing_are_zero_for_a_custom_normalizer():
    layer = SyntheticAttention(H, K, synthesizer="V", normalizer=Shares())
    x, mask = ops.convert_to_tensor(normal(B, T, D)), pairs()
    mask[0, 2] = False
    output = numpy(layer(x, attention_mask=mask))
    close(output[0, 2], layer.attention_output.bias, atol=0)
    _, scores = layer(x, attention_mask=mask, return_attention_scores=True)
    assert not numpy(scores)[~np.repeat(mask[:, None], H, 1)].any()
    assert layer.get_config()["normalizer"]["class_name"] == "Shares"


def test_a_custom_pattern_without_pieces_is_a_mask():
    class Even(patterns.Pattern):
        def allows(self, rows, columns):
            return (rows + columns) % 2 == 0

    layer = SyntheticAttention(H, K, synthesizer="V", pattern=Even())
    plain = SyntheticAttention(H, K, synthesizer="V")
    x, at = ops.convert_to_tensor(normal(B, T, D)), np.arange(T)
    layer(x), plain(x)
    plain.set_weights(layer.get_weights())
    expected = plain(x, attention_mask=(at[:, None] + at) % 2 == 0)
    close(layer(x), expected, atol=1e-6)
    with pytest.raises(TypeError, match="must be a frozen dataclass"):
        layer.get_config()


@pytest.mark.parametrize("normalizer", NORMALIZERS)
@pytest.mark.parametrize("name", ["R", "heads(V=1, R=1)", "R + V", "FD"])
def test_a_folded_layer_has_the_same_outputs(name, normalizer):
    layer = layer_of(name, "strided", normalizer)
    x, real = ops.convert_to_tensor(normal(B, T, D)), real_tokens()
    expected = numpy(layer(x, value_mask=real))
    folded = keras_synth.fold(layer, T)
    found = numpy(folded(x, value_mask=real))
    close(found, expected)

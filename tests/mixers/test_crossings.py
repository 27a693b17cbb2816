"""Choices drawn together: synthesizer, pattern, normalizer, window, masks.

Weights of given logits are computed in NumPy, row by row. Chunks of tokens that
are decoded with a cache must give what one call gives.
"""

import functools
import itertools

import keras
import numpy as np
import pytest
from arrays import normal
from backend import numpy
from cases import randomized
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import ops

from keras_synth.layers import SyntheticAttention
from keras_synth.mixers import patterns

B, T, H, K, D, N = 2, 9, 2, 4, 8, 12
# PyTorch compiles nothing: the time of the others is that of their compilers.
SHARE = 10 if keras.backend.backend() == "torch" else 1

SYNTHESIZERS = [
    *("V", "D", "R", "FR + V", "FD", "local_dense(window=2)"),
    *("local_dense(window=3) + V", "alibi + V", "heads(V=1, R=1)"),
]
PATTERNS = [
    *(None, "local(window=1)", "stride(stride=3)", "first(tokens=1)"),
    "local(window=1) | global(tokens=2)",
    "local(window=1, dilation=2) | random(number=1, block_size=2)",
]
choices = st.fixed_dictionaries(
    {
        "synthesizer": st.sampled_from(SYNTHESIZERS),
        "pattern": st.sampled_from(PATTERNS),
        "normalizer": st.sampled_from(
            ["softmax", "softmax1", "relu", "sigmoid"]
        ),
        "window": st.sampled_from([None, 1, 3, 20]),
        "causal": st.booleans(),
        "padded": st.booleans(),
        "pairs": st.booleans(),
        "policy": st.sampled_from(
            ["float32", "float32", "mixed_bfloat16", "mixed_float16"]
        ),
    }
)
drawn = settings(max_examples=SHARE * settings.default.max_examples // 25)


@functools.cache
def layer_of(synthesizer, pattern, normalizer, window, policy="float32"):
    layer = SyntheticAttention(
        H,
        K,
        synthesizer=synthesizer,
        pattern=pattern,
        normalizer=normalizer,
        sliding_window=window,
        max_length=N,
        dtype=policy,
    )
    return randomized(layer, 0.5)


def real_keys(choice):
    real = np.ones((B, T), bool)
    if choice["padded"]:
        real[0, :2] = real[1, 6:] = False
    return real


def masks_of(choice):
    masks = {"use_causal_mask": choice["causal"]}
    if choice["padded"]:
        masks["value_mask"] = real_keys(choice)
    if choice["pairs"]:
        rng = np.random.default_rng(0)
        masks["attention_mask"] = rng.random((B, T, T)) < 0.7
    return masks


def allowed_pairs(choice):
    """Boolean `(B, 1, T, T)`."""
    i, j = np.arange(T)[:, None], np.arange(T)
    allowed = np.ones((T, T), bool)
    if choice["pattern"] is not None:
        allowed = patterns.get(choice["pattern"]).fitted(N).allows(i, j)
    reach = {"local_dense(window=2)": 2, "local_dense(window=3) + V": 3}
    allowed = allowed & (abs(i - j) <= reach.get(choice["synthesizer"], T))
    if choice["window"] is not None:
        allowed = allowed & (abs(i - j) < choice["window"])
    if choice["causal"]:
        allowed = allowed & (j <= i)
    allowed = allowed & real_keys(choice)[:, None]
    allowed = allowed & masks_of(choice).get("attention_mask", True)
    return np.broadcast_to(allowed, (B, T, T))[:, None]


def weights_of(logits, allowed, normalizer):
    """Weights of a row `(S,)`, in float64."""
    seen, weights = np.flatnonzero(allowed), np.zeros(len(logits))
    if not len(seen):
        return weights
    row = logits[seen].astype("float64")
    if normalizer == "relu":
        weights[seen] = np.maximum(row, 0) / len(seen)
    elif normalizer == "sigmoid":
        weights[seen] = 1 / (1 + len(seen) * np.exp(-row))
    else:
        sink = np.exp(-row.max()) if normalizer == "softmax1" else 0.0
        powers = np.exp(row - row.max())
        weights[seen] = powers / (powers.sum() + sink)
    return weights


def expected(layer, x, choice):
    """Output and weights."""
    synthesizer = layer.synthesizer
    logits = synthesizer(x, keys=synthesizer.project_keys(x), length=T)
    logits = np.broadcast_to(numpy(logits.materialize()), (B, H, T, T))
    allowed = np.broadcast_to(allowed_pairs(choice), logits.shape)
    weights = np.zeros(logits.shape)
    for row in np.ndindex(B, H, T):
        weights[row] = weights_of(
            logits[row], allowed[row], choice["normalizer"]
        )
    context = np.einsum("bhts,bshv->bthv", weights, numpy(layer.value(x)))
    return numpy(layer.attention_output(context.astype("float32"))), weights


@pytest.mark.each_backend
@drawn
@given(choice=choices)
def test_choices_drawn_together_are_the_formula(choice):
    names = ("synthesizer", "pattern", "normalizer", "window")
    own = tuple(choice[name] for name in names)
    layer, x = layer_of(*own), normal(B, T, D)
    output, weights = expected(layer, ops.convert_to_tensor(x), choice)
    half = layer_of(*own, choice["policy"])
    half.set_weights(layer.get_weights())
    masks = masks_of(choice)
    tolerance = {"float32": 1e-5, "mixed_float16": 0.01}
    tolerance = tolerance.get(choice["policy"], 0.05) * np.abs(output).max()
    found, scores = half(x, **masks, return_attention_scores=True)
    np.testing.assert_allclose(numpy(half(x, **masks)), output, atol=tolerance)
    np.testing.assert_allclose(numpy(found), output, atol=tolerance)
    np.testing.assert_allclose(numpy(scores), weights, atol=2 * tolerance)


@pytest.mark.each_backend
@drawn
@given(choice=choices, parts=st.sampled_from([(4, 5), (1, 8), (3, 6, 7)]))
def test_chunks_are_decoded_as_one_causal_call(choice, parts):
    """Chunks that begin later, also in half precision."""
    names = ("synthesizer", "pattern", "normalizer", "window", "policy")
    layer = layer_of(*(choice[name] for name in names))
    x = normal(B, T, D)
    output = numpy(layer(x, use_causal_mask=True))
    cache, outputs = layer.make_cache(B, N), []
    for start, end in itertools.pairwise((0, *parts, T)):
        found, cache = layer.call_with_cache(x[:, start:end], cache, start)
        outputs.append(numpy(found))
    tolerance = {"float32": 1e-5, "mixed_float16": 0.01}
    tolerance = tolerance.get(choice["policy"], 0.05) * np.abs(output).max()
    np.testing.assert_allclose(
        np.concatenate(outputs, axis=1), output, atol=tolerance
    )

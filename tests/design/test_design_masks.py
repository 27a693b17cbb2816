"""Masks of every kind, biases, and masked logits that lead by far."""

import keras
import numpy as np
import pytest
from design_helpers import (
    IDS,
    PAIR,
    B,
    D,
    H,
    N,
    S,
    T,
    attention,
    call,
    check,
    close,
    combined,
    each_kind,
    embedding,
    flags,
    logits_of,
    normal,
    output_bias,
    tables,
    to_numpy,
    train_one_step,
    variable,
)
from keras import ops

MASKS = {
    "value": {"value_mask": flags("111100", "111111")},
    "key": {"key_mask": flags("110111", "111010")},
    "causal": {"use_causal_mask": True},
    "[B,T,S]": {"attention_mask": normal(B, T, S, seed=7) < 0.5},
    "[B,H,T,S]": {"attention_mask": normal(B, H, T, S, seed=9) < 0.5},
}
ALL = MASKS["value"] | MASKS["key"] | MASKS["causal"]
MASKS["all, [B,T,S]"] = ALL | MASKS["[B,T,S]"]
MASKS["all, [B,H,T,S]"] = ALL | MASKS["[B,H,T,S]"]


@each_kind
@pytest.mark.parametrize("name", MASKS)
def test_masks_hide_what_they_hide_and_nothing_else(case, name):
    layer, options = attention(case), MASKS[name]
    mask = combined(T, S, **options)
    check(layer, PAIR, logits_of(layer, *PAIR), mask, **options)


@pytest.mark.parametrize("case", ["V", "D", "R", "R+V"])
@pytest.mark.parametrize("padded", [False, True])
def test_self_attention_masks_agree_too(case, padded):
    layer, x = attention(case), normal(B, S, D)
    options = {"use_causal_mask": True}
    if padded:
        options["value_mask"] = flags("111000", "111111")
    mask = combined(S, S, **options)
    check(layer, [x], logits_of(layer, x), mask, **options)


@pytest.mark.parametrize("case", ["V", "D", "R"])
def test_implicit_masks_equal_explicit_ones(case):
    layer, embed = attention(case), embedding()
    x, mask = to_numpy(embed(IDS)), IDS != 0
    expected = call(layer, x, x, query_mask=mask, value_mask=mask)
    wrong = call(layer, x, x)
    assert np.abs(wrong[0, :3] - expected[0, :3]).max() > 1e-4
    inputs = keras.Input((None,), dtype="int32")
    embedded = embed(inputs)
    outputs = [layer(embedded), layer(embedded, embedded)]
    for actual in call(keras.Model(inputs, outputs), IDS):
        close(actual, expected)


@pytest.mark.parametrize("case", ["V", "R"])
def test_implicit_masks_count_in_eager_calls_and_are_anded(case):
    layer, x = attention(case), embedding()(IDS)
    values, mask, extra = to_numpy(x), IDS != 0, flags("01111", "11011")
    masks = {"query_mask": mask, "value_mask": mask}
    expected = call(layer, values, values, **masks)
    for _ in range(2):  # the first call leaves the mask on the tensor
        close(call(layer, x, x), expected)
        close(call(layer, x), expected)
    masks["value_mask"] = mask & extra
    allowed = np.broadcast_to(extra[:, None, :], (B, 5, 5))
    expected = call(layer, values, values, **masks)
    close(call(layer, x, attention_mask=allowed), expected)


@pytest.mark.parametrize(
    ("case", "policy"),
    [("V", "float32"), ("R", "float32"), ("R", "mixed_float16")],
)
def test_the_mask_argument_masks_query_and_value_alike(case, policy):
    layer, mask = attention(case, dtype=policy), flags("111100", "011111")
    x = normal(B, S, D)
    expected = call(layer, x, x, query_mask=mask, value_mask=mask)
    close(call(layer, x, mask=mask), expected)
    tensor = ops.convert_to_tensor(x)
    close(call(layer, tensor, mask=ops.convert_to_tensor(mask)), expected)


@pytest.mark.parametrize("case", ["V", "R"])
def test_outputs_carry_the_mask_of_the_query(case):
    layer, embed = attention(case), embedding()
    assert layer.supports_masking
    inputs = keras.Input((None,), dtype="int32")
    x = embed(inputs)
    output = layer(layer(x), x)
    pooled = keras.layers.GlobalAveragePooling1D()(output)
    output, pooled = call(keras.Model(inputs, [output, pooled]), IDS)
    real = (IDS != 0)[..., None]
    close(pooled, (output * real).sum(axis=1) / real.sum(axis=1))


@each_kind
def test_a_query_mask_changes_only_its_own_rows(case):
    layer = attention(case)
    mask = flags("1101", "0111")
    for inputs in (PAIR, PAIR[:1]):
        actual = call(layer, *inputs, query_mask=mask)
        expected = call(layer, *inputs)
        close(actual[mask], expected[mask])
        bias = np.broadcast_to(output_bias(layer), (2, D))
        np.testing.assert_array_equal(actual[~mask], bias)


@pytest.mark.parametrize("case", ["V", "R", "R+V"])
@pytest.mark.parametrize(
    "shape", [(B, H, T, S), (1, H, T, S), (B, 1, 1, S), (T, S)], ids=str
)
def test_an_attention_bias_adds_outside_the_alphas(case, shape):
    layer = attention(case)
    bias, mask = normal(*shape, seed=2), flags("111100", "110111")
    logits, options = logits_of(layer, *PAIR) + bias, {"attention_bias": bias}
    check(layer, PAIR, logits, **options)
    check(layer, PAIR, logits, mask[:, None, None], value_mask=mask, **options)


# Masked logits that lead by far.


def lead(layer, where, by):
    """Adds to the table of R where it will be masked."""
    (R,) = tables(layer, H, N, N)
    R.assign(to_numpy(R) + np.where(where, np.float32(by), np.float32(0)))


PADDING = {"value_mask": flags("1111000", "1111100")}
FUTURE = np.triu(np.ones((N, N), bool), 1)
LEADING = {
    "padding": (np.arange(N) >= 5, PADDING),
    "future": (FUTURE, {"use_causal_mask": True}),
    "both": (
        FUTURE | (np.arange(N) >= 5),
        {"use_causal_mask": True, **PADDING},
    ),
    "attention_mask": (FUTURE, {"attention_mask": np.stack([~FUTURE] * B)}),
    "seen by one sample": (
        np.arange(N) == 6,
        {"value_mask": flags("1111000", "1111111")},
    ),
}


# Where padding shares one table, a lead is bounded; masks of pairs set none.
@pytest.mark.parametrize(("case", "by"), [("R", 55.0), ("R+V", 200.0)])
@pytest.mark.parametrize("name", LEADING)
def test_masked_logits_may_lead(case, by, name):
    where, options = LEADING[name]
    if "value_mask" not in options:
        by = 200.0
    layer = attention(case)
    if case == "R+V":
        # The whole lead, whatever share the mixture gives to R.
        variable(layer, "alphas").assign(np.array([[3.0] * H, [-3.0] * H]))
    x = normal(B, N, D)
    logits = logits_of(layer, x)
    lead(layer, where, by)
    logits = logits + np.where(where, by, 0.0)
    mask = combined(N, N, **options)
    check(layer, [x], logits, mask, **options)


def test_a_masked_lead_changes_no_gradient_of_a_mixture():
    mask = flags("1111000", "1111100")
    x, y = normal(B, N, D), normal(B, N, D, seed=1)
    changes = []
    for by in (0.0, 200.0):
        layer = attention("R+V")
        lead(layer, np.arange(N) >= 5, by)
        inputs = keras.Input((None, D)), keras.Input((None,), dtype="bool")
        model = keras.Model(inputs, layer(inputs[0], value_mask=inputs[1]))
        before = [to_numpy(weight) for weight in layer.weights]
        train_one_step(model, [x, mask], y)
        after = [to_numpy(weight) for weight in layer.weights]
        changes.append([b - a for a, b in zip(before, after, strict=True)])
    for plain, leading in zip(*changes, strict=True):
        assert np.isfinite(leading).all()
        close(leading, plain, 2e-5)

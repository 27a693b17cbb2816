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
    embedding,
    flags,
    logits_of,
    normal,
    tables,
    to_numpy,
    variable,
)


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
@pytest.mark.parametrize(("case", "by"), [("R+V", 200.0)])
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

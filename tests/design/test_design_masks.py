"""Masks that outputs carry, and biases."""

import keras
import pytest
from design_helpers import (
    IDS,
    PAIR,
    B,
    H,
    S,
    T,
    attention,
    call,
    check,
    close,
    embedding,
    flags,
    logits_of,
    normal,
)


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

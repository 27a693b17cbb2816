"""Encoder and decoder blocks, as KerasHub would call them."""

import numpy as np
import pytest
from design_helpers import (
    PAIR,
    B,
    D,
    H,
    N,
    S,
    T,
    call,
    close,
    combined,
    flags,
    normal,
    randomized,
    tables,
    variables,
)

from keras_synth.layers import SynthesizerDecoder, SynthesizerEncoder


def encoder(case, seed=0, **options):
    layer = SynthesizerEncoder(12, H, synthesizer=case, max_length=N, **options)
    layer(np.zeros((1, 2, D), "float32"))
    return randomized(layer, seed)


def decoder(case, cross=False, seed=0, **options):
    layer = SynthesizerDecoder(12, H, synthesizer=case, max_length=N, **options)
    x = np.zeros((1, 2, D), "float32")
    layer(x, x) if cross else layer(x)
    return randomized(layer, seed)


@pytest.mark.parametrize("case", ["V", "R"])
@pytest.mark.parametrize("normalize_first", [False, True])
def test_encoders_take_the_call_of_kerashub(case, normalize_first):
    layer = encoder(case, normalize_first=normalize_first)
    x, mask = normal(B, S, D), flags("111100", "111111")
    allowed = normal(B, S, S, seed=7) < 1.0
    options = {"padding_mask": mask, "attention_mask": allowed}
    output, scores = call(
        layer, x, training=False, return_attention_scores=True, **options
    )
    assert output.shape == (B, S, D)
    assert scores.shape == (B, H, S, S)
    visible = combined(S, S, value_mask=mask, attention_mask=allowed)
    real = np.broadcast_to(mask[:, None, :, None], visible.shape)
    assert (scores[real & ~visible] == 0).all()
    sums, real = scores.sum(axis=-1), real[..., 0]
    close(sums[real], visible.any(axis=-1)[real])
    close(call(layer, x, **options)[mask], output[mask])


@pytest.mark.parametrize("normalize_first", [False, True])
def test_a_dot_product_encoder_equals_that_of_kerashub(normalize_first):
    keras_hub = pytest.importorskip("keras_hub")
    options = {"normalize_first": normalize_first, "activation": "gelu"}
    theirs = keras_hub.layers.TransformerEncoder(12, H, **options)
    theirs(np.zeros((1, 2, D), "float32"))
    randomized(theirs)
    ours = encoder("V", seed=1, **options)
    assert roles(ours).keys() == roles(theirs).keys()
    for role, weight in roles(ours).items():
        weight.assign(roles(theirs)[role])
    x, mask = normal(B, S, D), flags("111100", "111111")
    expected = call(theirs, x, padding_mask=mask)
    close(call(ours, x, padding_mask=mask)[mask], expected[mask], 2e-5)
    close(call(ours, x), call(theirs, x), 2e-5)


def roles(layer):
    """Weights by part, kind, shape and order: alike in both libraries."""
    found = {}
    for weight in layer.weights:
        owner, kind = weight.path.split("/")[-2:]
        known = ("query", "key", "value", "attention_output")
        part = owner if owner in known else None
        order = 0
        while (part, kind, tuple(weight.shape), order) in found:
            order += 1
        found[part, kind, tuple(weight.shape), order] = weight
    return found


@pytest.mark.parametrize("case", ["V", "D+V"])
def test_decoders_take_the_call_of_kerashub(case):
    layer = decoder(case, cross=True)
    x, memory = PAIR
    mask, padding = flags("1110", "1111"), flags("111100", "101111")
    own = {"decoder_padding_mask": mask}
    options = {**own, "encoder_padding_mask": padding}
    clean = call(layer, x, memory, **options)
    assert clean.shape == (B, T, D)
    close(call(layer, x, encoder_sequence=memory, **options), clean, 1e-6)
    spoiled = np.where(padding[..., None], memory, np.float32(np.nan))
    close(call(layer, x, spoiled, **options)[mask], clean[mask], 2e-5)
    spoiled = np.where(mask[..., None], x, np.float32(7.0))
    close(call(layer, spoiled, memory, **options)[mask], clean[mask], 2e-5)
    unmasked = call(layer, x, memory)
    assert np.abs(unmasked - clean)[mask].max() > 1e-3
    allowed = np.broadcast_to(padding[:, None, :], (B, T, S))
    equal = call(layer, x, memory, encoder_attention_mask=allowed, **own)
    close(equal[mask], clean[mask], 2e-5)


@pytest.mark.parametrize("case", ["V", "R", "R+V"])
def test_cross_attention_stays_dot_product(case):
    layer = decoder(case, cross=True)
    own = decoder(case)
    for ending in ("query/kernel", "key/kernel", "value/kernel"):
        extra = len(variables(layer, ending)) - len(variables(own, ending))
        assert extra == 1
    assert len(tables(layer, H, N, N)) == len(tables(own, H, N, N))

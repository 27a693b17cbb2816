"""Mixtures in files, and dropout."""

import numpy as np
import pytest
from design_helpers import (
    B,
    D,
    H,
    K,
    N,
    S,
    attention,
    call,
    close,
    functional,
    normal,
    output_bias,
    saved_and_loaded,
)

from keras_synth.synthesizers import (
    DenseSynthesizer,
    DotProductSynthesizer,
    FactorizedDenseSynthesizer,
    FactorizedRandomSynthesizer,
    MixtureSynthesizer,
    RandomSynthesizer,
)


def test_mixtures_with_all_options_are_saved(tmp_path):
    parts = [
        DenseSynthesizer(H, K, N, activation="gelu", shared_heads=True),
        FactorizedRandomSynthesizer(H, 3, rank=2, long_inputs="tile"),
        DotProductSynthesizer(H, K, use_bias=False),
        FactorizedDenseSynthesizer(H, None, N, factors=(2, 4)),
        RandomSynthesizer(H, N, fixed=True),
    ]
    mixture = MixtureSynthesizer(parts, per_head=False)
    model = functional(attention(mixture))
    loaded = saved_and_loaded(model, tmp_path)
    x = normal(B, S, D)
    close(call(loaded, x), call(model, x), 1e-6)


@pytest.mark.parametrize("case", ["V", "R"])
def test_dropout_follows_normalisation(case):
    """A row of one weight, 1, becomes either 0 or 1 / (1 - rate)."""
    layer = attention(case, num_heads=1, dropout=0.75, seed=1)
    x = np.repeat(normal(1, 1, D), 4, axis=0)
    clean = call(layer, x) - output_bias(layer)
    dropped = []
    for _ in range(12):
        context = call(layer, x, training=True) - output_bias(layer)
        for before, after in zip(clean, context, strict=True):
            dropped.append(bool(np.abs(after).max() < 1e-6))
            close(after, before * (0.0 if dropped[-1] else 4.0), 1e-4)
    assert set(dropped) == {False, True}

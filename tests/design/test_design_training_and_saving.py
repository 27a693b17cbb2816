"""Training, saving, precision, dropout."""

import json

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

from keras_synth.layers import SyntheticAttention
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


@pytest.mark.parametrize("case", ["D", "FR", "R+V"])
def test_configs_survive_a_round_trip(case):
    layer = attention(
        case,
        value_dim=3,
        dropout=0.25,
        use_bias=False,
        output_shape=5,
        kernel_initializer="he_normal",
        seed=3,
        name="mixer",
    )
    config = layer.get_config()
    twin = SyntheticAttention.from_config(json.loads(json.dumps(config)))
    assert json.dumps(twin.get_config()) == json.dumps(config)
    twin(np.zeros((1, 2, D), "float32"))
    assert [w.shape for w in twin.weights] == [w.shape for w in layer.weights]
    twin.set_weights(layer.get_weights())
    x = normal(B, S, D)
    close(call(twin, x), call(layer, x), 1e-6)


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

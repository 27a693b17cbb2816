"""Performer's gradients are those of its features, floor and scale included."""

import numpy as np
import pytest
from arrays import normal
from backend import gradients
from keras import ops

from keras_synth.masks import AttentionMask
from keras_synth.mixers import PerformerAttention
from keras_synth.mixers.performer import FLOOR


def context(queries, keys, values, projection, causal):
    """The formula in float64; tensors `(T, k)` of one sample's only head."""
    scale = queries.shape[-1] ** -0.25
    of_queries = scale * queries @ projection.T
    of_keys = scale * keys @ projection.T
    of_keys -= np.sum((scale * keys) ** 2, -1, keepdims=True) / 2
    logs = of_keys.max(-1)
    of_queries = np.exp(of_queries - of_queries.max(-1)[:, None]) + FLOOR
    of_keys = np.exp(of_keys - logs[:, None]) + FLOOR
    weights = of_queries @ of_keys.T
    if causal:
        weights = np.tril(weights)
        seen = np.tril(np.ones_like(weights)) > 0
        largest = np.where(seen, logs, -np.inf).max(-1, keepdims=True)
        weights = weights * np.where(seen, np.exp(logs - largest), 0)
    else:
        weights = weights * np.exp(logs - logs.max())
    return weights @ values / weights.sum(-1, keepdims=True)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("apart", [0.0, 6.0])
def test_gradients_are_those_of_the_formula(apart, causal):
    """Of queries and keys far apart all products are near the floor."""
    mixer = PerformerAttention(1, 1, features=5, redraw_interval=None, seed=1)
    mixer.build((None, 4, 3))
    projection = np.array(ops.convert_to_numpy(mixer.projection), "float64")
    lengths = (4, 4, 4) if causal else (4, 3, 3)
    arrays = [
        middle + normal(1, length, 1, 1, seed=seed)
        for seed, (length, middle) in enumerate(
            zip(lengths, (apart, -apart, 0.0), strict=True)
        )
    ]
    direction = normal(1, 4, 1, 1, seed=7)

    def loss(*tensors):
        found = mixer.attend(*tensors, AttentionMask(causal=causal))
        return ops.sum(found * ops.convert_to_tensor(direction))

    found = gradients(loss, *arrays)
    for number, mine in enumerate(found):
        for place in np.ndindex(mine.shape):
            sums = []
            for step in (1e-5, -1e-5):
                near = [np.array(x[0, :, 0], "float64") for x in arrays]
                near[number][place[1], place[3]] += step
                outputs = context(*near, projection, causal)
                sums.append(np.sum(outputs * direction[0, :, 0]))
            expected = (sums[0] - sums[1]) / 2e-5
            assert abs(mine[place] - expected) < 1e-4 * max(1, abs(expected))

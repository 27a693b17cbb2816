"""Models none of whose weights is 0 or 1 by default: that would hide faults."""

import numpy as np
from backend import numpy


def noisy(model, scale=0.2, seed=3):
    """The model, with normal noise of a scale on all of its weights."""
    rng = np.random.default_rng(seed)
    for weight in model.weights:
        value = numpy(weight)
        weight.assign(value + scale * rng.normal(size=value.shape))
    return model


def drawn(model, seed=0, scale=0.4):
    """The model, all of whose weights are normal numbers."""
    rng = np.random.default_rng(seed)
    for weight in model.weights:
        weight.assign(rng.normal(scale=scale, size=weight.shape))
    return model

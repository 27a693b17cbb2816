"""Loops over slices have gradients, compiled and not."""

import numpy as np
from arrays import normal
from backend import compiled_gradients, gradients
from keras import ops

from keras_synth._backend import loops


def loss(x, y):
    total = ops.zeros(ops.shape(x)[1:])
    product = loops.rematerialized(lambda x, y: ops.tanh(x * y))
    return ops.sum(loops.summed(product, (x, y), total) ** 2)


def test_a_sum_over_slices_has_the_gradient_of_the_sum():
    x, y = normal(3, 2, 4), normal(3, 2, 4, seed=1)
    slope = 2 * np.tanh(x * y).sum(0) * (1 - np.tanh(x * y) ** 2)
    for derived in (gradients, compiled_gradients):
        by_x, by_y = derived(loss, x, y)
        np.testing.assert_allclose(by_x, slope * y, atol=1e-5)
        np.testing.assert_allclose(by_y, slope * x, atol=1e-5)

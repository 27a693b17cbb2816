"""Loops over slices have gradients, compiled and not."""

import numpy as np
from arrays import normal
from backend import compiled_gradients, gradients
from keras import ops

from keras_synth._backend import loops


def loss(x, y):
    """Of the sum over the last axis: the first may be unknown."""
    total = ops.zeros(ops.shape(x)[:2])
    product = loops.rematerialized(lambda x, y: ops.tanh(x * y))
    slices = tuple(ops.moveaxis(each, -1, 0) for each in (x, y))
    return ops.sum(loops.summed(product, slices, total) ** 2)


def test_a_sum_over_slices_has_the_gradient_of_the_sum():
    x, y = normal(3, 2, 4), normal(3, 2, 4, seed=1)
    products = np.tanh(x * y)
    slope = 2 * products.sum(-1, keepdims=True) * (1 - products**2)
    for derived in (gradients, compiled_gradients):
        by_x, by_y = derived(loss, x, y)
        np.testing.assert_allclose(by_x, slope * y, atol=1e-5)
        np.testing.assert_allclose(by_y, slope * x, atol=1e-5)

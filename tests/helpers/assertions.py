"""Assertions about tensors and arrays, also nested ones."""

import keras
import numpy as np
from backend import numpy


def _pairs(found, expected):
    """`(found, expected)` of each array, as arrays."""
    pairs = [(found, expected)]
    if keras.tree.is_nested(found):
        keras.tree.assert_same_structure(found, expected)
        nested = keras.tree.flatten(found), keras.tree.flatten(expected)
        pairs = zip(*nested, strict=True)
    for pair in pairs:
        yield [
            numpy(x)
            if keras.ops.is_tensor(x) or isinstance(x, keras.Variable)
            else np.asarray(x)
            for x in pair
        ]


def close(found, expected, atol=1e-5, **options):
    """Raises unless all numbers are about the same."""
    for mine, its in _pairs(found, expected):
        np.testing.assert_allclose(mine, its, atol=atol, **options)


def equal(found, expected):
    """Raises unless all numbers are the same."""
    for mine, its in _pairs(found, expected):
        np.testing.assert_array_equal(mine, its)

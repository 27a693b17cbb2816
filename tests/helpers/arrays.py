"""Random numbers and masks for tests, as NumPy arrays."""

import numpy as np


def normal(*shape, seed=0):
    """Standard normal numbers, float32: the same ones for the same seed."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=shape).astype("float32")


def padding(*lengths, size):
    """A mask `(B, size)`, True for the first tokens of each sample.

    Args:
        *lengths: Integers, the real tokens of each sample.
        size: Integer, tokens in all.
    """
    return np.arange(size) < np.array(lengths)[:, None]

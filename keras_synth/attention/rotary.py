"""Rotary positions of queries and keys."""

import numpy as np
from keras import ops

from keras_synth.attention.logits import float32


def rotation(positions, width, max_wavelength):
    """Returns cosines and sines of the angles of positions.

    These are `(T,)` or `(B, T)`, the results float32 `(T, 1, width / 2)` or
    `(B, T, 1, width / 2)`.
    """
    speeds = np.power(float(max_wavelength), -np.arange(0, width, 2) / width)
    positions = ops.cast(positions, "float32")[..., None, None]
    angles = positions * ops.convert_to_tensor(speeds, "float32")
    return ops.cos(angles), ops.sin(angles)


def rotated(x, cos, sin):
    """Rotates pairs of features, f with f + width / 2, of `(B, T, H, k)`.

    Features from `width` on stay unchanged, and so does the dtype.
    """
    half = cos.shape[-1]
    a, b = float32(x[..., :half]), float32(x[..., half : 2 * half])
    parts = [ops.cast(a * cos - b * sin, x.dtype)]
    parts += [ops.cast(b * cos + a * sin, x.dtype)]
    if 2 * half < x.shape[-1]:
        parts += [x[..., 2 * half :]]
    return ops.concatenate(parts, axis=-1)

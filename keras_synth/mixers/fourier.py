"""Fourier transforms instead of attention: FNet."""

import math

import keras
from keras import ops

from keras_synth._backend.distributions import number_of_devices
from keras_synth.attention import masks
from keras_synth.mixers.self_mixer import SelfMixer


@keras.saving.register_keras_serializable(package="keras_synth")
class FourierMixer(SelfMixer):
    """Mixes tokens by a Fourier transform, like FNet ("fnet").

    `Re(F_T x F_d)` is the real part of the discrete Fourier transform along
    tokens and features, in float32. The layer has no weights, heads or dropout.

    Padding counts as zeros: outputs depend on its length but not on its
    content. There is no causal form.

    Args:
        **kwargs: Keyword arguments of `keras.layers.Layer`.

    Call arguments and output: see `SelfMixer`.

    Example:

    >>> mixer = keras_synth.mixers.FourierMixer()
    >>> mixer(keras.random.normal((2, 100, 64))).shape
    (2, 100, 64)

    References:
        - [Lee-Thorp et al., 2021](https://arxiv.org/abs/2105.03824)
    """

    sees_padding = True

    def mix(self, x, padding_mask=None, causal=False, training=None):
        if 0 in x.shape:  # no transform of PyTorch is that short
            return x
        real = ops.cast(masks.zero_padding(x, padding_mask), "float32")
        if number_of_devices() > 1:
            # For a fast transform XLA gathers all samples on each device.
            return ops.cast(_by_products(real), x.dtype)
        real, _ = ops.fft2((real, ops.zeros_like(real)))
        return ops.cast(real, x.dtype)


def _by_products(x):
    """`Re(F_T x F_d)` by products with the matrices of both transforms."""
    cosines, sines = _matrices(ops.shape(x)[1])
    parts = (ops.einsum("ts,bsd->btd", m, x) for m in (cosines, sines))
    cosines, sines = _matrices(x.shape[2])
    real, imaginary = parts
    return ops.matmul(real, cosines) - ops.matmul(imaginary, sines)


def _matrices(length):
    """Cosines and sines of `2 pi i j / n`, two tensors `(n, n)`."""
    i = ops.arange(length)
    steps = ops.cast((i[:, None] * i) % length, "float32")
    angles = steps * (2 * math.pi / length)
    return ops.cos(angles), ops.sin(angles)

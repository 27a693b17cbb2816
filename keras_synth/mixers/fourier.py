"""Fourier transforms in the place of attention: FNet."""

import keras
from keras import ops

from keras_synth import masks
from keras_synth.mixers.mixer import SelfMixer


@keras.saving.register_keras_serializable(package="keras_synth")
class FourierMixer(SelfMixer):
    """Mixes tokens by a Fourier transform, as FNet ("fnet").

    `Re(F_T x F_d)`, the real part of the discrete Fourier transform along
    tokens and features, in float32. It has no weights, no heads and no dropout.

    A Fourier transform sees the length of the batch: the same tokens, padded
    to another length, give another output. Padding counts as zeros, so that it
    matters how much of it there is but not what it holds. There is no causal
    form.

    Args:
        **kwargs: Keyword arguments of `keras.layers.Layer`.

    Call arguments: see `SelfMixer`.

    Returns:
        Tensor `(B, T, d)`.

    Example:

    >>> mixer = keras_synth.mixers.FourierMixer()
    >>> mixer(keras.random.normal((2, 100, 64))).shape
    (2, 100, 64)

    References:
        - [Lee-Thorp et al., 2021](https://arxiv.org/abs/2105.03824)
    """

    def mix(self, x, padding_mask=None, causal=False, training=None):
        real = ops.cast(masks.zero_padding(x, padding_mask), "float32")
        real, _ = ops.fft2((real, ops.zeros_like(real)))
        return ops.cast(real, x.dtype)

"""One vector for a sequence."""

import keras
from keras import ops

from keras_synth._backend.configs import config_of

POOLINGS = ("mean", "first")


@keras.saving.register_keras_serializable(package="keras_synth")
class Pooling(keras.layers.Layer):
    """The mean of the real tokens' vectors, or the first one's.

    The mean is summed in float32; of a sequence without real tokens it is 0.

    Args:
        pooling: `"mean"` or `"first"`.
        **kwargs: Keyword arguments of `keras.layers.Layer`.

    Call arguments:
        x: Tensor `(B, T, d)`.
        padding_mask: Tensor `(B, T)`, not 0 for real tokens.

    Returns:
        Tensor `(B, d)`.
    """

    def __init__(self, pooling="mean", **kwargs):
        super().__init__(**kwargs)
        if pooling not in POOLINGS:
            raise ValueError(
                f"`pooling` must be one of {POOLINGS}. "
                f"Received: pooling={pooling!r}"
            )
        self.pooling = pooling

    def call(self, x, padding_mask):
        if self.pooling == "first":
            return x[:, 0]
        real = ops.cast(padding_mask, "bool")[..., None]  # (B, T, 1)
        total = ops.sum(ops.where(real, ops.cast(x, "float32"), 0.0), axis=1)
        count = ops.sum(ops.cast(real, "float32"), axis=1)
        return ops.cast(total / ops.maximum(count, 1.0), self.compute_dtype)

    def compute_output_shape(self, x_shape, padding_mask_shape):
        return (x_shape[0], x_shape[-1])

    def get_config(self):
        return config_of(self, Pooling, super().get_config())

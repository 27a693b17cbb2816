"""Keras' `EinsumDense` in a form that is right on TensorFlow, too.

Weights, names, quantization and LoRA are those of the class that it replaces:
files fit, and so do configs, which hold no sub-layers.
"""

from typing import Any

import keras
from keras import ops

from keras_synth._backend.frameworks import TENSORFLOW
from keras_synth._backend.policies import check_quantization
from keras_synth.types import Tensor


@keras.saving.register_keras_serializable(package="keras_synth")
class EinsumDense(keras.layers.EinsumDense):
    """A dense layer whose bias is added along its own axes, of any samples.

    `keras.ops.add` is TensorFlow's `bias_add` where one summand has a single
    axis that is longer than 1. If that is as long as the second axis of the
    other summand, but not as its last one, it is added along the second: a
    bias `(H, 1)` of heads along a length `T = H`, known in advance. And
    `keras.ops.einsum` makes one sample of none there, if none has a token.
    Tokens are then samples of one token each.

    Args:
        *args: Arguments of `keras.layers.EinsumDense`, for tensors
            `(B, T, ...)` in and out.
        **kwargs: Its keyword arguments.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.supports_masking = True  # Keras warns of masks where it is not

    if TENSORFLOW:

        def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
            return self._by_tokens(super().call, inputs, training)

        def quantized_call(
            self, inputs: Tensor, training: bool | None = None
        ) -> Tensor:
            return self._by_tokens(super().quantized_call, inputs, training)

    def _by_tokens(self, call, inputs, training):
        if not self._is_mistaken(inputs):
            return call(inputs, training=training)
        batch, length = ops.shape(inputs)[0], inputs.shape[1]
        tokens = ops.reshape(inputs, (batch * length, 1, *inputs.shape[2:]))
        outputs = call(tokens, training=training)
        return ops.reshape(outputs, (batch, length, *outputs.shape[2:]))

    def _is_mistaken(self, inputs):
        """Whether TensorFlow takes heads for tokens, or makes up a sample."""
        if inputs.shape[1] == 0:
            return True
        if self.bias is None:
            return False
        return self.bias.shape[-1] == 1 and inputs.shape[1] in self.bias.shape

    def quantize(self, mode=None, type_check=True, config=None):
        check_quantization(mode)
        # Keras quantizes subclasses when they ask for it.
        return super().quantize(mode, type_check=False, config=config)

"""Keras' `EinsumDense`, corrected for TensorFlow and faster on PyTorch.

Weights, names, quantization and LoRA are those of Keras' class, so files and
configs fit both.
"""

from typing import Any

import keras
from keras import ops

from keras_synth._backend.frameworks import TENSORFLOW, TORCH
from keras_synth._backend.policies import check_quantization
from keras_synth.types import Tensor


@keras.saving.register_keras_serializable(package="keras_synth")
class EinsumDense(keras.layers.EinsumDense):
    """A dense layer with a correct bias and batch size on TensorFlow.

    `keras.ops.add` is TensorFlow's `bias_add` if one summand has a single axis
    longer than 1. If this axis fits the second axis of the other summand, but
    not its last one, the bias is added along the second: a bias `(H, 1)` of
    heads along a known length `T = H`. And `keras.ops.einsum` turns zero
    samples without tokens into one. In these cases the layer treats tokens as
    samples of one token each.

    In eager execution on PyTorch, Keras' work around a call takes longer than
    the call. The layer omits it if it changes nothing.

    Args:
        *args: Arguments of `keras.layers.EinsumDense`, for inputs and outputs
            `(B, T, ...)`.
        **kwargs: Keyword arguments of `keras.layers.EinsumDense`.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.supports_masking = True  # otherwise Keras warns of masks

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
        """Whether TensorFlow confuses heads and tokens, or adds a sample."""
        if inputs.shape[1] == 0:
            return True
        if self.bias is None:
            return False
        return self.bias.shape[-1] == 1 and inputs.shape[1] in self.bias.shape

    if TORCH:

        def __call__(self, inputs: Tensor, **kwargs: Any) -> Tensor:
            if kwargs or not self._is_prepared(inputs):
                return super().__call__(inputs, **kwargs)
            # The last step of Keras' `__call__`: hooks of PyTorch, and `call`.
            return super(keras.layers.Layer, self).__call__(inputs)

    def _is_prepared(self, inputs):
        """Whether there is nothing to build, to cast or to regularize."""
        special = self.lora_enabled or self.quantization_mode is not None
        if special or not self.built or not TORCH.is_tensor(inputs):
            return False
        dtype, weight = inputs.dtype, self.bias
        if weight is None:
            weight = self.kernel
            if self.compute_dtype != self.variable_dtype:
                return False  # to cast a kernel takes time
        return (
            keras.backend.standardize_dtype(dtype) == self.compute_dtype
            and weight.value.dtype == dtype  # as the scope around casts it
            and self.activity_regularizer is None
            and keras.distribution.distribution() is None
        )

    def quantize(self, mode=None, type_check=True, config=None):
        check_quantization(mode)
        # Keras quantizes subclasses only if they request it.
        return super().quantize(mode, type_check=False, config=config)

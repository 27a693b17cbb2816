"""DynamicConv: a kernel that each token predicts."""

import keras
from keras import ops

from keras_synth.attention.projections import axes_of_heads
from keras_synth.mixers.convolution import Convolution
from keras_synth.mixers.self_mixer import SelfMixer


@keras.saving.register_keras_serializable(package="keras_synth")
class DynamicConvolution(Convolution, SelfMixer):
    """Convolves with a kernel that each token predicts ("dynamic_conv").

    `c_i = sum_t softmax(x'_i W)_t x'_(i - a + t)` per channel, with
    `x' = (x A) * sigmoid(x B)` and t = 0 ... width - 1. `W` is
    `(d, H * width)`, without bias: the `d / H` channels of a head share a
    kernel. A linear layer follows. Work is O(T width d), and kernels fill a
    tensor `(B, T, H, width)`.

    Borders, padding and the causal form are those of `LightConvolution`: the
    kernel is centred, `a = (width - 1) // 2`, or shifted to end at the token,
    `a = width - 1`.

    Args:
        num_heads: Integer, kernels per token, `H`; divides `d`.
        width: Integer, taps of a kernel, in tokens. The paper's layers have 3
            to 31.
        dropout: Float, share of the taps to drop in training, after the
            softmax (DropConnect); drawn for each token.
        use_bias: Whether the linear layers before and after have biases.
        use_glu: Whether `x' = (x A) * sigmoid(x B)`, or `x' = x A`.
        border: `"zero"`, as in the paper, or `"renormalize"`, as for
            `LightConvolution`.
        seed: Optional integer, seed of the initial values and of the dropout.
        **kwargs: As of `LightConvolution`.

    Call arguments: see `SelfMixer`. `use_causal_mask` shifts the kernel.

    Returns:
        Tensor `(B, T, d)`.

    Raises:
        ValueError: If an argument is out of range, or `num_heads` does not
            divide `d`.

    Example:

    >>> mixer = keras_synth.mixers.DynamicConvolution(num_heads=4, width=7)
    >>> mixer(keras.random.normal((2, 100, 64))).shape
    (2, 100, 64)

    References:
        - [Wu et al., 2019](https://arxiv.org/abs/1901.10430)
    """

    weight_axes = axes_of_heads("kernel")

    def _build_kernel(self, query_shape):
        self.kernel = self._dense(
            self.num_heads * self.width, "kernel", use_bias=False
        )
        self.kernel.build(query_shape)

    def _logits(self, x):
        shape = (*ops.shape(x)[:2], self.num_heads, self.width)
        return ops.reshape(self.kernel(x), shape)

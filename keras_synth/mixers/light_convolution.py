"""LightConv: a learned kernel for each head."""

import keras
from keras import ops

from keras_synth._backend.distributions import MODEL
from keras_synth._backend.seeds import add_table
from keras_synth.mixers.convolution import Convolution
from keras_synth.mixers.self_mixer import SelfMixer


@keras.saving.register_keras_serializable(package="keras_synth")
class LightConvolution(Convolution, SelfMixer):
    """Convolves with one learned kernel per head, as LightConv ("light_conv").

    `c_i = sum_t softmax(W)_t x'_(i - a + t)` per channel, with
    `x' = (x A) * sigmoid(x B)` and t = 0 ... width - 1. `W` is `(H, width)`:
    the `d / H` channels of a head share a kernel. A linear layer follows. Work
    is O(T width d).

    The kernel is centred, `a = (width - 1) // 2`: token i sees
    `i - (width - 1) // 2 ... i + width // 2`, and an even width one more token
    ahead than behind. In the causal form the same kernel, its taps in the same
    order, is shifted to end at the token: `a = width - 1`, and i sees
    `i - width + 1 ... i`. So it is in the authors' code.

    Padding counts as zeros, like what lies beyond the borders, and each padded
    token as one position.

    Args:
        num_heads: Integer, number of kernels, `H`; divides `d`.
        width: Integer, taps of a kernel, in tokens. The paper's layers have 3
            to 31.
        dropout: Float, share of the taps to drop in training, after the
            softmax (DropConnect); the same for all tokens and samples.
        use_bias: Whether the linear layers have biases.
        use_glu: Whether `x' = (x A) * sigmoid(x B)`, or `x' = x A`.
        border: `"zero"`, as in the paper: the taps that lie on a border or on
            padding are lost, and the others sum to less than one. Or
            `"renormalize"`: the softmax is over the taps that lie on tokens.
        seed: Optional integer, seed of the initial values and of the dropout.
        **kwargs: Initializers, regularizers and constraints of the linear
            layers, as of `MultiHeadMixer`, and keyword arguments of
            `keras.layers.Layer`. `kernel_initializer` is that of W, too.

    Call arguments: see `SelfMixer`. `use_causal_mask` shifts the kernel.

    Returns:
        Tensor `(B, T, d)`.

    Raises:
        ValueError: If an argument is out of range, or `num_heads` does not
            divide `d`.

    Example:

    >>> mixer = keras_synth.mixers.LightConvolution(num_heads=4, width=7)
    >>> mixer(keras.random.normal((2, 100, 64))).shape
    (2, 100, 64)

    References:
        - [Wu et al., 2019](https://arxiv.org/abs/1901.10430)
    """

    weight_axes = {"kernel": (MODEL,)}

    def _build_kernel(self, query_shape):
        initializer = self._projections.options["kernel_initializer"]
        shape = (self.num_heads, self.width)
        self.kernel = add_table(self, "kernel", shape, initializer)

    def _noise_shape(self):
        return (1, 1, self.num_heads, self.width)

    def _logits(self, x):
        return ops.convert_to_tensor(self.kernel)[None, None]

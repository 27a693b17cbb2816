"""Attention to convolved keys and values: memory-compressed attention."""

from typing import Any

import keras
from keras import ops

from keras_synth._backend.checks import check_positive
from keras_synth._backend.distributions import MODEL
from keras_synth._backend.seeds import add_table, normal_unless
from keras_synth._backend.tensors import pad
from keras_synth.attention.masks import AttentionMask
from keras_synth.mixers.multi_head import MultiHeadMixer
from keras_synth.types import Identifier


@keras.saving.register_keras_serializable(package="keras_synth")
class CompressedAttention(MultiHeadMixer):
    """Attends to windows of tokens ("compressed").

    `softmax(Q K'^T / sqrt(k)) V'` per head. A strided convolution computes a
    key and a value for each window of tokens:

        k'_m = sum_t k_(m stride + t) A_t,   v'_m = sum_t v_(m stride + t) B_t

    over t = 0 ... kernel - 1, with kernels A `(kernel, H, k, k)` and B
    `(kernel, H, v, v)`. Each query is compared with `S / stride` windows:
    O(T S / stride) time and memory.

    Padding has no influence, and windows of only padding are masked. There is
    no causal form, because a window contains tokens after its first one.
    Attention masks, biases and scores are not supported, because there are no
    logits of pairs.

    Args:
        num_heads: Integer, `H`.
        key_dim: Integer, features per head of queries and keys, `k`.
        stride: Integer, from one window to the next, in tokens.
        kernel: Integer, tokens in a window; `stride` by default. Windows
            overlap if it is larger.
        convolution_initializer: Initializer of A and B; by default normal
            distributions of variance `1 / (kernel k)` and `1 / (kernel v)`.
        **kwargs: Keyword arguments of `MultiHeadMixer`.

    Call arguments and output: see `MultiHeadMixer`.

    Raises:
        ValueError: If `kernel` is less than `stride`.

    Example:

    >>> mixer = keras_synth.mixers.CompressedAttention(
    ...     num_heads=4, key_dim=16, stride=4)
    >>> mixer(keras.random.normal((2, 100, 64))).shape
    (2, 100, 64)

    References:
        - [Liu et al., 2018](https://arxiv.org/abs/1801.10198)
    """

    supports_causal_mask = False
    weight_axes = {
        "key_kernel": (None, MODEL),
        "value_kernel": (None, MODEL),
    }

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        stride: int = 3,
        kernel: int | None = None,
        convolution_initializer: Identifier | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_heads, key_dim, **kwargs)
        self.stride = check_positive("stride", stride)
        self.kernel = check_positive(
            "kernel", self.stride if kernel is None else kernel
        )
        if self.kernel < self.stride:
            raise ValueError(
                "`kernel` must be at least `stride`, or no window contains "
                "some tokens. Pass a larger kernel or a smaller stride. "
                f"Received: stride={stride}, kernel={kernel}"
            )
        self.convolution_initializer = keras.initializers.get(
            convolution_initializer
        )
        self.key_kernel = self.value_kernel = None

    def _build_projections(self, query_shape, value_shape, key_shape):
        self.key_kernel = self._add_kernel("key_kernel", self.key_dim)
        self.value_kernel = self._add_kernel("value_kernel", self.value_dim)
        super()._build_projections(query_shape, value_shape, key_shape)

    def _add_kernel(self, name, width):
        initializer = normal_unless(
            self.convolution_initializer, (self.kernel * width) ** -0.5
        )
        shape = (self.kernel, self.num_heads, width, width)
        return add_table(self, name, shape, initializer)

    def attend(self, queries, keys, values, mask, *, training=None):
        real = None
        if mask.keys is not None:
            real = ops.cast(mask.keys, "int32")[..., None]
            real = ops.any(self._windows(real) > 0, axis=(2, 3))  # (B, M)
        return self._softmax_attention(
            queries,
            self._convolved(keys, self.key_kernel),
            self._convolved(values, self.value_kernel),
            AttentionMask(keys=real),
            training,
        )

    def _convolved(self, x, kernel):
        """`(B, S, H, k) -> (B, M, H, k)`, of M windows."""
        kernel = ops.cast(kernel, x.dtype)
        return ops.einsum("bmthk,thkl->bmhl", self._windows(x), kernel)

    def _windows(self, x):
        """`(B, S, ...) -> (B, M, kernel, ...)`, zero beyond the end."""
        batch, length, *others = ops.shape(x)
        stride = self.stride
        # Not -(-length // stride), which tf2onnx rounds towards zero.
        number = (length + stride - 1) // stride
        runs = -(-self.kernel // stride)  # of `stride` tokens, in a window
        behind = (number + runs - 1) * stride - length
        x = pad(x, [[0, 0], [0, behind], *([0, 0] for _ in others)])
        x = ops.reshape(x, (batch, number + runs - 1, stride, *others))
        if runs > 1:
            parts = [x[:, run : run + number] for run in range(runs)]
            x = ops.concatenate(parts, axis=2)
        return x[:, :, : self.kernel]

"""Mixers without queries and keys: convolutions, MLPs, Fourier transforms.

They map the tokens x of one sequence, `(B, T, d)`, to a tensor of this shape.
In a causal form a token sees no later one.
"""

from collections.abc import Callable

import keras
from keras import ops

from keras_synth.formulas.weights import Tensor


def neighbours(x: Tensor, number: int, causal: bool) -> Tensor:
    """Returns n tokens around each token, `(B, T, n, d)`.

    Those beyond the ends are zero. In the causal form, token i is the last of
    its neighbours. Otherwise it is the middle one, or the one before the
    middle.
    """
    before = number - 1 if causal else (number - 1) // 2
    padded = ops.pad(x, [[0, 0], [before, number - 1 - before], [0, 0]])
    T = x.shape[1]
    return ops.stack([padded[:, t : t + T] for t in range(number)], axis=2)


def light_conv(x: Tensor, W: Tensor, causal: bool = False) -> Tensor:
    """Convolves with kernels W: `y_i = sum_t softmax(W)_t x_(i - a + t)`.

    For kernels of n tokens `a = (n - 1) // 2`, or `n - 1` in the causal form.
    The layer adds a gated linear unit before, `x = (u A) sigmoid(u B)`, and a
    linear layer after. W is `(H, n)`: the features of a head share a kernel.

    References:
        - [Wu et al., 2019](https://arxiv.org/abs/1901.10430)
    """
    H, n = W.shape
    around = neighbours(x, n, causal)
    heads = ops.reshape(around, (*around.shape[:3], H, -1))
    y = ops.einsum("btnhc,hn->bthc", heads, ops.softmax(W, axis=-1))
    return ops.reshape(y, x.shape)


def dynamic_conv(x: Tensor, W: Tensor, causal: bool = False) -> Tensor:
    """Convolves with a kernel that each token predicts, `softmax(x_i W)`.

    W is `(d, H, n)`. Everything else is as in `light_conv`.

    References:
        - [Wu et al., 2019](https://arxiv.org/abs/1901.10430)
    """
    _, H, n = W.shape
    kernels = ops.softmax(ops.einsum("btd,dhn->bthn", x, W), axis=-1)
    around = neighbours(x, n, causal)
    heads = ops.reshape(around, (*around.shape[:3], H, -1))
    y = ops.einsum("btnhc,bthn->bthc", heads, kernels)
    return ops.reshape(y, x.shape)


def pooling(x: Tensor, size: int, causal: bool = False) -> Tensor:
    """Averages neighbours: `y_i = mean_j x_j - x_i`.

    There are `size` tokens j around i, including i. Tokens beyond the ends do
    not count.

    References:
        - [Yu et al., 2022](https://arxiv.org/abs/2111.11418)
    """
    totals, counts = (
        ops.sum(neighbours(z, size, causal), axis=2)
        for z in (x, ops.ones_like(x))
    )
    return totals / counts - x


def mlp_mixer(
    x: Tensor,
    W1: Tensor,
    b1: Tensor,
    W2: Tensor,
    b2: Tensor,
    activation: Callable = keras.activations.gelu,
) -> Tensor:
    """Applies an MLP along the tokens: `y = W2 gelu(W1 x + b1) + b2`.

    For n hidden units W1 is `(n, N)`, b1 `(n,)`, W2 `(N, n)` and b2 `(N,)`. In
    the causal form W1 and W2 are lower triangular.

    References:
        - [Tolstikhin et al., 2021](https://arxiv.org/abs/2105.01601)
    """
    T = x.shape[1]
    hidden = activation(ops.matmul(W1[:, :T], x) + b1[:, None])
    return ops.matmul(W2[:T], hidden) + b2[:T, None]


def gmlp(
    x: Tensor,
    A: Tensor,
    a: Tensor,
    gamma: Tensor,
    beta: Tensor,
    W: Tensor,
    b: Tensor,
    C: Tensor,
    c: Tensor,
    activation: Callable = keras.activations.gelu,
) -> Tensor:
    """Gates tokens along the length: `y = (u (W norm(v) + b)) C + c`.

    `u, v = split(gelu(x A + a))`, and norm is a layer normalization with the
    scale gamma and the offset beta, `(e,)`. A is `(d, 2 e)`, a `(2 e,)`, W
    `(N, N)`, b `(N,)`, C `(e, d)` and c `(d,)`. In the causal form W is lower
    triangular.

    References:
        - [Liu et al., 2021](https://arxiv.org/abs/2105.08050)
    """
    T = x.shape[1]
    u, v = ops.split(activation(ops.matmul(x, A) + a), 2, axis=-1)
    mean, variance = ops.moments(v, axes=-1, keepdims=True)
    v = (v - mean) * ops.rsqrt(variance + 1e-5) * gamma + beta
    gate = ops.matmul(W[:T, :T], v) + b[:T, None]
    return ops.matmul(u * gate, C) + c


def fnet(x: Tensor) -> Tensor:
    """Applies a Fourier transform to tokens and features: `y = Re(F_T x F_d)`.

    References:
        - [Lee-Thorp et al., 2021](https://arxiv.org/abs/2105.03824)
    """
    real, _ = ops.fft2((x, ops.zeros_like(x)))
    return real

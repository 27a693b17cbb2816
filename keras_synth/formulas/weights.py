"""Weights: a normalizer of logits, over the pairs that a pattern allows.

A normalizer is a function of the logits, `(B, H, T, S)` or `(H, T, S)`, and of
`allowed`, a boolean tensor that broadcasts to them: True where token i of the
query may attend to token j of the source. It returns the weights, a tensor like
the logits. They are 0 where `allowed` is False.

A pattern is a function of the numbers of tokens T and S that returns `allowed`,
a boolean tensor `(T, S)`. Patterns are combined by `&` and `|`.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from keras import ops

Tensor: TypeAlias = Any
Normalizer: TypeAlias = Callable[[Tensor, Tensor], Tensor]

FORBIDDEN = -1e30  # exp(FORBIDDEN - s) is 0 for every logit s


# --- normalizers --------------------------------------------------------------


def softmax(logits: Tensor, allowed: Tensor = True) -> Tensor:
    """Makes rows sum to 1: `A[i, j] = exp(S[i, j]) / sum_j exp(S[i, j])`.

    A row without allowed pairs sums to 0.

    References:
        - [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762)
    """
    weights = ops.softmax(ops.where(allowed, logits, FORBIDDEN), axis=-1)
    return ops.where(allowed, weights, 0.0)


def softmax1(logits: Tensor, allowed: Tensor = True) -> Tensor:
    """Lets rows sum to less: `A = exp(S[i, j]) / (1 + sum_j exp(S[i, j]))`.

    This is a softmax with an additional logit, which is 0 and has no value.

    References:
        - [Miller, 2023](https://www.evanmiller.org/attention-is-off-by-one.html)
    """
    logits = ops.where(allowed, logits, FORBIDDEN)
    sink = ops.zeros_like(logits[..., :1])
    return ops.softmax(ops.concatenate([logits, sink], -1), axis=-1)[..., :-1]


def relu(logits: Tensor, allowed: Tensor = True) -> Tensor:
    """Weighs each pair separately: `A[i, j] = max(S[i, j], 0) / n_i`.

    n_i is the number of allowed pairs of row i.

    References:
        - [Wortsman et al., 2023](https://arxiv.org/abs/2309.08586)
    """
    weights = ops.relu(logits) / count(logits, allowed)
    return ops.where(allowed, weights, 0.0)


def sigmoid(logits: Tensor, allowed: Tensor = True) -> Tensor:
    """Weighs each pair separately: `A = 1 / (1 + n exp(-S))`.

    This is the sigmoid of `S - log n`, where n is the number of allowed pairs.

    References:
        - [Ramapuram et al., 2024](https://arxiv.org/abs/2409.04431)
    """
    weights = ops.sigmoid(logits - ops.log(count(logits, allowed)))
    return ops.where(allowed, weights, 0.0)


def count(logits: Tensor, allowed: Tensor) -> Tensor:
    """Returns the number of allowed pairs in each row, at least 1."""
    ones = ops.where(allowed, ops.ones_like(logits), 0.0)
    return ops.maximum(ops.sum(ones, axis=-1, keepdims=True), 1.0)


# --- patterns -----------------------------------------------------------------


def distances(T: int, S: int) -> Tensor:
    """Returns `j - i` for each pair of tokens, an integer tensor `(T, S)`."""
    return ops.arange(S)[None, :] - ops.arange(T)[:, None]


def causal(T: int, S: int) -> Tensor:
    """Allows a token and those before it: `j <= i`."""
    return distances(T, S) <= 0


def window(T: int, S: int, size: int, dilation: int = 1) -> Tensor:
    """Allows `size` neighbours on each side: `|i - j| <= size dilation`.

    `dilation` is the number of tokens from one neighbour to the next.

    References:
        - [Beltagy et al., 2020](https://arxiv.org/abs/2004.05150)
    """
    steps = ops.abs(distances(T, S))
    return (steps <= size * dilation) & (steps % dilation == 0)


def stride(T: int, S: int, stride: int) -> Tensor:
    """Allows tokens at multiples of a distance: `(i - j) mod stride = 0`.

    References:
        - [Child et al., 2019](https://arxiv.org/abs/1904.10509)
    """
    return distances(T, S) % stride == 0


def first_tokens(T: int, S: int, number: int) -> Tensor:
    """Allows the first tokens to be seen by all: `j < number`.

    References:
        - [Xiao et al., 2024](https://arxiv.org/abs/2309.17453)
    """
    return ops.broadcast_to(ops.arange(S) < number, (T, S))


def global_tokens(T: int, S: int, number: int) -> Tensor:
    """Allows the first tokens to see all, too: `i < number or j < number`.

    References:
        - [Zaheer et al., 2020](https://arxiv.org/abs/2007.14062)
    """
    return (ops.arange(T)[:, None] < number) | (ops.arange(S) < number)


def block_window(T: int, S: int, number: int, block_size: int) -> Tensor:
    """Allows a number of blocks of tokens, as many on each side.

    `|i // c - j // c| <= number // 2` for blocks of c tokens, `block_size`. The
    number is odd.

    References:
        - [Zaheer et al., 2020](https://arxiv.org/abs/2007.14062)
    """
    rows = ops.arange(T)[:, None] // block_size
    columns = ops.arange(S) // block_size
    return ops.abs(rows - columns) <= number // 2


def random_blocks(
    T: int, S: int, number: int, block_size: int, max_length: int, seed: int
) -> Tensor:
    """Allows each block of `block_size` tokens to see a number of random ones.

    Blocks are drawn from all of `max_length`, the longest sequence in tokens,
    so that they do not depend on T and S.

    References:
        - [Zaheer et al., 2020](https://arxiv.org/abs/2007.14062)
    """
    rng, blocks = np.random.default_rng(seed), -(-max_length // block_size)
    chosen: np.ndarray = np.zeros((blocks, blocks), bool)
    for row in range(blocks):
        chosen[row, rng.permutation(blocks)[:number]] = True
    pairs = np.kron(chosen, np.ones((block_size, block_size), bool))
    return ops.convert_to_tensor(pairs[:T, :S])

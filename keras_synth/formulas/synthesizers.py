"""Logits `(B, H, T, S)`, or `(H, T, S)` if they do not depend on tokens.

Functions of tokens project the query x, `(B, T, d)`, or the source y,
`(B, S, d)`, to heads: Wq, Wk and W1 are `(d, H, k)`, and bq, bk and b1 are
`(H, k)`. Arguments T and S are numbers of tokens.
"""

import math
from collections.abc import Callable, Sequence

from keras import ops

from keras_synth.formulas.weights import Tensor, distances


def split_heads(x: Tensor, W: Tensor, b: Tensor = 0.0) -> Tensor:
    """Projects tokens to the features of each head: `x W + b`, `(B, T, H, k)`.

    W is `(d, H, k)`, and b is `(H, k)`.
    """
    return ops.einsum("btd,dhk->bthk", x, W) + b


def compare(queries: Tensor, keys: Tensor) -> Tensor:
    """Returns scaled dot products of heads, `Q K^T / sqrt(k)`."""
    scale = keys.shape[-1] ** -0.5
    return ops.einsum("bthk,bshk->bhts", queries * scale, keys)


# --- logits from tokens -------------------------------------------------------


def dot_product(
    x: Tensor, y: Tensor, Wq: Tensor, bq: Tensor, Wk: Tensor, bk: Tensor
) -> Tensor:
    """V compares pairs of tokens: `S = (x Wq + bq) (y Wk + bk)^T / sqrt(k)`.

    References:
        - [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762)
    """
    return compare(split_heads(x, Wq, bq), split_heads(y, Wk, bk))


def rotate(x: Tensor, width: int, max_wavelength: float = 10_000.0) -> Tensor:
    """Rotates queries or keys `(B, T, H, k)` by their position.

    Of the first `width` features, an even number, f and `f + width / 2` turn by
    `i m^(-2f / width)` at position i, where m is `max_wavelength`. Dot products
    of rotated queries and keys depend on distances.

    References:
        - [Su et al., 2021](https://arxiv.org/abs/2104.09864)
    """
    a, b, rest = ops.split(x, [width // 2, width], axis=-1)
    f = ops.arange(width // 2, dtype="float32")
    i = ops.arange(x.shape[1], dtype="float32")[:, None, None]
    angle = i * max_wavelength ** (-2 * f / width)
    cos, sin = ops.cos(angle), ops.sin(angle)
    return ops.concatenate([a * cos - b * sin, b * cos + a * sin, rest], -1)


def additive(
    x: Tensor,
    y: Tensor,
    Wq: Tensor,
    bq: Tensor,
    Wk: Tensor,
    bk: Tensor,
    w: Tensor,
) -> Tensor:
    """Compares pairs by a layer: `S = w . tanh(x Wq + bq + y Wk + bk)`.

    w is `(H, k)`.

    References:
        - [Bahdanau et al., 2015](https://arxiv.org/abs/1409.0473)
    """
    queries, keys = split_heads(x, Wq, bq), split_heads(y, Wk, bk)
    pairs = ops.tanh(queries[:, :, None] + keys[:, None])  # (B, T, S, H, k)
    return ops.einsum("btshk,hk->bhts", pairs, w)


def dense(
    x: Tensor,
    W1: Tensor,
    b1: Tensor,
    W2: Tensor,
    b2: Tensor,
    S: int,
    activation: Callable = ops.relu,
) -> Tensor:
    """D predicts logits from each token: `S = relu(x W1 + b1) W2 + b2`.

    W2 is `(N, H, k)`, and b2 is `(H, N)`, for sources of up to N tokens.

    References:
        - [Tay et al., 2021](https://arxiv.org/abs/2005.00743), Dense
    """
    hidden = activation(split_heads(x, W1, b1))
    return ops.einsum("bthk,shk->bhts", hidden, W2[:S]) + b2[:, None, :S]


def factorized_dense(
    x: Tensor,
    W1: Tensor,
    b1: Tensor,
    A: Tensor,
    bA: Tensor,
    B: Tensor,
    bB: Tensor,
    S: int,
    activation: Callable = ops.relu,
) -> Tensor:
    """FD multiplies two short rows: `S[i, p b + q] = A_p(x_i) B_q(x_i)`.

    `A(x) = h A + bA`, `B(x) = h B + bB` and `h = relu(x W1 + b1)`. A is
    `(H, k, a)`, bA `(H, a)`, B `(H, k, b)` and bB `(H, b)`, for sources of up
    to `a b` tokens.

    References:
        - [Tay et al., 2021](https://arxiv.org/abs/2005.00743), FD
    """
    hidden = activation(split_heads(x, W1, b1))
    rows = ops.einsum("bthk,hka->bhta", hidden, A) + bA[:, None]
    columns = ops.einsum("bthk,hkc->bhtc", hidden, B) + bB[:, None]
    products = rows[..., :, None] * columns[..., None, :]  # (B, H, T, a, b)
    return ops.reshape(products, (*ops.shape(rows)[:-1], -1))[..., :S]


def local_dense(
    x: Tensor,
    W1: Tensor,
    b1: Tensor,
    W2: Tensor,
    b2: Tensor,
    activation: Callable = ops.relu,
) -> Tensor:
    """Predicts the logits of a token's neighbours from that token.

    `S[i, i + o] = relu(x_i W1 + b1) . W2[o] + b2[o]` for offsets o from -w to
    w. W2 is `(2 w + 1, H, k)`, and b2 is `(H, 2 w + 1)`. `allowed` must exclude
    other pairs, as `window(T, T, w)` does.

    References:
        - [Xu et al., 2021](https://arxiv.org/abs/2010.12155)
    """
    hidden = activation(split_heads(x, W1, b1))
    rows = ops.einsum("bthk,ohk->bhto", hidden, W2) + b2[:, None]
    w, T = W2.shape[0] // 2, x.shape[1]
    offsets = ops.clip(distances(T, T) + w, 0, 2 * w)
    offsets = ops.broadcast_to(offsets, (*ops.shape(rows)[:2], T, T))
    return ops.take_along_axis(rows, offsets, axis=-1)


# --- logits from positions: (H, T, S) -----------------------------------------


def random(R: Tensor, T: int, S: int) -> Tensor:
    """R, or Fix without training, is a table `(H, N, N)` of positions: `S = R`.

    References:
        - [Tay et al., 2021](https://arxiv.org/abs/2005.00743), Random
    """
    return R[:, :T, :S]


def factorized_random(R1: Tensor, R2: Tensor, T: int, S: int) -> Tensor:
    """FR is a table of low rank: `S = R1 R2^T`, factors `(H, N, r)`.

    References:
        - [Tay et al., 2021](https://arxiv.org/abs/2005.00743), FR
    """
    return ops.einsum("htr,hsr->hts", R1[:, :T], R2[:, :S])


def relative(w: Tensor, T: int, S: int) -> Tensor:
    """Learns a number for each distance: `S[i, j] = w[clip(j - i, -m, m)]`.

    w is `(H, 2 m + 1)`, distance -m first.

    References:
        - [Shaw et al., 2018](https://arxiv.org/abs/1803.02155)
    """
    m = w.shape[1] // 2
    return ops.take(w, ops.clip(distances(T, S), -m, m) + m, axis=1)


def t5_relative(
    w: Tensor,
    T: int,
    S: int,
    max_distance: int = 128,
    bidirectional: bool = True,
) -> Tensor:
    """Learns a number per range of distances: `S[i, j] = w[bucket(j - i)]`.

    w is `(buckets, H)`. Short distances have a bucket each. The buckets of
    longer distances grow logarithmically up to `max_distance`, in tokens. If
    `bidirectional`, later tokens have their own buckets, half of all. Otherwise
    they share the bucket of distance 0.

    References:
        - [Raffel et al., 2020](https://arxiv.org/abs/1910.10683)
    """
    size = w.shape[0] // 2 if bidirectional else w.shape[0]
    ahead = distances(T, S)
    steps = ops.abs(ahead) if bidirectional else ops.maximum(-ahead, 0)
    exact = size // 2
    ratio = ops.cast(ops.maximum(steps, exact), "float32") / exact
    growth = (size - exact) / math.log(max_distance / exact)
    far = exact + ops.cast(ops.log(ratio) * growth, "int32")
    bucket = ops.where(steps < exact, steps, ops.minimum(far, size - 1))
    bucket = bucket + ops.where(ahead > 0, size * bidirectional, 0)
    return ops.transpose(ops.take(w, bucket, axis=0), (2, 0, 1))


def alibi(slopes: Tensor, T: int, S: int) -> Tensor:
    """Penalizes distance: `S[i, j] = -m |i - j|`, slopes m `(H,)`.

    For H a power of two, the paper's slopes are
    `2^(-8 / H), 2^(-16 / H), ..., 2^-8`.

    References:
        - [Press et al., 2022](https://arxiv.org/abs/2108.12409)
    """
    steps = ops.cast(ops.abs(distances(T, S)), "float32")
    return -slopes[:, None, None] * steps


def gaussian(offsets: Tensor, stddev: float, T: int, S: int) -> Tensor:
    """Prefers near tokens: `S[i, j] = -(j - i - o)^2 / (2 s^2)`.

    The offsets o `(H,)` and the standard deviation s are in tokens.

    References:
        - [You et al., 2020](https://arxiv.org/abs/2005.00742)
    """
    away = ops.cast(distances(T, S), "float32") - offsets[:, None, None]
    return -ops.square(away / stddev) / 2


def pattern(names: Sequence[str], T: int, S: int, width: int = 2) -> Tensor:
    """Fixes where each head attends: `S[i, j] = -20 |j - place(i)|`.

    The names are one for each head: `"current"`, `"previous"` or `"next"`
    token; `"window"`, up to `width` tokens away; `"left"` or `"right"`, all
    tokens except the nearest; `"start"` or `"end"`.

    References:
        - [Raganato et al., 2020](https://arxiv.org/abs/2002.10260)
    """
    d = ops.cast(distances(T, S), "float32")
    away = {
        **{"current": ops.abs(d), "window": ops.relu(ops.abs(d) - width)},
        **{"previous": ops.abs(d + 1), "next": ops.abs(d - 1)},
        **{"left": ops.relu(d + 2), "right": ops.relu(2 - d)},
        **{"start": d, "end": -d},  # a constant in a row changes no weight
    }
    return -20 * ops.stack([away[name] for name in names])


# --- mixtures -----------------------------------------------------------------


def mixture(parts: Sequence[Tensor], alphas: Tensor) -> Tensor:
    """X+Y is a weighted sum: `S = sum_p softmax(alphas)_p S_p`.

    For P parts, which are logits, the alphas are `(P, H)`.

    References:
        - [Tay et al., 2021](https://arxiv.org/abs/2005.00743), Mixture
    """
    shares = ops.softmax(alphas, axis=0)[..., None, None]
    return sum(shares[p] * logits for p, logits in enumerate(parts))

"""Attention, and mixers that compare queries and keys in another way.

`split_heads` projects tokens to the arguments: queries `(B, T, H, k)`, keys
`(B, S, H, k)` and values `(B, S, H, v)`. `merge_heads` projects the result, a
context `(B, T, H, v)`, to the output. For one sequence S is T. `allowed` is a
boolean tensor that broadcasts to the logits, `(B, H, T, S)` or `(H, T, S)`.
"""

from keras import ops

from keras_synth.formulas.synthesizers import compare
from keras_synth.formulas.weights import (
    Normalizer,
    Tensor,
    distances,
    first_tokens,
    softmax,
    window,
)


def attention(
    logits: Tensor,
    values: Tensor,
    allowed: Tensor = True,
    normalizer: Normalizer = softmax,
) -> Tensor:
    """Sums values by their weights: `A V` with `A = normalizer(S)`.

    The normalizer is `softmax`, `softmax1`, `relu` or `sigmoid`.

    References:
        - [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762)
    """
    weights = normalizer(logits, allowed)
    context = ops.matmul(weights, ops.swapaxes(values, 1, 2))  # (B, H, T, v)
    return ops.swapaxes(context, 1, 2)


def merge_heads(context: Tensor, W: Tensor, b: Tensor = 0.0) -> Tensor:
    """Projects the context of all heads to the output, `(B, T, d)`.

    W is `(H, v, d)`, and b is `(d,)`.
    """
    return ops.einsum("bthv,hvd->btd", context, W) + b


# --- fewer pairs --------------------------------------------------------------


def longformer(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    global_queries: Tensor,
    global_keys: Tensor,
    global_values: Tensor,
    size: int,
    tokens: int,
) -> Tensor:
    """Attends to a window and to global tokens with their own projections.

    The window has `size` neighbours on each side. The first `tokens` are
    global: all see them, and they see all.

    References:
        - [Beltagy et al., 2020](https://arxiv.org/abs/2004.05150)
    """
    T = keys.shape[1]
    allowed = window(T, T, size) | first_tokens(T, T, tokens)
    context = attention(compare(queries, keys), values, allowed)
    logits = compare(global_queries[:, :tokens], global_keys)
    first = attention(logits, global_values)
    return ops.concatenate([first, context[:, tokens:]], axis=1)


def linformer(
    queries: Tensor, keys: Tensor, values: Tensor, E: Tensor, F: Tensor
) -> Tensor:
    """Attends to r sums of keys: `softmax(Q (E K)^T / sqrt(k)) (F V)`.

    E and F are `(H, r, N)`.

    References:
        - [Wang et al., 2020](https://arxiv.org/abs/2006.04768)
    """
    S = keys.shape[1]
    keys = ops.einsum("hrs,bshk->brhk", E[..., :S], keys)
    values = ops.einsum("hrs,bshv->brhv", F[..., :S], values)
    return attention(compare(queries, keys), values)


def compressed(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    A: Tensor,
    B: Tensor,
    stride: int,
) -> Tensor:
    """Attends to convolved keys: `k'_m = sum_t k_(m stride + t) A_t`.

    The kernel A of n tokens is `(n, H, k, k)`. The values are convolved with B,
    `(n, H, v, v)`. There are `stride` tokens from one sum to the next. Tokens
    beyond the end count as zeros.

    References:
        - [Liu et al., 2018](https://arxiv.org/abs/1801.10198)
    """
    starts = ops.arange(0, keys.shape[1], stride)
    places = starts[:, None] + ops.arange(A.shape[0])  # (M, n)
    beyond = [[0, 0], [0, A.shape[0]], [0, 0], [0, 0]]
    keys, values = (
        ops.einsum("bmthk,thkl->bmhl", ops.take(x, places, axis=1), kernel)
        for x, kernel in (
            (ops.pad(keys, beyond), A),
            (ops.pad(values, beyond), B),
        )
    )
    return attention(compare(queries, keys), values)


# --- products of features -----------------------------------------------------


def linear(
    queries: Tensor, keys: Tensor, values: Tensor, allowed: Tensor = True
) -> Tensor:
    """Replaces exponentials by products of features: `f(q) . f(k)`.

    `f(x) = elu(x) + 1`, and a row's weights are divided by their sum. The order
    of products `f(Q) (f(K)^T V)` takes time linear in the length.

    References:
        - [Katharopoulos et al., 2020](https://arxiv.org/abs/2006.16236)
    """
    queries, keys = ops.elu(queries) + 1, ops.elu(keys) + 1
    weights = ops.einsum("bthk,bshk->bhts", queries, keys)
    return average(weights, values, allowed)


def performer(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    directions: Tensor,
    allowed: Tensor = True,
) -> Tensor:
    """Estimates `exp(q . k / sqrt(k))` by features of random directions w.

    The features of x are `exp(w . x' - |x'|^2 / 2)` with `x' = x / k^(1/4)`.
    They are divided by the largest of them, and 1e-6 is added. The divisor of a
    query cancels; each key's divisor is multiplied back. The directions are
    `(m, k)`.

    References:
        - [Choromanski et al., 2021](https://arxiv.org/abs/2009.14794)
    """
    w = ops.transpose(directions) * keys.shape[-1] ** -0.25
    norms = ops.sum(ops.square(keys), -1, keepdims=True) / keys.shape[-1] ** 0.5
    queries, keys = ops.matmul(queries, w), ops.matmul(keys, w) - norms / 2
    largest = ops.amax(keys, axis=-1)  # (B, S, H)
    queries = ops.exp(queries - ops.amax(queries, -1, keepdims=True)) + 1e-6
    keys = ops.exp(keys - largest[..., None]) + 1e-6
    weights = ops.einsum("bthm,bshm->bhts", queries, keys)
    factors = softmax(ops.transpose(largest, (0, 2, 1))[:, :, None], allowed)
    return average(weights * factors, values, allowed, epsilon=1e-12)


def average(
    weights: Tensor, values: Tensor, allowed: Tensor, epsilon: float = 1e-6
) -> Tensor:
    """Averages values by positive weights; epsilon is added to a row's sum."""
    weights = ops.where(allowed, weights, 0.0)
    weights = weights / (ops.sum(weights, axis=-1, keepdims=True) + epsilon)
    return ops.einsum("bhts,bshv->bthv", weights, values)


# --- learned patterns ---------------------------------------------------------


def reformer(
    queries: Tensor, values: Tensor, rotations: Tensor, bucket_size: int
) -> Tensor:
    """Compares tokens that random rotations put into the same bucket.

    In each round a token's bucket is `argmax [q R; -q R]`. Tokens are sorted by
    bucket, then by position, and cut into chunks. A token sees the tokens of
    its bucket in its own chunk and in the previous one. It sees itself only if
    it sees no other token. The softmax is over all tokens seen in any round.

    The keys are the queries scaled to length 1. The rotations R are
    `(H, rounds, k, buckets / 2)`. A chunk has `bucket_size` tokens.

    References:
        - [Kitaev et al., 2020](https://arxiv.org/abs/2001.04451)
    """
    T = queries.shape[1]
    turned = ops.einsum("bthk,hrkn->bhrtn", queries, rotations)
    turned = ops.concatenate([turned, -turned], axis=-1)
    buckets = ops.cast(ops.argmax(turned, axis=-1), "int32")  # (B, H, r, T)
    chunks = ranks(buckets * T + ops.arange(T)) // bucket_size
    steps = chunks[..., :, None] - chunks[..., None, :]
    same = buckets[..., :, None] == buckets[..., None, :]
    allowed = ops.any(same & (steps >= 0) & (steps <= 1), axis=2)
    logits = ops.einsum("bthk,bshk->bhts", queries, unit(queries))
    logits = logits - ops.where(distances(T, T) == 0, 1e5, 0.0)
    return attention(logits, values, allowed)


def routing(
    queries: Tensor, keys: Tensor, values: Tensor, centroids: Tensor, size: int
) -> Tensor:
    """Compares the queries and keys nearest to the same centroid.

    The centroids of C clusters are `(H, C, k)`, of length 1. Each cluster has
    the `size` queries and the `size` keys with the largest cosines, which are
    rounded to 2^-16. A query in several clusters gets the average of their
    results, and a query in no cluster gets zero.

    References:
        - [Roy et al., 2021](https://arxiv.org/abs/2003.05997)
    """
    cosines = [
        ops.einsum("bthk,hck->bcht", unit(x), centroids)
        for x in (queries, keys)
    ]
    chosen, seen = (ranks(-ops.round(x * 2.0**16)) < size for x in cosines)
    logits = compare(queries, keys)[:, None]  # (B, 1, H, T, T)
    weights = softmax(logits, seen[..., None, :])  # (B, C, H, T, T)
    weights = ops.where(chosen[..., None], weights, 0.0)
    clusters = ops.sum(ops.cast(chosen, "float32"), axis=1)[..., None]
    weights = ops.sum(weights, axis=1) / ops.maximum(clusters, 1.0)
    return ops.einsum("bhts,bshv->bthv", weights, values)


def sinkhorn(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    W: Tensor,
    block_size: int,
    temperature: float = 0.75,
    iterations: int = 8,
) -> Tensor:
    """Attends to a token's own block and to one that is sorted to it.

    `P = sinkhorn(z_i . W_j / temperature)`, z_i the mean query of block i, is a
    matrix of blocks by blocks whose rows and columns sum to 1: they are divided
    by their sums in turn, `iterations` times. The sorted keys and values are
    `P K` and `P V`.

    W is `(H, k, N / block_size)`. The tokens are n whole blocks of c tokens,
    `block_size`.

    References:
        - [Tay et al., 2020](https://arxiv.org/abs/2002.11296)
    """
    B, T, H, _ = queries.shape
    shape = (B, T // block_size, block_size, H, -1)
    queries, keys, values = (
        ops.reshape(x, shape) for x in (queries, keys, values)
    )
    means = ops.mean(queries, axis=2)  # (B, n, H, k)
    log_P = ops.einsum("bnhk,hkm->bhnm", means, W[..., : shape[1]])
    log_P = log_P / temperature
    for _ in range(iterations):
        for axis in (-2, -1):  # columns, then rows
            log_P = log_P - ops.logsumexp(log_P, axis=axis, keepdims=True)
    P = ops.exp(log_P)
    keys, values = (
        ops.concatenate([x, ops.einsum("bhnm,bmchk->bnchk", P, x)], axis=2)
        for x in (keys, values)
    )
    queries, keys, values = (  # blocks as samples: (B n, c or 2 c, H, k)
        ops.reshape(x, (-1, *x.shape[2:])) for x in (queries, keys, values)
    )
    context = attention(compare(queries, keys), values)
    return ops.reshape(context, (B, T, H, -1))


def unit(x: Tensor) -> Tensor:
    """Returns vectors of length 1 in the direction of x."""
    squares = ops.sum(ops.square(x), axis=-1, keepdims=True)
    return x * ops.rsqrt(ops.maximum(squares, 1e-12))


def ranks(x: Tensor) -> Tensor:
    """Returns the rank of each entry in ascending order, an integer from 0."""
    return ops.argsort(ops.argsort(x, axis=-1), axis=-1)

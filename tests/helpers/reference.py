"""The paper's formulas in plain float64 NumPy: slow, obvious, independent.

Nothing here imports the package or Keras, so that an error in the package
cannot hide in its own reference. One letter per axis: `B` batch, `T` query
length, `S` source length, `H` heads, `k` key (or hidden) features per head,
`v` value features per head, `d` model width, `N` the longest length of a
table, `a` and `b` the two factors of Factorized Dense, `r` rank, `P` parts of
a mixture. Logits may have a leading axis of 1 in place of `B` where they do
not depend on the batch.

Reference: Tay et al., "Synthesizer: Rethinking Self-Attention for Transformer
Models", arXiv 2005.00743.
"""

import math

import numpy as np


def relu(x):
    """`max(x, 0)`, any shape."""
    return np.maximum(x, 0.0)


def softmax_rows(logits, mask=None):
    """Softmax over the last axis, over visible entries only.

    logits `(..., S)`, mask boolean, broadcastable to it, `True` = visible.
    Masked entries are exactly 0, and so is a row with nothing visible. The
    logits of masked entries are never read.
    """
    logits = np.asarray(logits, "float64")
    mask = np.ones(logits.shape, bool) if mask is None else np.asarray(mask)
    shape = np.broadcast_shapes(logits.shape, mask.shape)
    logits = np.broadcast_to(logits, shape)
    mask = np.broadcast_to(mask, shape)
    weights = np.zeros(shape)
    for row in np.ndindex(shape[:-1]):
        visible = mask[row]
        if visible.any():
            shifted = logits[row][visible]
            powers = np.exp(shifted - shifted.max())
            weights[row][visible] = powers / powers.sum()
    return weights


def project(x, kernel, bias):
    """One dense layer per head.

    x `(B, T, d)`, kernel `(d, H, k)`, bias `(H, k)`; returns `(B, T, H, k)`.
    """
    projected = np.einsum("btd,dhk->bthk", _float(x), _float(kernel))
    return projected + _float(bias)


def dot_product_logits(query, source, Wq, bq, Wk, bk):
    """V: `(x Wq + bq) . (y Wk + bk) / sqrt(k)`.

    query `(B, T, d)`, source `(B, S, d)`, kernels `(d, H, k)`, biases
    `(H, k)`; returns `(B, H, T, S)`.
    """
    queries = project(query, Wq, bq)
    keys = project(source, Wk, bk)
    scale = 1.0 / math.sqrt(queries.shape[-1])
    return np.einsum("bthk,bshk->bhts", queries, keys) * scale


def dense_logits(query, W1, b1, W2, b2, length):
    """D: `relu(x W1 + b1) . W2[j] + b2[j]`, one row per token.

    query `(B, T, d)`, W1 `(d, H, k)`, b1 `(H, k)`, W2 `(N, H, k)` or, shared
    over heads, `(N, 1, k)`, b2 `(H, N)` or `(1, N)`; returns
    `(B, H, T, length)`.
    """
    W2 = _float(W2)
    hidden = relu(project(query, W1, b1))  # (B, T, H, k)
    B, T, H, _ = hidden.shape
    logits = np.zeros((B, H, T, length))
    for sample, head, token, position in np.ndindex(logits.shape):
        constant_key = W2[position, head % W2.shape[1]]
        logits[sample, head, token, position] = (
            hidden[sample, token, head] @ constant_key
        )
    return logits + _float(b2)[:, None, :length]


def linear_dense_logits(query, Wa, b, length):
    """D without a hidden layer: `x Wa + b`.

    query `(B, T, d)`, Wa `(H, d, N)` or, shared over heads, `(1, d, N)`, b
    `(H, N)` or `(1, N)`; returns `(B, H or 1, T, length)`.
    """
    logits = np.einsum("btd,hdn->bhtn", _float(query), _float(Wa))
    return (logits + _float(b)[:, None, :])[..., :length]


def factorized_dense_logits(query, W1, b1, A, bA, B, bB, length):
    """FD: `C[i, p * b + q] = A_p(x_i) * B_q(x_i)`, cut to `length`.

    query `(B, T, d)`. With a hidden layer: W1 `(d, H, k)`, b1 `(H, k)`, A
    `(H, k, a)`, B `(H, k, b)`. Without (`W1=None`): A `(H, d, a)`, B
    `(H, d, b)`. Biases bA `(H, a)`, bB `(H, b)`. Returns `(B, H, T, length)`.
    """
    A, B = _float(A), _float(B)
    heads, _, a = A.shape
    b = B.shape[-1]
    if W1 is None:
        x = _float(query)
        hidden = np.stack([x] * heads, axis=2)  # (B, T, H, d)
    else:
        hidden = relu(project(query, W1, b1))  # (B, T, H, k)
    batch, T = hidden.shape[:2]
    logits = np.zeros((batch, heads, T, length))
    for sample, head, token in np.ndindex(batch, heads, T):
        features = hidden[sample, token, head]
        left = features @ A[head] + _float(bA)[head]
        right = features @ B[head] + _float(bB)[head]
        for p in range(a):
            for q in range(b):
                if p * b + q < length:
                    logits[sample, head, token, p * b + q] = left[p] * right[q]
    return logits


def default_factors(N):
    """The default `(a, b)` of Factorized Dense: `a * b >= N`, near square.

    `a` is the largest divisor of `N` that is at most `sqrt(N)`, unless that
    is below half of `sqrt(N)`: then `ceil(sqrt(N))`. `b = ceil(N / a)`.
    """
    a = max(n for n in range(1, N + 1) if N % n == 0 and n * n <= N)
    if 4 * a * a < N:
        a = min(n for n in range(1, N + 1) if n * n >= N)
    b = min(n for n in range(1, N + 1) if a * n >= N)
    return a, b


def random_logits(R, T, S):
    """R and Fix: rows `: T` and columns `: S` of the table.

    R `(H, N, N)`; returns `(1, H, T, S)`.
    """
    return _float(R)[None, :, :T, :S]


def factorized_random_logits(R1, R2, T, S):
    """FR: `R1 R2^T`, cut as R is.

    R1, R2 `(H, N, r)`; returns `(1, H, T, S)`.
    """
    return random_logits(_product(R1, R2), T, S)


def tiled_random_logits(R, T, S):
    """R and Fix on long input: `S'[i, j] = R[i mod N, j mod N]`.

    R `(H, N, N)`; returns `(1, H, T, S)`.
    """
    R = _float(R)
    H, N, _ = R.shape
    logits = np.zeros((1, H, T, S))
    for head, i, j in np.ndindex(H, T, S):
        logits[0, head, i, j] = R[head, i % N, j % N]
    return logits


def tiled_factorized_random_logits(R1, R2, T, S):
    """FR on long input: `R1 R2^T` with both indices modulo `N`.

    R1, R2 `(H, N, r)`; returns `(1, H, T, S)`.
    """
    return tiled_random_logits(_product(R1, R2), T, S)


def tiled_columns(logits, length):
    """D and FD on long input: `S'[i, j] = S[i, j mod N]`, columns only.

    logits `(B, H, T, N)`, all N columns; returns `(B, H, T, length)`.
    """
    N = logits.shape[-1]
    columns = [logits[..., j % N] for j in range(length)]
    return np.stack(columns, axis=-1)


def mixture_logits(logits, alphas):
    """X+Y: `sum_i softmax(alphas)_i S_i`.

    logits: list of P arrays, each `(B or 1, H, T, S)`. alphas `(P, H)`, one
    set per head, or `(P,)`, one for all heads; before their softmax, which
    runs over the parts. Returns `(B or 1, H, T, S)`.
    """
    alphas = _float(alphas)
    if alphas.ndim == 1:
        alphas = alphas[:, None]
    weights = softmax_rows(alphas.T).T  # (P, H or 1)
    return sum(
        weight[None, :, None, None] * _float(part)
        for weight, part in zip(weights, logits, strict=True)
    )


def combine_masks(
    B,
    H,
    T,
    S,
    query_mask=None,
    value_mask=None,
    attention_mask=None,
    causal=False,
):
    """All masks ANDed, boolean, `True` = attend; returns `(B, H, T, S)`.

    query_mask `(B, T)`, value_mask `(B, S)`, attention_mask `(B or 1, T, S)`.
    Causal: token `i` sees the positions `j <= i`.
    """
    mask = np.ones((B, H, T, S), bool)
    for b, h, i, j in np.ndindex(mask.shape):
        allowed = not causal or j <= i
        if query_mask is not None:
            allowed = allowed and query_mask[b][i]
        if value_mask is not None:
            allowed = allowed and value_mask[b][j]
        if attention_mask is not None:
            allowed = allowed and attention_mask[b % len(attention_mask), i, j]
        mask[b, h, i, j] = allowed
    return mask


def attention(logits, values, mask):
    """`softmax(logits) values`, over visible entries only.

    logits `(B or 1, H, T, S)`, values `(B, S, H, v)`, mask boolean,
    broadcastable to `(B, H, T, S)`. Returns the context `(B, T, H, v)`, zeros
    where nothing is visible, and the weights `(B, H, T, S)`. Values that no
    one sees are never read: they may be inf or NaN.
    """
    values = _float(values)
    B, S, H, v = values.shape
    T = np.shape(logits)[2]
    logits = np.broadcast_to(_float(logits), (B, H, T, S))
    mask = np.broadcast_to(mask, (B, H, T, S))
    weights = softmax_rows(logits, mask)
    context = np.zeros((B, T, H, v))
    for b, h, i in np.ndindex(B, H, T):
        for j in range(S):
            if mask[b, h, i, j]:
                context[b, i, h] += weights[b, h, i, j] * values[b, j, h]
    return context, weights


def layer(x_value, Wv, bv, Wo, bo, logits, mask):
    """The whole attention layer after its logits.

    x_value `(B, S, d)`, Wv `(d, H, v)`, bv `(H, v)`, Wo `(H, v, o)`, bo
    `(o,)`, logits `(B or 1, H, T, S)`, mask as in `attention`; returns
    `(B, T, o)`.
    """
    context, _ = attention(logits, project(x_value, Wv, bv), mask)
    return np.einsum("bthv,hvo->bto", context, _float(Wo)) + _float(bo)


def _float(x):
    return np.asarray(x, "float64")


def _product(R1, R2):
    """R1, R2 `(H, N, r)`; returns `R1 R2^T`, `(H, N, N)`."""
    return np.einsum("hir,hjr->hij", _float(R1), _float(R2))

"""One query at a time, as in a step of decoding.

Reading keys and values once is all the work there is, but a matrix product for
each head copies them first, into a layout that it likes. Compilers can make
one loop of a product and a sum. Where they do not, one matrix product serves
all heads: of features that are zero but for one head, or of the values of all
heads, of which each wants its own. That is more arithmetic and no copy.
"""

from keras import ops

from keras_synth._backend import execution


def scores(queries, keys):
    """Returns `queries . keys`.

    Args:
        queries: Tensor `(B, 1, H, k)`.
        keys: Tensor `(B, S, H, k)`.

    Returns:
        Tensor `(B, H, 1, S)`.
    """
    if execution.fuses_dot_products():
        products = ops.sum(queries * keys, axis=-1)  # (B, S, H)
        return ops.transpose(products, (0, 2, 1))[:, :, None]
    length, heads, width = keys.shape[1:]
    own = ops.eye(heads, dtype=queries.dtype)[None, :, :, None] * queries
    own = ops.reshape(own, (-1, heads, heads * width))  # zero but for one head
    columns = ops.reshape(keys, (-1, length, heads * width))
    products = ops.matmul(columns, ops.transpose(own, (0, 2, 1)))  # (B, S, H)
    return ops.transpose(products, (0, 2, 1))[:, :, None]


def context(weights, values):
    """Returns `weights values`.

    Args:
        weights: Tensor `(B or 1, H, 1, S)`.
        values: Tensor `(B, S, H, v)`.

    Returns:
        Tensor `(B, 1, H, v)`.
    """
    if _fuses(values):
        weights = ops.transpose(weights, (0, 3, 1, 2))  # (B or 1, S, H, 1)
        return ops.sum(weights * values, axis=1, keepdims=True)
    length, heads, width = values.shape[1:]
    columns = ops.reshape(values, (-1, length, heads * width))
    every = ops.matmul(weights[:, :, 0], columns)
    every = ops.reshape(every, (-1, heads, heads, width))
    own = ops.diagonal(every, axis1=1, axis2=2)  # (B, v, H)
    return ops.transpose(own, (0, 2, 1))[:, None]


def _fuses(x):
    """Whether the backend makes one loop of a product and a sum.

    For a single sample XLA's loop is slow.
    """
    return execution.fuses_operations() and x.shape[0] != 1

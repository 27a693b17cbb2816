"""Products with learned matrices along the length."""

from keras import ops

from keras_synth.attention import masks
from keras_synth.attention.positions import window


def along(matrix, bias, x, rows, causal=False, start=0):
    """Multiplies by rows of a matrix along the length, and adds a bias.

    Args:
        matrix: Weight, of which the first S columns are used.
        bias: Weight with an entry for each row, or `None`.
        x: Tensor `(B, S, d)`.
        rows: Integer or scalar integer tensor, how many rows.
        causal: Whether row i has no columns above i.
        start: Integer or scalar integer tensor, the first row.
    """
    columns = ops.shape(x)[1]
    matrix = window(matrix, 0, start, rows)
    matrix = window(matrix, 1, 0, columns)
    if causal:
        seen = masks.causal(rows, columns, start)[0, 0]
        matrix = ops.where(seen, matrix, ops.zeros_like(matrix))
    y = ops.matmul(ops.cast(matrix, x.dtype), x)
    if bias is None:
        return y
    bias = ops.cast(window(bias, 0, start, rows), x.dtype)
    return y + bias[:, None]


def updated(cache, x, start):
    """The cache `(B, S, ...)` with `x` from position `start` on."""
    return ops.slice_update(cache, [0, start, 0], ops.cast(x, cache.dtype))

"""Helpers of mixers that choose pairs of tokens by their content."""

from keras import ops

from keras_synth._backend.checks import check_positive
from keras_synth._backend.tensors import heads_first, pad
from keras_synth.mixers.last_tokens import as_integers


def check_at_most(name, value, default, max_length):
    """Returns an argument in tokens or blocks, or raises if it is too large."""
    if value is None:
        return min(default, max_length)
    value = check_positive(name, value)
    if value > max_length:
        raise ValueError(
            f"`{name}` must be at most `max_length`, the longest sequence in "
            f"tokens. Pass a smaller {name} or a larger max_length. Received: "
            f"{name}={value}, max_length={max_length}"
        )
    return value


# Options of a weight that is saved but not trained.
FIXED = {"dtype": "float32", "trainable": False}


def unit(x):
    """Vectors of length 1 in float32; zeros stay zero."""
    x = ops.cast(x, "float32")
    squares = ops.sum(ops.square(x), axis=-1, keepdims=True)
    return x * ops.rsqrt(ops.maximum(squares, 1e-12))


def fill_up(size, mask, *tensors):
    """Appends padding, so that `size` divides the number of tokens.

    From a padding mask and tensors `(B, T, H, f)` it makes integers
    `(B or 1, L)`, 0 for padding, and tensors `(B, H, L, f)`.
    """
    length = ops.shape(tensors[0])[1]
    behind = -(-length // size) * size - length
    is_token = pad(as_integers(mask, tensors[0]), [[0, 0], [0, behind]])
    widths = [[0, 0], [0, behind], [0, 0], [0, 0]]
    return is_token, *(heads_first(pad(x, widths)) for x in tensors)


def cut_into_blocks(x, size):
    """`(B, H, L, f) -> (B, H, L / size, size, f)`."""
    batch, heads, _, features = ops.shape(x)
    return ops.reshape(x, (batch, heads, -1, size, features))


def join_blocks(x):
    """`(B, H, n, size, f) -> (B, H, n size, f)`."""
    batch, heads, _, _, features = ops.shape(x)
    return ops.reshape(x, (batch, heads, -1, features))


def take_tokens(x, places):
    """Tokens of `(B, H, T, f)` at places `(B, H, n)`: `(B, H, n, f)`."""
    return ops.take_along_axis(x, places[..., None], axis=2)

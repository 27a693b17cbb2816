"""What mixers share in which tokens choose whom they see."""

from keras import ops

from keras_synth._backend.checks import check_positive


def check_at_most(name, value, default, max_length):
    """Returns an argument in tokens, or blocks, that fits `max_length`."""
    if value is None:
        return min(default, max_length)
    value = check_positive(name, value)
    if value > max_length:
        raise ValueError(
            f"`{name}` must be at most `max_length`, the longest sequence in "
            f"tokens. Pass a smaller {name}, or a larger max_length. "
            f"Received: {name}={value}, max_length={max_length}"
        )
    return value


# Options of a weight that is saved and never trained.
FIXED = {"dtype": "float32", "trainable": False}


def heads_first(x):
    """`(B, T, H, f) -> (B, H, T, f)`, and back."""
    return ops.transpose(x, (0, 2, 1, 3))


def unit(x):
    """Vectors of length 1 in float32; those of length 0 stay so."""
    x = ops.cast(x, "float32")
    squares = ops.sum(ops.square(x), axis=-1, keepdims=True)
    return x * ops.rsqrt(ops.maximum(squares, 1e-12))


def taken(x, places):
    """Tokens of `(B, H, T, f)` at places `(B, H, n)`: `(B, H, n, f)`."""
    return ops.take_along_axis(x, places[..., None], axis=2)

"""The last tokens, and where they are: what windows remember of the past."""

from keras import ops

from keras_synth.attention import masks


def windows(x, width):
    """The `width` slices of `x`, `(B, T + width - 1, ...)`, of T tokens."""
    return [x[:, t : t - width + 1 or None] for t in range(width)]


def as_integers(mask, x):
    """A padding mask `(B, T)` as 0 and 1; all 1, `(1, T)`, without one."""
    # Not every backend slices booleans.
    if mask is None:
        return ops.ones((1, ops.shape(x)[1]), "int32")
    return ops.cast(mask, "int32")


def none(batch_size, number, features, dtype):
    """Returns the state before the first token.

    Args:
        batch_size: Integer or scalar integer tensor, `B`.
        number: Integer, how many of the last tokens are seen.
        features: Integer, `d`.
        dtype: String.

    Returns:
        Dictionary of `"tokens"`, `(B, n, d)`, and `"positions"`, integers
        `(B, n)`: where they are, counted from one; 0 where there is none. n is
        `number`, or 1 where that is 0: some operations do not take tensors
        without entries.
    """
    shape = batch_size, max(number, 1)
    return {
        "tokens": ops.zeros((*shape, features), dtype),
        "positions": ops.zeros(shape, "int32"),
    }


def joined(cache, x, mask, start, number):
    """Puts tokens behind the last ones before them.

    Those that are forbidden do not enter the state. Those that follow count
    from `start`, so that a forbidden one may come again at its position, or
    else counts as a position of zeros.

    Args:
        cache: Dictionary, the state.
        x: Tensor `(B, T, d)`, zero where padded.
        mask: Boolean `(B, T)`, False for padding; or `None`.
        start: Integer or scalar integer tensor, position of the first token.
        number: Integer, how many of the last tokens are seen.

    Returns:
        `(tokens, real, cache)`: tensor `(B, number + T, d)`, integers
        `(B, number + T)`, 0 where there is no token, and the state behind.
    """
    real = ops.broadcast_to(as_integers(mask, x), ops.shape(x)[:2])
    start = ops.cast(start, "int32")
    tokens, before = _before(cache, start)
    tokens = ops.concatenate([tokens, x], axis=1)
    real = ops.concatenate([before, real], axis=1)
    skip = cache["positions"].shape[1] - number
    after = _after(cache, tokens, real, start)
    return tokens[:, skip:], real[:, skip:], after


def _before(cache, start):
    """What a state holds of the positions just before `start`.

    Args:
        cache: Dictionary, the state.
        start: Scalar integer tensor.

    Returns:
        `(tokens, real)`: tensor `(B, width - 1, d)` and integers
        `(B, width - 1)`, 0 where it holds no token.
    """
    positions = cache["positions"]
    size = positions.shape[1]
    wanted = start - size + 1 + ops.arange(size)  # counted from one
    # Forbidden tokens may lie between.
    moved = start - ops.amax(positions, axis=1, keepdims=True)
    index = ops.clip(ops.arange(size) + moved, 0, size - 1)
    found = ops.take_along_axis(positions, index, axis=1)
    real = ops.logical_and(ops.equal(found, wanted), wanted > 0)
    tokens = ops.take_along_axis(cache["tokens"], index[..., None], axis=1)
    return masks.zero_padding(tokens, real), ops.cast(real, "int32")


def _after(cache, tokens, real, start):
    """The state after the last real token, or as it was if there is none.

    Args:
        cache: Dictionary, the state before.
        tokens: Tensor `(B, width - 1 + T, d)`, from position
            `start - width + 1` on.
        real: Integers `(B, width - 1 + T)`, 0 for padding.
        start: Scalar integer tensor, position of the first token that is new.
    """
    size = cache["positions"].shape[1]
    place = ops.arange(ops.shape(real)[1])  # among `tokens`
    # How many of the new tokens there are up to the last real one.
    new = ops.amax(real * (place - size + 1), axis=1, keepdims=True)  # (B, 1)
    positions = real * (start - size + 1 + place)
    index = new + ops.arange(size)  # (B, width - 1)
    after = {
        "tokens": ops.take_along_axis(tokens, index[..., None], axis=1),
        "positions": ops.take_along_axis(positions, index, axis=1),
    }
    kept = new > 0
    return {
        "tokens": ops.where(kept[..., None], after["tokens"], cache["tokens"]),
        "positions": ops.where(kept, after["positions"], cache["positions"]),
    }

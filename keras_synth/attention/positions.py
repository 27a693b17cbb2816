"""Slices of learned tables by position, and checks of lengths."""

import numbers

import numpy as np
from keras import ops

from keras_synth._backend.tensors import indices, take


def as_position(position):
    """Returns a position as an int, or a tensor of any integer dtype as int32.

    TensorFlow does not add int64 to the int32 of other positions. An integer
    below 0 is an error. `None` stays `None`.
    """
    if isinstance(position, np.ndarray) and position.ndim == 0:
        position = position[()]
    if position is None:
        return None
    if not isinstance(position, numbers.Integral):
        return ops.cast(position, "int32")
    if position < 0:
        raise ValueError(
            f"Positions in a cache must be at least 0. Received: {position}"
        )
    return int(position)


def window(table, axis, start, length, tile=False):
    """Returns the entries `start ... start + length - 1` along `axis`.

    `start` and `length` are integers or scalar integer tensors. With `tile`,
    positions repeat from the end of the table on, as the paper suggests for
    longer inputs.
    """
    table = ops.convert_to_tensor(table)
    max_length = table.shape[axis]
    static = isinstance(start, int) and isinstance(length, int)
    if static and start + length <= max_length:
        if length == max_length:
            return table
        return table[_along(axis, slice(start, start + length))]
    if tile:
        positions = start + indices(length)
        positions = ops.mod(positions, max_length)
        return take(table, positions, axis)
    if isinstance(length, int):  # `start` is a tensor when decoding
        begin = [0] * len(table.shape)
        begin[axis] = start
        shape = list(table.shape)
        shape[axis] = length
        return ops.slice(table, begin, shape)
    if ops.is_tensor(length):  # a TensorFlow graph with unknown lengths
        return table[_along(axis, slice(start, start + length))]
    # In an export a symbolic length can be gathered but not sliced: JAX does
    # not slice it, and PyTorch adds a guard against the whole table.
    positions = start + indices(length)
    return take(table, positions, axis)


def shortest(*lengths):
    """Returns the least of the known lengths, or `None`."""
    known = [length for length in lengths if length is not None]
    return min(known, default=None)


def check_length(name, length, max_length, start=0):
    """Raises if a known length, an integer, does not fit the table.

    The name, "Query" or "Source", is for the error. A tensor as `start`, the
    position of the first token, counts as 0.
    """
    if not isinstance(length, int):
        return
    end = length + (start if isinstance(start, int) else 0)
    if end > max_length:
        raise ValueError(
            f"{name} of {end} tokens is longer than max_length={max_length}. "
            "Use a larger max_length, shorten the input, or repeat the learned "
            'positions with long_inputs="tile". For a name, write '
            """synthesizer="R(long_inputs='tile')". """
            f"Received: length={end}, max_length={max_length}"
        )


def _along(axis, index):
    return (slice(None),) * axis + (index,)

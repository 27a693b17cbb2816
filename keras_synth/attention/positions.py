"""Slices of learned tables by position, and checks of lengths."""

from keras import ops

from keras_synth._backend.tensors import gathered


def window(table, axis, start, length, tile=False):
    """Returns the entries `start ... start + length - 1` along `axis`.

    Args:
        table: Tensor, `max_length` entries along `axis`.
        axis: Integer, 0 or 1.
        start: Integer or scalar integer tensor, the first position.
        length: Integer or scalar integer tensor, how many positions.
        tile: Whether positions from `max_length` on start again at 0, as the
            paper suggests for input longer than the table.

    Returns:
        Tensor with `length` entries along `axis`.
    """
    table = ops.convert_to_tensor(table)
    max_length = table.shape[axis]
    static = isinstance(start, int) and isinstance(length, int)
    if static and start + length <= max_length:
        if length == max_length:
            return table
        return table[_along(axis, slice(start, start + length))]
    if tile:
        positions = start + ops.arange(length, dtype="int32")
        positions = ops.mod(positions, max_length)
        return ops.take(table, positions, axis=axis)
    if isinstance(length, int):  # `start` is a tensor when decoding
        begin = [0] * len(table.shape)
        begin[axis] = start
        shape = list(table.shape)
        shape[axis] = length
        return ops.slice(table, begin, shape)
    if ops.is_tensor(length):  # a TensorFlow graph with unknown lengths
        return table[_along(axis, slice(start, start + length))]
    # A symbolic length of an export can be gathered but not sliced: on JAX at
    # all, on PyTorch without a guard against the whole table.
    positions = start + ops.arange(length, dtype="int32")
    return gathered(table, positions, axis)


def shortest(*lengths):
    """Returns the least of lengths, of which `None` is none; or `None`."""
    known = [length for length in lengths if length is not None]
    return min(known, default=None)


def check_length(name, length, max_length, start=0):
    """Raises if a length that is known does not fit the table.

    Args:
        name: String, what is too long: "Query" or "Source".
        length: Integer tokens, `None` or a tensor.
        max_length: Integer, the positions that the table holds.
        start: Integer, position of the first token; a tensor counts as 0.
    """
    if not isinstance(length, int):
        return
    end = length + (start if isinstance(start, int) else 0)
    if end > max_length:
        raise ValueError(
            f"{name} of {end} tokens is longer than max_length={max_length}. "
            "Build the synthesizer with a larger max_length, shorten the "
            "input, or let the synthesizer repeat its learned positions with "
            'long_inputs="tile"; of a name in brackets, as in '
            """synthesizer="R(long_inputs='tile')". """
            f"Received: length={end}, max_length={max_length}"
        )


def _along(axis, index):
    return (slice(None),) * axis + (index,)

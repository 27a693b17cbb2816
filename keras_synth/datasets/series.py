"""Arrays of series for attention."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_synth._backend.checks import check_positive
from keras_synth.types import Tensor


def pad_series(
    series: Sequence[Tensor], length: int | None = None
) -> tuple[Any, Any]:
    """Pads series of different lengths with zeros at their ends.

    A series has steps first and features last: a spectrogram, measurements, or
    the features of a graph's nodes.

    Args:
        series: Sequence of `N` arrays `(T_i, d)`, or `(T_i,)`, of finite
            numbers.
        length: Integer, number of steps `T` of the result; by default that of
            the longest series.

    Returns:
        `(values, padding_mask)`: an array `(N, T, d)` or `(N, T)`, float32, or
        int32 for integers; and a boolean array `(N, T)`, True for real steps.

    Raises:
        ValueError: If a series is longer than `length`, has other features than
            the first, or contains numbers that are not finite.

    Example:

    >>> values, padding_mask = keras_synth.datasets.pad_series(
    ...     [np.ones((3, 12)), np.ones((2, 12))])
    >>> values.shape
    (2, 3, 12)
    >>> padding_mask
    array([[ True,  True,  True],
           [ True,  True, False]])
    """
    arrays = [_numbers(f"Series {i}", x) for i, x in enumerate(series)]
    widths = {x.shape[1:] for x in arrays}
    if len(widths) > 1:
        shapes = ", ".join(sorted({str(x.shape) for x in arrays}))
        raise ValueError(
            "All series must have the same features. Received: arrays of "
            f"shapes {shapes}"
        )
    lengths = np.array([len(x) for x in arrays], int)
    longest = lengths.max(initial=1) if length is None else length
    if lengths.max(initial=0) > longest:
        raise ValueError(
            f"Series must have at most {longest} steps. Received: "
            f"{lengths.max()} steps"
        )
    floats = any(x.dtype == "float32" for x in arrays)
    dtype = "float32" if floats else "int32"
    shape = len(arrays), longest, *next(iter(widths), ())
    values = np.zeros(shape, dtype)
    for row, x in zip(values, arrays, strict=True):
        row[: len(x)] = x
    return values, np.arange(longest) < lengths[:, None]


def series_windows(
    series: Tensor, length: int, horizon: int = 1, stride: int = 1
) -> tuple[Any, Any]:
    """Cuts a series into windows, and the steps after them as targets.

    First cut the series into training and test parts, so that no target is in
    both.

    Args:
        series: Array `(T,)` or `(T, d)` of finite numbers.
        length: Integer, number of input steps.
        horizon: Integer, number of target steps.
        stride: Integer, number of steps between the starts of windows.

    Returns:
        `(inputs, targets)`: arrays `(N, length)` and `(N, horizon)`, followed
        by `d` if the series has features; float32, or int32 for integers.

    Raises:
        ValueError: If the series is shorter than `length + horizon`, or
            contains numbers that are not finite.

    Example:

    >>> inputs, targets = keras_synth.datasets.series_windows(
    ...     [1, 2, 3, 4, 5, 6], length=3, horizon=2)
    >>> inputs
    array([[1, 2, 3],
           [2, 3, 4]], dtype=int32)
    >>> targets
    array([[4, 5],
           [5, 6]], dtype=int32)
    """
    sizes = {"length": length, "horizon": horizon, "stride": stride}
    for name, value in sizes.items():
        check_positive(name, value)
    array, needed = _numbers("The series", series), length + horizon
    if len(array) < needed:
        raise ValueError(
            f"The series must have at least length + horizon = {needed} steps. "
            f"Received: {len(array)} steps"
        )
    starts = np.arange(0, len(array) - needed + 1, stride)
    windows = array[starts[:, None] + np.arange(needed)]
    return windows[:, :length], windows[:, length:]


def _numbers(name, values):
    """An array `(T,)` or `(T, d)` of finite float32 or int32 numbers."""
    array = np.asarray(values)
    if array.dtype.kind not in "fiu" or array.ndim not in (1, 2):
        raise ValueError(
            f"{name} must be an array (steps,) or (steps, features) of "
            f"numbers. Received: shape {array.shape}, dtype {array.dtype}"
        )
    dtype = "float32" if array.dtype.kind == "f" else "int32"
    if dtype == "int32" and (array != array.astype(dtype)).any():
        raise ValueError(
            f"{name} must contain integers of 32 bits. Convert it to floats, "
            f"or subtract the first. Received: {array.min()} to {array.max()}"
        )
    array = array.astype(dtype)
    if not np.isfinite(array).all():
        raise ValueError(
            f"{name} must contain only finite numbers. Fill in missing ones, "
            "or cut the series there. Received: "
            f"{int((~np.isfinite(array)).sum())} others"
        )
    return array

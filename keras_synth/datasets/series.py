"""Series of numbers as arrays for attention: sounds, measurements, nodes."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_synth._backend.checks import check_optional, check_positive
from keras_synth.types import Tensor


def pad_series(
    series: Sequence[Tensor],
    length: int | None = None,
    min_length: int = 2,
) -> tuple[Any, Any]:
    """Pads series of unequal lengths with zeros at their ends.

    A series is a spectrogram, the cepstra of an utterance, measurements, or
    the features of a graph's nodes: steps first, features last.

    Args:
        series: Sequence of `N` arrays `(T_i, d)`, or `(T_i,)`, of finite
            numbers.
        length: Integer, the steps `T` of the result; by default those of the
            longest series.
        min_length: Integer, the fewest steps of a series. In a single step
            attention has nothing to compare; pass 1 where that is meant.

    Returns:
        `(values, padding_mask)`: an array `(N, T, d)`, or `(N, T)`, float32
        or, of integers, int32; and a boolean one `(N, T)`, True for real
        steps.

    Raises:
        ValueError: If a series is too short or too long, holds something else
            than finite numbers, or has other features than the first.

    Example:

    >>> values, padding_mask = keras_synth.datasets.pad_series(
    ...     [np.ones((3, 12)), np.ones((2, 12))])
    >>> values.shape
    (2, 3, 12)
    >>> padding_mask
    array([[ True,  True,  True],
           [ True,  True, False]])
    """
    check_positive("min_length", min_length)
    length = check_optional("length", length)
    arrays = [_numbers(f"Series {i}", x) for i, x in enumerate(series)]
    if not arrays:
        raise ValueError("There must be a series to pad. Received: none")
    for i, x in enumerate(arrays):
        _check_steps(i, x, min_length, length)
        if x.shape[1:] != arrays[0].shape[1:]:
            raise ValueError(
                "All series must have the same features, the last axis. "
                f"Received: shapes {arrays[0].shape} and, of series {i}, "
                f"{x.shape}"
            )
    longest = max(map(len, arrays)) if length is None else length
    dtype = np.result_type(*arrays)
    values = np.zeros((len(arrays), longest, *arrays[0].shape[1:]), dtype)
    for row, x in zip(values, arrays, strict=True):
        row[: len(x)] = x
    lengths = np.array([[len(x)] for x in arrays])
    return values, np.arange(longest) < lengths


def series_windows(
    series: Tensor, length: int, horizon: int = 1, stride: int = 1
) -> tuple[Any, Any]:
    """Cuts a series into windows to read and what follows them, to forecast.

    Window `i` reads the steps from `i * stride` on and forecasts the next
    `horizon` steps. Cut the series into parts to train and to test on before,
    so that no step to forecast is in both.

    Args:
        series: Array `(T,)` or `(T, d)` of finite numbers, one a step.
        length: Integer, steps to read.
        horizon: Integer, steps to forecast.
        stride: Integer, steps from the start of a window to that of the next.

    Returns:
        `(inputs, targets)`: arrays `(N, length)` and `(N, horizon)`, followed
        by `d` if the series has features; float32 or, of integers, int32.
        They are copies.

    Raises:
        ValueError: If the series is shorter than `length + horizon`, or holds
            something else than finite numbers.

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
    for name, value in [
        ("length", length),
        ("horizon", horizon),
        ("stride", stride),
    ]:
        check_positive(name, value)
    array = _numbers("The series", series)
    needed = length + horizon
    if len(array) < needed:
        raise ValueError(
            f"A series must have at least length + horizon = {needed} steps "
            "for one window. Pass a longer series, or read and forecast "
            f"fewer steps. Received: {len(array)} steps, length={length}, "
            f"horizon={horizon}"
        )
    starts = np.arange(0, len(array) - needed + 1, stride)
    windows = array[starts[:, None] + np.arange(needed)]
    return windows[:, :length], windows[:, length:]


def _numbers(name, values):
    """An array `(T,)` or `(T, d)`, float32 or int32; raises if it is none."""
    array = np.asarray(values)
    if array.dtype.kind not in "fiu":
        raise ValueError(
            f"{name} must hold numbers. Received: dtype {array.dtype}"
        )
    if array.ndim not in (1, 2):
        raise ValueError(
            f"{name} must be an array (steps,) or (steps, features). Flatten "
            f"further axes into the features. Received: shape {array.shape}"
        )
    array = array.astype("float32" if array.dtype.kind == "f" else "int32")
    wrong = np.argwhere(~np.isfinite(array))
    if len(wrong):
        where = tuple(wrong[0].tolist())
        raise ValueError(
            f"{name} must hold finite numbers. Fill in what is missing, or "
            f"cut there. Received: {array[where]} at {where}, and "
            f"{len(wrong)} such values in all"
        )
    return array


def _check_steps(i, x, least, most):
    if len(x) < least:
        raise ValueError(
            f"A series must have at least {least} steps. Leave it out, take "
            "shorter steps, or pass a smaller min_length; if its axes are "
            f"swapped, transpose it. Received: series {i} of shape {x.shape}"
        )
    if most is not None and len(x) > most:
        raise ValueError(
            f"A series is longer than length={most}. Cut it, or pass a "
            f"larger length. Received: series {i} of shape {x.shape}"
        )

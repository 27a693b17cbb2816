"""Checks of arguments."""

import math
import numbers


def check_positive(name, value):
    """Returns `value` as an int, or raises unless it is an integer >= 1."""
    if not _is_integer(value) or value < 1:
        raise _error(name, "a positive integer", value)
    return int(value)


def check_optional(name, value):
    """`check_positive`, except for `None`."""
    return None if value is None else check_positive(name, value)


def check_boolean(name, value):
    """Returns `value` as a bool, or raises unless it is a bool, 0 or 1."""
    # NumPy's booleans are not of type `bool`.
    if isinstance(value, (str, type(None))) or value not in (False, True):
        raise _error(name, "True or False", value)
    return bool(value)


def check_above_zero(name, value):
    """Returns a finite number above 0 as a float, or raises."""
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_number or not 0 < value < math.inf:
        raise _error(name, "a number above 0", value)
    return float(value)


def check_rate(name, value):
    """Returns `value` as a float, or raises unless it is in `[0, 1)`."""
    if not isinstance(value, numbers.Real) or not 0 <= value < 1:
        raise _error(name, "a number of at least 0 and below 1", value)
    return float(value)


def check_seed(name, value):
    """Returns `value` as an int or `None`, or raises."""
    if value is not None and not _is_integer(value):
        raise _error(name, "an integer or None", value)
    return None if value is None else int(value)


def check_number(name, value):
    """Returns `value` as an int, or raises unless it is an integer >= 0."""
    if not _is_integer(value) or value < 0:
        raise _error(name, "a non-negative integer", value)
    return int(value)


def may_be_equal(shape, other):
    """Whether static shapes, `None` if unknown, can be equal."""
    return shape == other or (
        len(shape) == len(other)
        and all(
            None in pair or pair[0] == pair[1]
            for pair in zip(shape, other, strict=True)
        )
    )


def _is_integer(value):
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _error(name, expected, value):
    return ValueError(
        f"The argument `{name}` must be {expected}. Received: {name}={value!r}"
    )

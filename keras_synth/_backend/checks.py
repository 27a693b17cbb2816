"""Checks of arguments; each error says how to fix the call."""

import math
import numbers


def check_positive(name, value):
    """Returns `value` as an int, or raises unless it is an integer >= 1."""
    integral = isinstance(value, numbers.Integral) and value is not True
    if not integral or value < 1:
        raise ValueError(
            f"The argument `{name}` must be a positive integer. "
            f"Received: {name}={value!r}"
        )
    return int(value)


def check_optional(name, value):
    """`check_positive` of all but `None`."""
    return None if value is None else check_positive(name, value)


def check_boolean(name, value):
    """Returns `value` as a bool, or raises unless it is one, 0 or 1."""
    # NumPy's booleans are not `bool`s.
    if isinstance(value, (str, type(None))) or value not in (False, True):
        raise ValueError(
            f"`{name}` must be True or False. Received: {name}={value!r}"
        )
    return bool(value)


def check_above_zero(name, value):
    """Returns a finite number above 0 as a float, or raises."""
    number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not number or not 0 < value < math.inf:
        raise ValueError(
            f"`{name}` must be a number above 0. Received: {name}={value!r}"
        )
    return float(value)


def check_rate(name, value):
    """Returns `value` as a float, or raises unless it lies in `[0, 1)`."""
    if not isinstance(value, numbers.Real) or not 0 <= value < 1:
        raise ValueError(
            f"`{name}` must be a number from 0 up to, not including, 1. "
            f"Received: {name}={value!r}"
        )
    return float(value)


def may_be_equal(shape, other):
    """Whether static shapes, `None` where unknown, may be the same."""
    return shape == other or (
        len(shape) == len(other)
        and all(
            None in pair or pair[0] == pair[1]
            for pair in zip(shape, other, strict=True)
        )
    )


def check_seed(name, value):
    """Returns `value` as an int or `None`, or raises if it is neither."""
    if value is None:
        return None
    if not isinstance(value, numbers.Integral) or isinstance(value, bool):
        raise ValueError(
            f"`{name}` must be an integer or None. Received: {name}={value!r}"
        )
    return int(value)

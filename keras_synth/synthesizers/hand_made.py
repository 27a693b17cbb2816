"""Logits that are made by hand: fixed tables without weights, of any length."""

import numbers
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_synth._backend.checks import check_above_zero, check_positive
from keras_synth.synthesizers.relative import DistanceSynthesizer

# Logits fall by this much for each token that one is farther from a pattern.
# Weights outside of it are then below 2.1e-9 of those in it, less than float32
# resolves; and multiples of it are exact for any length.
STEEP = 20.0

# How many tokens the distance `d = j - i` is away from a pattern.
_AWAY = {
    "previous": lambda d, width: ops.abs(d + 1),
    "current": lambda d, width: ops.abs(d),
    "next": lambda d, width: ops.abs(d - 1),
    "window": lambda d, width: ops.maximum(ops.abs(d) - width, 0),
    "left": lambda d, width: ops.maximum(d + 2, 0),
    "right": lambda d, width: ops.maximum(2 - d, 0),
    # Within a row only differences count: that i is subtracted changes nothing.
    "start": lambda d, width: d,
    "end": lambda d, width: -d,
}

PATTERNS = tuple(_AWAY)


@keras.saving.register_keras_serializable(package="keras_synth")
class GaussianSynthesizer(DistanceSynthesizer):
    """Attends to a neighbourhood that is fixed by hand ("gaussian").

    `S[i, j] = -(j - i - o)^2 / (2 s^2)`: weights are a normal distribution
    around the token o places away. Nothing is learned.

    Args:
        num_heads: Integer, `H`.
        offsets: Sequence of integers, in tokens: head h takes the entry
            `h mod len(offsets)`. The default is that of the paper's encoder;
            its decoder takes `(-1, 0)`.
        stddev: Float, `s`, in tokens; 1 as in the paper.
        **kwargs: Arguments of `Synthesizer`.

    Returns:
        `Logits`: bias `(1, H, T, S)`.

    Example:

    >>> layer = keras_synth.layers.SyntheticAttention(
    ...     4, 16, synthesizer="gaussian(offsets=(-1, 0), stddev=1.5)")
    >>> layer(keras.random.normal((2, 10, 64))).shape
    (2, 10, 64)

    References:
        - [You et al., 2020](https://arxiv.org/abs/2005.00742)
    """

    needs_float32 = True

    def __init__(
        self,
        num_heads: int,
        offsets: Sequence[int] = (-1, 0, 1),
        stddev: float = 1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_heads, **kwargs)
        self.offsets = _sequence("offsets", offsets)
        if not all(isinstance(x, numbers.Integral) for x in self.offsets):
            raise ValueError(
                "`offsets` must be integers, in tokens. "
                f"Received: offsets={offsets!r}"
            )
        self.stddev = check_above_zero("stddev", stddev)

    def weigh(self, distances):
        offsets = _cycled(self.offsets, self.num_heads)
        offsets = ops.convert_to_tensor(offsets, "float32")[:, None]
        away = ops.cast(distances, "float32") - offsets
        return -ops.square(away / self.stddev) / 2.0


@keras.saving.register_keras_serializable(package="keras_synth")
class PatternSynthesizer(DistanceSynthesizer):
    """Gives each head a place to attend to, fixed by hand ("pattern").

    | pattern | tokens j that i attends to, with equal weights |
    |---|---|
    | `"previous"`, `"current"`, `"next"` | `i - 1`, `i`, `i + 1` |
    | `"window"` | those up to `width` away, i among them |
    | `"left"`, `"right"` | all up to `i - 2`, all from `i + 2` on |
    | `"start"`, `"end"` | the first one, the last one |

    `S[i, j]` is -20 times the number of tokens that j is away from the
    pattern: where none of these may be seen, a token attends to the nearest
    ones that may. Nothing is learned. (In the paper, which grades the weights
    within wide contexts, one head is: `"heads(7 * pattern + 1 * V)"`.)

    Args:
        num_heads: Integer, `H`.
        patterns: Sequence of names; head h has `h mod len(patterns)`.
        width: Integer, half the width of `"window"`, in tokens.
        **kwargs: Arguments of `Synthesizer`.

    Returns:
        `Logits`: bias `(1, H, T, S)`.

    Example:

    >>> layer = keras_synth.layers.SyntheticAttention(
    ...     4, 16, synthesizer="pattern(patterns=('previous', 'window'))")
    >>> layer(keras.random.normal((2, 10, 64))).shape
    (2, 10, 64)

    References:
        - [Raganato et al., 2020](https://arxiv.org/abs/2002.10260)
    """

    needs_float32 = True

    def __init__(
        self,
        num_heads: int,
        patterns: Sequence[str] = (
            "current",
            "previous",
            "next",
            "left",
            "right",
            "end",
            "start",
        ),
        width: int = 2,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_heads, **kwargs)
        self.patterns = _sequence("patterns", patterns)
        for name in self.patterns:
            if name not in PATTERNS:
                raise ValueError(
                    f"`patterns` must be among {PATTERNS}. "
                    f"Received: {name!r} in patterns={patterns!r}"
                )
        self.width = check_positive("width", width)

    def weigh(self, distances):
        away = [
            _AWAY[name](distances, self.width)
            for name in _cycled(self.patterns, self.num_heads)
        ]
        return -STEEP * ops.cast(ops.stack(away), "float32")


def _sequence(name, given):
    if not isinstance(given, (list, tuple)) or not given:
        raise ValueError(
            f"`{name}` must be a sequence with an entry or more. "
            f"Received: {name}={given!r}"
        )
    return list(given)


def _cycled(entries, number):
    return [entries[i % len(entries)] for i in range(number)]

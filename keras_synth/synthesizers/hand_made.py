"""Logits from fixed tables without weights, for any length."""

import numbers
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_synth._backend.checks import check_above_zero, check_positive
from keras_synth.synthesizers.relative import DistanceSynthesizer

# How much logits fall for each token of distance to a pattern. Weights outside
# of the pattern are below 2.1e-9 of those inside, less than float32 resolves,
# and multiples of this number are exact for any length.
STEEP = 20.0

# Tokens between the distance `d = j - i` and a pattern.
_AWAY = {
    "previous": lambda d, width: ops.abs(d + 1),
    "current": lambda d, width: ops.abs(d),
    "next": lambda d, width: ops.abs(d - 1),
    "window": lambda d, width: ops.maximum(ops.abs(d) - width, 0),
    "left": lambda d, width: ops.maximum(d + 2, 0),
    "right": lambda d, width: ops.maximum(2 - d, 0),
    # Subtracting i changes no weight, because it is constant within a row.
    "start": lambda d, width: d,
    "end": lambda d, width: -d,
}

PATTERNS = tuple(_AWAY)


@keras.saving.register_keras_serializable(package="keras_synth")
class GaussianSynthesizer(DistanceSynthesizer):
    """Attends to a fixed neighbourhood ("gaussian").

    `S[i, j] = -(j - i - o)^2 / (2 s^2)`: the weights are a normal distribution
    around the token at distance o. There are no trainable weights.

    Args:
        num_heads: Integer, `H`.
        offsets: Sequence of integers, in tokens. Head h uses the entry
            `h mod len(offsets)`. The default is the paper's for encoders; for
            decoders it is `(-1, 0)`.
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
    """Fixes where each head attends ("pattern").

    | pattern | tokens j that i attends to, with equal weights |
    |---|---|
    | `"previous"`, `"current"`, `"next"` | `i - 1`, `i`, `i + 1` |
    | `"window"` | up to `width` away, including i |
    | `"left"`, `"right"` | all up to `i - 2`, all from `i + 2` on |
    | `"start"`, `"end"` | the first one, the last one |

    `S[i, j]` is -20 times the distance of j from the pattern, in tokens. If
    masks hide the whole pattern, a token attends to the nearest visible ones.
    There are no trainable weights. (The paper grades the weights within wide
    contexts, and trains one head: `"heads(7 * pattern + 1 * V)"`.)

    Args:
        num_heads: Integer, `H`.
        patterns: Sequence of names. Head h uses the entry
            `h mod len(patterns)`.
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
                    f"Each of `patterns` must be one of {PATTERNS}. Received: "
                    f"{name!r} in patterns={patterns!r}"
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
            f"`{name}` must be a sequence of one or more entries. Received: "
            f"{name}={given!r}"
        )
    return list(given)


def _cycled(entries, number):
    return [entries[i % len(entries)] for i in range(number)]

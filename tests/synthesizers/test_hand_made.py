"""Attention by hand-made tables."""

import numpy as np
import pytest
from arrays import normal, padding
from assertions import close
from backend import numpy
from keras import ops

from keras_synth import mixers, synthesizers
from keras_synth.synthesizers import hand_made

K, D, N, T = 4, 8, 9, 7
FAR = 1000  # beyond any sequence here

PATTERNS = {
    "previous": lambda i: {i - 1},
    "current": lambda i: {i},
    "next": lambda i: {i + 1},
    "window": lambda i: {i - 2, i - 1, i, i + 1, i + 2},
    "left": lambda i: {*range(-FAR, i - 1)},
    "right": lambda i: {*range(i + 2, FAR)},
    "start": lambda i: {-FAR},
    "end": lambda i: {FAR},
}


def pattern_row(name, i, visible):
    """Equal weights of the visible tokens that are nearest to a pattern."""
    there = np.flatnonzero(visible)
    away = [min(abs(j - p) for p in PATTERNS[name](i)) for j in there]
    row = np.zeros(len(visible))
    nearest = there[np.array(away) == min(away)]
    row[nearest] = 1 / len(nearest)
    return row


def scores(identifier, heads, real=None, causal=False):
    mixer = mixers.get(identifier, heads, K)
    x = normal(3, T, D)
    _, found = mixer(
        x,
        value_mask=real,
        use_causal_mask=causal,
        return_attention_scores=True,
    )
    return numpy(found)


def seen(real, causal):
    real = padding(T, T, T, size=T) if real is None else real
    rows = np.arange(T) <= np.arange(T)[:, None]
    return real[:, None] & (rows if causal else np.ones((T, T), bool))


MASKS = [
    (None, False),
    (None, True),
    (padding(T, 4, 1, size=T), False),
    (~padding(0, 2, 5, size=T), False),  # padding on the left
]
each_mask = pytest.mark.parametrize(("real", "causal"), MASKS)


@each_mask
def test_patterns_are_the_nearest_tokens_that_are_visible(real, causal):
    names = tuple(PATTERNS)
    assert set(names) == set(hand_made.PATTERNS)
    found = scores(f"pattern(patterns={names})", len(names), real, causal)
    visible = seen(real, causal)
    for b, h, i in np.ndindex(3, len(names), T):
        truth = pattern_row(names[h], i, visible[b, i])
        close(found[b, h, i], truth, atol=1e-7)


def test_long_sequences_keep_patterns_exact():
    names = ("previous", "start", "end", "left")
    layer = synthesizers.get("pattern", len(names), patterns=names)
    table = numpy(ops.softmax(layer.call(normal(1, 3000, 1)).bias, axis=-1))[0]
    assert table[0, 2999, 2998] == 1
    assert (table[1, :, 0] == 1).all()
    assert (table[2, :, 2999] == 1).all()
    close(table[3, 2999, :2998], 1 / 2998, atol=0, rtol=1e-4)

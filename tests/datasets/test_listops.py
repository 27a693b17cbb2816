"""ListOps: values of generated expressions."""

import collections
import statistics

import numpy as np
import pytest

from keras_synth import datasets

pytestmark = pytest.mark.once  # nothing here depends on the backend

WORTH = {
    "[MIN": min,
    "[MAX": max,
    "[MED": lambda values: int(statistics.median(values)),
    "[SM": lambda values: sum(values) % 10,
}


def parsed(text):
    """An expression as nested lists: `["[MAX", 2, ["[SM", 6, 7]]`."""
    stack = [[]]
    for token in text.split():
        if token in WORTH:
            stack.append([token])
        elif token == "]":
            closed = stack.pop()
            stack[-1].append(closed)
        else:
            stack[-1].append(int(token))
    ((whole,),) = stack
    return whole


def value(node):
    if isinstance(node, int):
        return node
    return WORTH[node[0]]([value(x) for x in node[1:]])


def lists(node):
    """All lists in a list, itself among them, with their levels."""
    found, left = [], [(node, 1)]
    while left:
        node, level = left.pop()
        if not isinstance(node, int):
            found.append((node, level))
            left += [(x, level + 1) for x in node[1:]]
    return found


def test_generated_values_are_right():
    texts, labels = datasets.generated_listops(1_500)
    assert labels.dtype == "int32"
    assert len(texts) == len(set(texts)) == len(labels) == 1_500
    for text, label in zip(texts, labels.tolist(), strict=True):
        assert value(parsed(text)) == label
    names = datasets.CLASS_NAMES["generated_listops"]
    assert names[3] == "3"
    assert {*labels.tolist()} == {*map(int, names)}


def test_generated_expressions_follow_the_rules():
    texts, _ = datasets.generated_listops(
        4_000, max_depth=4, max_args=6, max_length=500
    )
    every = [pair for text in texts for pair in lists(parsed(text))]
    assert max(level for _, level in every) == 3  # and digits on the fourth
    arguments = collections.Counter(len(node) - 1 for node, _ in every)
    assert {*arguments} == {2, 3, 4, 5, 6}
    operators = collections.Counter(node[0] for node, _ in every)
    for counts in (arguments, operators):
        shares = np.array([*counts.values()]) / len(every)
        np.testing.assert_allclose(shares, 1 / len(counts), atol=0.02)
    inner = [x for node, level in every if level < 3 for x in node[1:]]
    share = np.mean([not isinstance(x, int) for x in inner])
    assert abs(share - 0.25) < 0.02
    digits = [x for node, _ in every for x in node[1:] if isinstance(x, int)]
    shares = np.bincount(digits) / len(digits)
    np.testing.assert_allclose(shares, 0.1, atol=0.01)


def test_lengths_lie_between_the_limits():
    texts, _ = datasets.generated_listops(
        100, min_length=50, max_length=60, max_depth=10
    )
    lengths = {len(text.split()) for text in texts}
    assert 50 <= min(lengths) <= max(lengths) <= 60
    assert len(lengths) > 5


def test_more_expressions_than_there_are_is_an_error():
    # Four operators, and 100 pairs of digits for each.
    limits = {"max_depth": 2, "max_args": 2, "max_length": 4}
    texts, _ = datasets.generated_listops(400, **limits)
    assert len({*texts}) == 400
    with pytest.raises(ValueError, match=r"400 distinct.*num_examples=401"):
        datasets.generated_listops(401, **limits)

"""What is said of two variants' scores, beside formulas written out."""

import numpy as np
import pytest
from result_rows import row, rows

from keras_synth.compare import tasks
from keras_synth.compare.differences import (
    difference,
    differences,
    in_words,
    pairs,
)
from keras_synth.compare.groups import groups
from keras_synth.compare.objectives.objective import Score

pytestmark = pytest.mark.once  # nothing here depends on the backend

ACCURACY = tasks.TASKS["pairs"].objective.score
PERPLEXITY = Score("perplexity", "perplexity", higher_is_better=False)
# Student's t, 97.5%, by degrees of freedom: from a printed table.
T = {2: 4.302653, 4: 2.776445}


def said(one, two, score=ACCURACY):
    return in_words(difference(("V", "R"), (one, two)), score)


def test_runs_of_the_same_seeds_are_paired():
    one, two = {0: 0.9, 1: 0.92, 2: 0.97}, {2: 0.95, 1: 0.91, 0: 0.87}
    found = difference(("V", "R"), (one, two))
    gaps = np.array([0.03, 0.01, 0.02])
    reach = T[2] * gaps.std(ddof=1) / np.sqrt(3)
    assert found.paired
    assert found.mean == pytest.approx(0.02)
    assert found.interval == pytest.approx((0.02 - reach, 0.02 + reach))


def test_runs_of_other_seeds_are_not():
    """Of equal variances and counts, Welch's t has 2 n - 2 degrees."""
    one, two = {0: 1.0, 1: 2.0, 2: 3.0}, {3: 5.0, 4: 6.0, 5: 7.0}
    found = difference(("V", "R"), (one, two))
    reach = T[4] * np.sqrt(1 / 3 + 1 / 3)
    assert not found.paired
    assert found.interval == pytest.approx((-4 - reach, -4 + reach))


def test_figures_and_conclusion_are_in_words():
    one = {0: 0.9, 1: 0.92, 2: 0.97}
    two = {0: 0.87, 1: 0.91, 2: 0.95}
    assert said(one, two) == (
        "V - R = 2.00 percentage points, 95% interval -0.48 to 4.48, 3 seeds",
        "no difference shown",
    )
    two = {0: 0.8, 1: 0.83, 2: 0.87}
    figures, conclusion = said(one, two)
    assert figures.startswith("V - R = 9.67 percentage points, 95% interval ")
    assert conclusion == "V is better"
    assert said(two, one)[1] == "R is better"


def test_lower_may_be_better():
    one, two = {0: 9.0, 1: 9.1, 2: 9.2}, {0: 11.0, 1: 11.2, 2: 11.1}
    figures, conclusion = said(one, two, PERPLEXITY)
    assert figures.startswith("V - R = -2.00 perplexity, ")
    assert conclusion == "V is better"


@pytest.mark.parametrize(
    ("one", "two", "words"),
    [
        ({0: 0.9}, {0: 0.8}, "one seed each: nothing can be said"),
        ({0: 0.9}, {1: 0.8}, "one seed each: nothing can be said"),
        ({0: 0.9}, {0: 0.8, 1: 0.7}, "one seed of V: nothing can be said"),
        ({0: 0.9, 1: 0.8}, {0: 0.8}, "one seed of R: nothing can be said"),
        ({0: 0.9, 1: 0.8}, {0: 0.8, 1: 0.7}, "the same for all seeds"),
        ({0: 0.5, 1: 0.5}, {2: 0.5, 3: 0.5}, "the same for all seeds"),
        ({0: 0.9, 1: float("nan")}, {0: 0.8, 1: 0.7}, "score of V is not a"),
        ({0: 0.9, 1: 0.8}, {0: float("inf"), 1: 0.7}, "score of R is not a"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_where_there_is_no_interval_the_reason_is_said(one, two, words):
    found = difference(("V", "R"), (one, two))
    assert found.interval is None
    assert not found.shown
    figures, conclusion = in_words(found, ACCURACY)
    assert words in conclusion
    assert "interval" not in figures
    assert "nan" not in figures


def test_counts_that_differ_are_both_said():
    figures, _ = said({0: 0.5, 1: 0.6}, {0: 0.5, 1: 0.7, 2: 0.6})
    assert figures.endswith("2 and 3 seeds")


@pytest.mark.parametrize("paired", [True, False])
def test_five_in_a_hundred_intervals_miss_zero_where_nothing_differs(paired):
    draw = np.random.default_rng(0).normal(size=(500, 2, 5))
    seeds = range(5), range(0 if paired else 5, 5 if paired else 10)
    shown = 0
    for one, two in draw:
        scores = (
            dict(zip(seeds[0], one, strict=True)),
            dict(zip(seeds[1], two, strict=True)),
        )
        shown += difference(("V", "R"), scores).shown
    assert 0.02 < shown / len(draw) < 0.08


def test_few_variants_are_all_compared_and_many_with_v_alone():
    assert pairs(["R", "V"]) == [("V", "R")]
    assert len(pairs(["R", "D", "V", "FR"])) == 6
    found = pairs(["R", "D", "V", "FR", "FD"])
    assert found == [(x, "V") for x in ("R", "D", "FR", "FD")]
    assert pairs(["R", "D", "X", "FR", "FD"])[0] == ("D", "R")
    assert pairs(["R"]) == []


def test_backends_and_heads_are_not_mixed():
    found = rows({"V": [0.9, 0.8], "R": [0.7, 0.8]})
    found += [row("R", backend="jax"), row("V", backend="jax")]
    more = row("R")
    more["key"]["num_heads"] = 4
    compared = differences(groups([*found, more]))
    assert {x: len(y) for x, y in compared.items()} == {
        (2, "torch"): 1,
        (2, "jax"): 1,
        (4, "torch"): 0,
    }
    assert compared[2, "torch"][0].counts == (2, 2)

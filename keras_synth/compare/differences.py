"""Whether variants differ by more than their seeds do."""

import itertools
import math
from typing import NamedTuple

import numpy as np

CONFIDENCE = 0.95
ALL_PAIRS = 4  # variants; of more, each is compared with the reference alone
REFERENCE = "V"


class Difference(NamedTuple):
    """The mean score of one variant less that of another.

    Attributes:
        names: The two variants.
        counts: The seeds of each.
        mean: The difference of the means, in the score's own unit.
        interval: Its confidence interval, or `None` where there is none.
        paired: Whether the seeds are the same, and compared one by one.
        why: Why there is no interval.
    """

    names: tuple
    counts: tuple
    mean: float
    interval: tuple | None
    paired: bool
    why: str = ""

    @property
    def shown(self):
        """Whether the interval leaves out zero."""
        return self.interval is not None and (
            self.interval[0] > 0 or self.interval[1] < 0
        )


def difference(names, scores):
    """Compares the scores of two variants.

    With the same seeds, runs are paired: the interval is Student's, of the
    mean of the differences. With others it is Welch's, of two means with
    variances of their own.

    Args:
        names: The two variants, strings.
        scores: For each a dictionary, seed -> score.

    Returns:
        `Difference`.
    """
    paired = {*scores[0]} == {*scores[1]}
    seeds = sorted(scores[0]) if paired else None
    one, two = (np.array([x[s] for s in seeds or x], "float64") for x in scores)
    counts = len(one), len(two)
    gap = float(one.mean() - two.mean())
    why = _why_not(names, one, two, paired)
    interval = None if why else _interval(one, two, paired)
    return Difference(names, counts, gap, interval, paired, why)


def _why_not(names, one, two, paired):
    """Why no interval can be computed, or nothing."""
    for name, values in zip(names, (one, two), strict=True):
        if not np.isfinite(values).all():
            return f"a score of {name} is not a number: nothing can be said"
    single = [
        name
        for name, values in zip(names, (one, two), strict=True)
        if len(values) == 1
    ]
    if len(single) == 2:
        return "one seed each: nothing can be said about chance"
    if single:
        return f"one seed of {single[0]}: nothing can be said about chance"
    spreads = [np.ptp(one - two)] if paired else [np.ptp(one), np.ptp(two)]
    if max(spreads) <= 1e-12 * max(1.0, np.abs(one).max()):
        return "the same for all seeds, which leaves no spread to judge it by"
    return ""


def _interval(one, two, paired):
    from scipy import stats  # commands start faster

    if paired:
        test = stats.ttest_rel(one, two)
    else:
        test = stats.ttest_ind(one, two, equal_var=False)
    low, high = test.confidence_interval(CONFIDENCE)
    return float(low), float(high)


def differences(grouped):
    """Compares the variants of equal heads on one backend.

    Args:
        grouped: What `groups.groups` returned.

    Returns:
        Dictionary: `(num_heads, backend)` -> list of `Difference`, of all
        pairs of up to four variants; of more, each less the reference, which
        is V or else the first.
    """
    scores = {}
    for (variant, heads, backend), rows in grouped.items():
        found = {row["key"]["seed"]: row["score"] for row in rows}
        scores.setdefault((heads, backend), {})[variant] = found
    return {
        shared: [
            difference(names, [by_variant[name] for name in names])
            for names in pairs([*by_variant])
        ]
        for shared, by_variant in scores.items()
    }


def pairs(variants):
    """The pairs of variants to compare, the reference first or second."""
    reference = REFERENCE if REFERENCE in variants else variants[0]
    others = [x for x in variants if x != reference]
    if len(variants) <= ALL_PAIRS:
        return [*itertools.combinations([reference, *others], 2)]
    return [(name, reference) for name in others]


def in_words(found, score):
    """A `Difference` in words.

    Args:
        found: `Difference`.
        score: `Score` of the results.

    Returns:
        Tuple of two strings: `"V - R = 1.40 percentage points, 95% interval
        0.90 to 1.90, 3 seeds"`, and what follows: `"V is better"`.
    """
    one, two = found.names
    if not math.isfinite(found.mean):
        return f"{one} - {two}", found.why
    unit = "percentage points" if score.unit == "%" else score.name
    words = [f"{one} - {two} = {score.show(found.mean)} {unit}"]
    if found.interval is not None:
        low, high = map(score.show, found.interval)
        words.append(f"{CONFIDENCE:.0%} interval {low} to {high}")
    words.append(_seeds(found.counts))
    conclusion = found.why or "no difference shown"
    if found.shown:
        ahead = one if (found.mean > 0) == score.higher_is_better else two
        conclusion = f"{ahead} is better"
    return ", ".join(words), conclusion


def _seeds(counts):
    if counts[0] != counts[1]:
        return f"{counts[0]} and {counts[1]} seeds"
    return f"{counts[0]} seed{'s' * (counts[0] > 1)}"

"""Results by what they share: the runs that differ in their seeds alone."""

import math
import statistics


def groups(rows):
    """Rows that differ in their seeds alone, by all that they share.

    Args:
        rows: List of results.

    Returns:
        Dictionary: `(variant, num_heads, backend)` -> list of rows.
    """
    found = {}
    for row in rows:
        key = row["key"]
        shared = key["variant"], key["num_heads"], key["backend"]
        found.setdefault(shared, []).append(row)
    return found


def labels(grouped):
    """What tells each group from the others: no more than it takes."""
    several = [len({*names}) > 1 for names in zip(*grouped, strict=True)]
    found = {}
    for key in grouped:
        variant, heads, backend = key
        parts = [variant]
        parts += [f"{heads} heads"] * several[1]
        parts += [backend] * several[2]
        found[key] = ", ".join(parts)
    return found


def best(grouped, count, score):
    """The groups that did best on what is validated on, in their order.

    Args:
        grouped: What `groups` returned.
        count: Integer, the most groups.
        score: `Score` of the epochs.

    Returns:
        Dictionary like `grouped`.
    """

    def last(item):
        value = score_of_last_epoch(item[1])
        value = value if score.higher_is_better else -value
        return value if math.isfinite(value) else -math.inf

    kept = dict(sorted(grouped.items(), key=last, reverse=True)[:count])
    return {key: group for key, group in grouped.items() if key in kept}


def score_of_last_epoch(group):
    """The mean of what the last epochs scored on validation."""
    return statistics.fmean(row["validation_scores"][-1] for row in group)


def mean(group, name):
    """The mean of a figure over the rows that have it, or `None`."""
    values = [row[name] for row in group if row.get(name) is not None]
    return statistics.fmean(values) if values else None


def spread(score, rows):
    """The mean of some seeds' scores, and half of their range."""
    values = [row["score"] for row in rows]
    middle = score.show(statistics.fmean(values))
    if len(values) == 1:
        return middle
    return f"{middle} ±{score.show((max(values) - min(values)) / 2)}"

"""How far backends agree."""

import itertools
import statistics

from keras_synth.compare.html.markup import element, table
from keras_synth.compare.html.sections.parts import section, telling

AGREEMENTS = 60  # lines of the backends' table


def agreement(comparison):
    """Whether backends give the same, run by run."""
    found = [
        _agreement(comparison, *pair)
        for pair in _on_two_backends(comparison.grouped)
    ]
    if not found:
        return ""
    headings = telling(found)
    rows = [[row[x] for x in headings] for row in found[:AGREEMENTS]]
    text = (
        "The same variant and seed starts from the same weights and reads the "
        "same batches on each backend. "
    )
    text += (
        "Dropout, which each backend draws for itself, sets them apart from "
        "the first step on."
        if comparison.settings.get("dropout")
        else "Without dropout the first losses agree but for rounding, which "
        "grows from step to step."
    )
    notes = []
    if len(found) > AGREEMENTS:
        notes.append(f"{AGREEMENTS} of {len(found):,} lines are shown.")
    return section(
        "How far backends agree",
        element("p", text),
        table(headings, rows, class_="results sortable"),
        *(element("p", x, class_="note") for x in notes),
    )


def _agreement(comparison, one, two, pairs):
    """A row of the backends' table: heading -> cell."""
    score, (variant, heads, first) = comparison.score, one
    starts = [abs(a["losses"][0] - b["losses"][0]) for a, b in pairs]
    gaps = [a["score"] - b["score"] for a, b in pairs]
    middle, largest = statistics.fmean(gaps), max(map(abs, gaps))
    unit = score.unit or score.heading
    return {
        "variant": variant,
        "heads": (heads, heads),
        "backends": f"{first}, {two[2]}",
        "seeds": (len(pairs), len(pairs)),
        "loss of step 1, largest gap": (f"{max(starts):.5f}", max(starts)),
        f"test, mean of first - second, {unit}": (score.show(middle), middle),
        f"test, largest gap, {unit}": (score.show(largest), largest),
    }


def _on_two_backends(grouped):
    """Groups that differ in their backends alone, and their runs by seed."""
    alike = {}
    for key in grouped:
        alike.setdefault(key[:2], []).append(key)
    for keys in alike.values():
        for one, two in itertools.combinations(keys, 2):
            by_seed = {row["key"]["seed"]: row for row in grouped[two]}
            pairs = [
                (row, by_seed[row["key"]["seed"]])
                for row in grouped[one]
                if row["key"]["seed"] in by_seed
            ]
            if pairs:
                yield one, two, pairs

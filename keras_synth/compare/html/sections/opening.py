"""Title and summary: what was compared, and what came of it."""

import math
import statistics

from keras_synth.compare.groups import spread
from keras_synth.compare.html.markup import element, joined
from keras_synth.compare.html.sections.parts import counted

MOST_NAMES = 6  # in a title


def title(comparison):
    """What was compared."""
    variants = comparison.values("variant")
    names = ", ".join(variants[:MOST_NAMES])
    if len(variants) > MOST_NAMES:
        names += f" and {len(variants) - MOST_NAMES:,} more"
    return f"{names} on {comparison.settings['task']}"


def summary(comparison):
    """What was compared, and what came of it."""
    score, task = comparison.score, comparison.settings["task"]
    heads = comparison.values("num_heads")
    words = ", ".join(
        (
            counted(len(comparison.values("variant")), "variant"),
            f"{' or '.join(map(str, heads[:MOST_NAMES]))} heads",
            counted(len(comparison.values("backend")), "backend"),
            counted(len(comparison.values("seed")), "seed"),
        )
    )
    runs = counted(len(comparison.rows), "run")
    first = (
        f"{runs} on the task {task}: {words}. The figure that counts is "
        f"{score.name} on the test examples after the last epoch; "
        f"{'higher' if score.higher_is_better else 'lower'} is better."
    )
    return joined(element("p", first), element("p", _outcome(comparison)))


def _outcome(comparison):
    """The best line of the table, and how many differences are shown."""
    score = comparison.score

    def value(item):
        found = statistics.fmean(row["score"] for row in item[1])
        found = found if score.higher_is_better else -found
        return found if math.isfinite(found) else -math.inf

    key, group = max(comparison.grouped.items(), key=value)
    words = (
        f"{'Best' if len(comparison.grouped) > 1 else 'Result'}: "
        f"{comparison.labels[key]}, {spread(score, group)}{score.unit} "
        f"({counted(len(group), 'seed')}). "
    )
    found = [x for y in comparison.compared.values() for x in y]
    judged = [x for x in found if x.interval is not None]
    if judged:
        count = sum(x.shown for x in judged)
        return words + (
            f"Of {counted(len(judged), 'difference')} between variants, "
            f"{count or 'none'} "
            f"{'is' if count == 1 else 'are'} larger than chance explains."
        )
    if found:
        words += "With these seeds nothing can be said about differences."
    return words

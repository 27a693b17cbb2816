"""Which differences are larger than chance."""

from keras_synth.compare.differences import ALL_PAIRS, CONFIDENCE, in_words
from keras_synth.compare.html import charts
from keras_synth.compare.html.markup import element
from keras_synth.compare.html.sections.parts import figure, legend, section

POINTS = 16  # lines in the chart of seeds
SENTENCES = 60  # on differences


def chance(comparison):
    """Each seed, and differences with their intervals."""
    lines = comparison.lines(POINTS)
    found = comparison.compared
    chart = figure(charts.seeds(lines, comparison.score))
    words = element("div", *_comparisons(comparison, found))
    return section(
        "Which differences are larger than chance",
        legend(comparison, lines),
        element("div", chart, words, class_="figures"),
        comparison.note(POINTS, "The chart"),
        element("p", _method(comparison), class_="note"),
    )


def _comparisons(comparison, found):
    """Lists of differences in words, for each number of heads and backend."""
    left = SENTENCES
    for (heads, backend), each in found.items():
        items = []
        for one in each[: max(left, 0)]:
            figures, conclusion = in_words(one, comparison.score)
            if one.shown:
                conclusion = element("strong", conclusion)
            items.append(element("li", figures, ": ", conclusion))
        left -= len(items)
        if items:
            yield element("h3", f"{heads} heads, {backend}")
            yield element("ul", *items)
    total = sum(map(len, found.values()))
    if total > SENTENCES:
        words = f"{SENTENCES} of {total:,} differences are listed."
        yield element("p", words, class_="note")
    if not total:
        yield element("p", "There is no second variant to compare with.")


def _method(comparison):
    """How differences are judged."""
    each = [x for group in comparison.compared.values() for x in group]
    ways = {
        True: "runs with the same seeds are paired (Student's t of their "
        "differences)",
        False: "where seeds differ, Welch's t is used",
    }
    used = {x.paired for x in each if x.interval is not None}
    if not each:
        return ""
    if not used:
        return "Runs of more seeds (--seeds 0 1 2) show how much is chance."
    words = (
        f"Intervals cover {CONFIDENCE:.0%}: "
        f"{'; '.join(ways[x] for x in ways if x in used)}. An interval "
        "that holds zero shows no difference, which is not to show that there "
        "is none. Intervals are not widened for the number of comparisons: of "
        "20 without any difference, about one shows one. Seeds vary initial "
        "weights, batches and dropout, not the examples."
    )
    if len(comparison.values("variant")) > ALL_PAIRS:
        words += " Each variant is compared with the same one, not with all."
    return words

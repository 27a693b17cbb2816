"""The table of results."""

from keras_synth.compare.groups import (
    best,
    mean,
    score_of_last_epoch,
    spread,
)
from keras_synth.compare.html import charts
from keras_synth.compare.html.markup import element, joined, table
from keras_synth.compare.html.names import explained
from keras_synth.compare.html.sections.parts import section, telling

LINES = 500  # of the results' table


def results(comparison):
    """The table."""
    score, epochs = comparison.score, comparison.task.objective.epoch_score
    chosen = best(comparison.grouped, LINES, epochs)
    rows = [_result(comparison, key, group) for key, group in chosen.items()]
    headings = telling(rows)
    made = table(
        headings,
        [[row[x] for x in headings] for row in rows],
        class_="results sortable",
    )
    notes = [
        "Press a heading to sort. ± is half of the range of the seeds. "
        "Speed and memory are means over the seeds, of the machine that each "
        "run was on; peak memory is of the whole process. Multiplications are "
        "of one sample."
    ]
    if "paper" in headings:
        notes.append("Paper: Tay et al., 2021.")
    signatures = {
        x["signature"]: 0 for x in comparison.rows if "signature" in x
    }
    notes += [f"Scored by {x}." for x in signatures]
    return section(
        f"What each variant scores on the test: {charts.named(score)}",
        made,
        comparison.note(LINES, "The table"),
        element("p", " ".join(notes), class_="note"),
        _names(comparison),
    )


def _result(comparison, key, group):
    """A row of the table: heading -> cell."""
    score, epochs = comparison.score, comparison.task.objective.epoch_score
    variant, heads, backend = key
    speed, memory = (
        mean(group, "steps_per_second"),
        mean(group, "peak_memory_bytes"),
    )
    counted = group[0].get("multiplications")
    last = score_of_last_epoch(group)
    paper = comparison.task.paper.get(variant)
    return {
        "variant": variant,
        "heads": (heads, heads),
        "backend": backend,
        "seeds": (len(group), len(group)),
        f"test, {score.unit or score.heading}": (
            spread(score, group),
            mean(group, "score"),
        ),
        f"validation, {epochs.unit or epochs.heading}": (
            epochs.show(last),
            last,
        ),
        "steps per s": _cell(speed, ".2f"),
        "training, s": _cell(mean(group, "train_seconds"), ".0f"),
        "peak memory, MiB": _cell(memory and memory / 2**20, ".0f"),
        "weights, millions": _cell(group[0]["parameters"] / 1e6, ".3g"),
        "multiplications, millions": _cell(counted and counted / 1e6, ".3g"),
        "paper": ("" if paper is None else paper, paper),
    }


def _cell(value, style):
    """A cell: as it is shown, and the number."""
    if value is None:
        return "-", ""
    shown = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:{style}}"
    return shown, value


def _names(comparison):
    """What the variants' names stand for."""
    found = [
        (name, words)
        for name, words in explained(comparison.values("variant"))
        if words
    ]
    if not found:
        return ""
    lines = [
        element("li", element("strong", name), f": {words}")
        for name, words in found
    ]
    return joined(
        element("h3", "What the names stand for"), element("ul", *lines)
    )

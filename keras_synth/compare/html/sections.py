"""The sections of a report, for a reader who was not there."""

import datetime
import itertools
import math
import statistics
from typing import NamedTuple

from keras_synth.compare import repeating
from keras_synth.compare.differences import (
    ALL_PAIRS,
    CONFIDENCE,
    differences,
    in_words,
)
from keras_synth.compare.groups import (
    best,
    groups,
    labels,
    mean,
    score_of_last_epoch,
    spread,
)
from keras_synth.compare.html import charts
from keras_synth.compare.html.markup import element, joined, table
from keras_synth.compare.html.names import explained

CURVES = charts.SERIES  # lines in a chart
POINTS = 16  # lines in the chart of seeds
LINES = 500  # of the results' table
MOST_NAMES = 6  # in a title
SENTENCES = 60  # on differences
AGREEMENTS = 60  # lines of the backends' table
GLYPHS = dict(zip(charts.MARKERS, "●■▲◆▼★✖✚", strict=True))
DASHES = (  # of charts.DASHES and FILLS
    "full line, filled mark",
    "dashed line, hollow mark",
    "dotted line, left half filled",
    "dashed and dotted line, upper half filled",
)


class Comparison(NamedTuple):
    """Results of equal settings and data, as sections read them.

    Attributes:
        rows: List of results.
        task: `Task` of all of them.
        grouped: What `groups` returned for them.
        labels: Dictionary: keys of `grouped` -> what tells it from others.
        compared: What `differences` returned for them.
    """

    rows: list
    task: object
    grouped: dict
    labels: dict
    compared: dict

    @classmethod
    def of(cls, rows, task):
        """The comparison that results make."""
        grouped = groups(rows)
        named, compared = labels(grouped), differences(grouped)
        return cls(rows, task, grouped, named, compared)

    @property
    def settings(self):
        """Those of all runs."""
        return self.rows[0]["key"]["settings"]

    @property
    def score(self):
        """`Score` of the test."""
        return self.task.objective.score

    def values(self, name):
        """The different values of a key, in their order."""
        return [*dict.fromkeys(row["key"][name] for row in self.rows)]

    def lines(self, count):
        """At most so many lines for a chart, the best on validation."""
        chosen = best(self.grouped, count, self.task.objective.epoch_score)
        series = {}  # of a variant with so many heads: on any backend the same
        for variant, heads, _ in chosen:
            series.setdefault((variant, heads), len(series))
        backends = self.values("backend")
        return [
            charts.Line(
                self.labels[key],
                group,
                series[key[:2]],
                backends.index(key[2]),
            )
            for key, group in chosen.items()
        ]

    def note(self, count, what):
        """Says that not all lines of the table are shown, if so."""
        if len(self.grouped) <= count:
            return ""
        return element(
            "p",
            f"{what} shows {count} of {len(self.grouped):,} lines of the "
            "table, those with the best scores on validation.",
            class_="note",
        )


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
            _counted(len(comparison.values("variant")), "variant"),
            f"{' or '.join(map(str, heads[:MOST_NAMES]))} heads",
            _counted(len(comparison.values("backend")), "backend"),
            _counted(len(comparison.values("seed")), "seed"),
        )
    )
    runs = _counted(len(comparison.rows), "run")
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
        f"({_counted(len(group), 'seed')}). "
    )
    found = [x for y in comparison.compared.values() for x in y]
    judged = [x for x in found if x.interval is not None]
    if judged:
        count = sum(x.shown for x in judged)
        return words + (
            f"Of {_counted(len(judged), 'difference')} between variants, "
            f"{count or 'none'} "
            f"{'is' if count == 1 else 'are'} larger than chance explains."
        )
    if found:
        words += "With these seeds nothing can be said about differences."
    return words


def results(comparison):
    """The table."""
    score, epochs = comparison.score, comparison.task.objective.epoch_score
    chosen = best(comparison.grouped, LINES, epochs)
    rows = [_result(comparison, key, group) for key, group in chosen.items()]
    headings = _telling(rows)
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
    return _section(
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
        "steps per s": _figure(speed, ".2f"),
        "training, s": _figure(mean(group, "train_seconds"), ".0f"),
        "peak memory, MiB": _figure(memory and memory / 2**20, ".0f"),
        "weights, millions": _figure(group[0]["parameters"] / 1e6, ".3g"),
        "multiplications, millions": _figure(counted and counted / 1e6, ".3g"),
        "paper": ("" if paper is None else paper, paper),
    }


def _figure(value, style):
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


def chance(comparison):
    """Each seed, and differences with their intervals."""
    lines = comparison.lines(POINTS)
    found = comparison.compared
    chart = _chart(charts.seeds(lines, comparison.score))
    words = element("div", *_comparisons(comparison, found))
    return _section(
        "Which differences are larger than chance",
        _legend(comparison, lines),
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


def learning(comparison):
    """Learning curves over one another."""
    lines, epochs = (
        comparison.lines(CURVES),
        comparison.task.objective.epoch_score,
    )
    text = "Lines are means over the seeds, bands the range of the seeds."
    if max(map(len, comparison.grouped.values())) == 1:
        text = "Each line is one run."
    return _section(
        "How the runs learn, epoch by epoch",
        _figures(
            comparison,
            [
                charts.training_losses(lines),
                charts.validation_scores(lines, epochs),
            ],
            lines,
        ),
        element("p", text, class_="note"),
        comparison.note(CURVES, "Each chart"),
    )


def costs(comparison):
    """Score against speed and memory."""
    lines = comparison.lines(CURVES)
    made = charts.costs(lines, comparison.score)
    if not made:
        return ""
    text = (
        "Upper right is good and fast, upper left good and small. Compare "
        "speed and memory of runs on the same machine and backend alone."
    )
    if not comparison.score.higher_is_better:
        text = text.replace("Upper", "Lower").replace("upper", "lower")
    return _section(
        "What a score costs in time and memory",
        _figures(comparison, made, lines),
        element("p", text, class_="note"),
        comparison.note(CURVES, "Each chart"),
    )


def agreement(comparison):
    """Whether backends give the same, run by run."""
    found = [
        _agreement(comparison, *pair)
        for pair in _on_two_backends(comparison.grouped)
    ]
    if not found:
        return ""
    headings = _telling(found)
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
    return _section(
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


def _telling(rows):
    """The headings of a table, without those of columns that tell nothing."""
    same = {"heads", "backend"}
    return [
        name
        for name in rows[0]
        if not (name in same and len({str(row[name]) for row in rows}) == 1)
        and not (name == "paper" and not any(row[name][0] for row in rows))
    ]


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


def repetition(comparison):
    """The command, settings, versions and dates."""
    rows, task, settings = (
        comparison.rows,
        comparison.task,
        comparison.settings,
    )
    words = repeating.command(rows)
    notes = []
    if repeating.PLACEHOLDER in words:
        notes.append(
            f"{repeating.PLACEHOLDER} stands for {task.needs}, whose place "
            "these results do not say."
        )
    usual = repeating.changed(settings, task)
    names = [x for x in settings if x != "task"]
    every = [
        [name, _shown(settings[name]), "yes" if name in usual else ""]
        for name in sorted(names, key=lambda name: name not in usual)
    ]
    several = "" if len(usual) == 1 else "s"
    return _section(
        "How to repeat this",
        element("pre", element("code", repeating.in_lines(words))),
        *(element("p", x, class_="note") for x in notes),
        element("h3", "Versions and dates"),
        table(["of", "what the runs say"], _versions(rows)),
        element(
            "details",
            element(
                "summary",
                f"All settings; {len(usual)} setting{several} of {len(names)} "
                f"not as usual for the task {settings['task']}",
            ),
            table(["setting", "value", "changed"], every),
        ),
    )


def _versions(rows):
    """Rows of what ran, when, and on which data."""
    counted = {}
    for row in rows:
        versions = row.get("versions")
        for name, version in (
            versions.items() if isinstance(versions, dict) else ()
        ):
            found = counted.setdefault(name, {})
            found[str(version)] = found.get(str(version), 0) + 1
    made = [
        [
            name,
            next(iter(found))
            if len(found) == 1
            else ", ".join(
                f"{version} ({_counted(count, 'run')})"
                for version, count in found.items()
            ),
        ]
        for name, found in counted.items()
    ]
    started = [
        row["started"]
        for row in rows
        if isinstance(row.get("started"), (int, float))
    ]
    if started:
        first, last = (_date(f(started)) for f in (min, max))
        made.append(["runs began", f"{first} to {last}, UTC"])
    total = sum(row["seconds"] for row in rows)
    made.append(["time of all runs", f"{total / 60:,.1f} minutes"])
    made.append(["digest of the data", rows[0]["key"]["data"]])
    callbacks = {repeating.options(row).get("callbacks") for row in rows}
    for name in callbacks - {None}:
        made.append(["callbacks", str(name)])
    return made


def _date(seconds):
    try:
        moment = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    except (OverflowError, OSError, ValueError):
        return "an unknown date"
    return f"{moment:%Y-%m-%d %H:%M}"


def _shown(value):
    if isinstance(value, list):
        return " ".join(map(str, value)) or "none"
    return "none" if value == "" else str(value)


def _section(heading, *content):
    return element("section", element("h2", heading), *content)


def _figures(comparison, made, lines):
    """Charts side by side, below what their marks stand for."""
    drawn = map(_chart, made)
    return joined(
        _legend(comparison, lines), element("div", *drawn, class_="figures")
    )


def _chart(chart):
    return element("figure", element("h3", chart.heading), chart.svg)


def _legend(comparison, lines):
    """Colours and marks of variants, and lines of backends."""
    backends, series = comparison.values("backend"), {}
    for line in lines:
        ending = f", {backends[line.dash]}" if len(backends) > 1 else ""
        series.setdefault(line.series, line.label.removesuffix(ending))
    items = []
    for number, label in series.items():
        mark = element(
            "span",
            GLYPHS[charts.MARKERS[number % charts.SERIES]],
            style=f"color: var(--series-{number % charts.SERIES})",
            aria_hidden="true",
        )
        items.append(element("li", mark, f" {label}"))
    if len(backends) > 1:
        for number in sorted({line.dash for line in lines}):
            dash = DASHES[number % len(DASHES)]
            items.append(element("li", f"{dash}: {backends[number]}"))
    return element("ul", *items, class_="legend")


def _counted(count, one, several=None):
    return f"{count:,} {one if count == 1 else several or f'{one}s'}"


SECTIONS = (results, chance, learning, costs, agreement, repetition)

"""Charts as SVG that takes its colours from the page around it."""

import contextlib
import io
import re
from typing import NamedTuple

import numpy as np

from keras_synth.compare.groups import mean
from keras_synth.compare.html.markup import Html, element
from keras_synth.training.reporting import smoothed

SERIES = 8  # colours of the page
POINTS = 150  # of a curve, at most
SMOOTHING = 25  # steps that a point of the training loss is the mean of
MARKERS = "os^Dv*Xp"
DASHES = ("-", "--", ":", "-.")  # of backends, and how their marks are filled
FILLS = ("full", "none", "left", "top")
# Colours that stand for variables of the page's style sheet.
_INK, _RULE = "#0a0a0a", "#0b0b0b"
_SERIES = [f"#0c0c{number:02x}" for number in range(SERIES)]
_VARIABLES = {_INK: "var(--ink)", _RULE: "var(--rule)"} | {
    colour: f"var(--series-{number})" for number, colour in enumerate(_SERIES)
}
_STYLE = {
    "svg.fonttype": "none",  # letters of the reader's own fonts
    "text.parse_math": False,  # a name may hold a dollar sign
    "font.size": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    **dict.fromkeys(
        "text.color axes.labelcolor xtick.color ytick.color".split(), _INK
    ),
    **dict.fromkeys(("axes.edgecolor", "grid.color"), _RULE),
}


class Line(NamedTuple):
    """A line of the table, and how charts show it.

    Attributes:
        label: String, what tells it from the others.
        rows: List of results that differ in their seeds.
        series: Integer, its colour and its marker.
        dash: Integer, how its curves are drawn.
    """

    label: str
    rows: list
    series: int
    dash: int

    @property
    def style(self):
        """Matplotlib's names for its looks."""
        return {
            "color": _SERIES[self.series % SERIES],
            "marker": MARKERS[self.series % SERIES],
            "linestyle": DASHES[self.dash % len(DASHES)],
            "fillstyle": FILLS[self.dash % len(FILLS)],
        }


class Chart(NamedTuple):
    """A picture, and what it shows in a few words."""

    heading: str
    svg: Html


@contextlib.contextmanager
def _styled():
    import matplotlib  # commands start faster

    with matplotlib.rc_context(_STYLE):
        yield


@_styled()
def training_losses(lines):
    """Training loss over epochs: the mean of the seeds, and their range."""
    axes, words = _axes(), []
    steps = len(lines[0].rows[0]["losses"])
    window = min(SMOOTHING, max(1, steps // 8))
    for line in lines:
        curves = [
            smoothed(row["losses"], window, len(row["validation_scores"]))
            for row in line.rows
        ]
        places = min((x for x, _ in curves), key=len)
        words.append(_draw(axes, places, [y for _, y in curves], line))
    axes.set_xlabel("epochs")
    axes.set_ylabel(f"training loss, mean of {window} steps")
    axes.set_ylim(bottom=0)
    alternative = f"Training loss over epochs: {'; '.join(words)}."
    return Chart("Loss in training", _svg(axes, alternative))


@_styled()
def validation_scores(lines, score):
    """The score of each epoch on validation: mean and range of the seeds."""
    axes, words = _axes(), []
    for line in lines:
        scores = [
            np.multiply(row["validation_scores"], score.scale)
            for row in line.rows
        ]
        places = 1 + np.arange(min(map(len, scores)))
        words.append(_draw(axes, places, scores, line, len(places) <= 30))
    axes.set_xlabel("epochs")
    axes.set_ylabel(f"validation {named(score)}")
    axes.xaxis.get_major_locator().set_params(integer=True)
    alternative = f"Validation {score.name} over epochs: {'; '.join(words)}."
    return Chart(
        "Score on validation after each epoch", _svg(axes, alternative)
    )


@_styled()
def seeds(lines, score):
    """The test score of each seed, and the mean; the first line uppermost."""
    axes, words = _axes(height=0.9 + 0.34 * len(lines)), []
    for place, line in enumerate(lines):
        values = _finite([score.scale * row["score"] for row in line.rows])
        if np.isnan(values).all():
            words.append(f"{line.label} no number")
            continue
        low, middle, high = (
            f(values) for f in (np.nanmin, np.nanmean, np.nanmax)
        )
        style = {**line.style, "linestyle": "", "alpha": 0.8}
        axes.hlines(place, low, high, style["color"], alpha=0.5)
        axes.plot(values, np.full(len(values), place), **style)
        axes.vlines(middle, place - 0.3, place + 0.3, _INK, linewidth=1.5)
        words.append(f"{line.label} {middle:.2f}, from {low:.2f} to {high:.2f}")
    axes.set_yticks(range(len(lines)), [_cut(x.label) for x in lines])
    axes.set_ylim(len(lines) - 0.5, -0.5)
    axes.set_xlabel(f"test {named(score)}")
    alternative = f"Test {score.name}, mean and range: {'; '.join(words)}."
    return Chart(
        "Every seed is a point, a bar their mean", _svg(axes, alternative)
    )


def costs(lines, score):
    """Charts of the test score against speed, and against memory."""
    found = []
    for name, scale, label, heading in (
        ("steps_per_second", 1, "training steps per second", "Score and speed"),
        ("peak_memory_bytes", 2**-20, "peak memory, MiB", "Score and memory"),
    ):
        points = [
            (line, scale * mean(line.rows, name), mean(line.rows, "score"))
            for line in lines
            if mean(line.rows, name) is not None
        ]
        if points:
            found.append(Chart(heading, _scattered(points, label, score)))
    return found


@_styled()
def _scattered(points, label, score):
    axes, words = _axes(), []
    for line, cost, value in points:
        place = _finite([cost, score.scale * value])
        axes.plot(*place, markersize=8, **line.style)
        words.append(f"{line.label} {cost:.4g}, {place[1]:.2f}")
    axes.margins(0.1)
    axes.set_xlabel(label)
    axes.set_ylabel(f"test {named(score)}")
    alternative = f"{label}, and test {score.name}: {'; '.join(words)}."
    return _svg(axes, alternative)


def named(score):
    """A score's name and unit."""
    return f"{score.name}, {score.unit}" if score.unit else score.name


def _axes(width=5.4, height=3.4):
    from matplotlib import figure  # commands start faster

    made = figure.Figure(figsize=(width, height), layout="constrained")
    axes = made.subplots()
    axes.grid(alpha=0.6)
    axes.set_axisbelow(True)
    return axes


def _draw(axes, places, curves, line, markers=False):
    """Draws the mean of some seeds' curves, and their range.

    Args:
        axes: Matplotlib's axes.
        places: Array, where the points of the shortest curve are.
        curves: List of arrays.
        line: `Line`.
        markers: Boolean, whether points are marked.

    Returns:
        String, where the line begins and ends.
    """
    heights = _finite([curve[: len(places)] for curve in curves])
    middle = heights.mean(axis=0)
    rows = np.unique(np.linspace(0, len(places) - 1, POINTS).astype(int))
    style = line.style if markers else {**line.style, "marker": ""}
    axes.plot(places[rows], middle[rows], linewidth=1.6, markersize=4, **style)
    if len(heights) > 1:
        low, high = heights.min(axis=0), heights.max(axis=0)
        colour = style["color"]
        axes.fill_between(
            places[rows], low[rows], high[rows], color=colour, alpha=0.15, lw=0
        )
    return f"{line.label} from {middle[0]:.2f} to {middle[-1]:.2f}"


def _finite(values):
    """An array with gaps where there are no numbers."""
    values = np.array(values, "float64")
    return np.where(np.isfinite(values), values, np.nan)


def _svg(axes, alternative):
    """The figure as an element: no names of its own, colours of the page."""
    import matplotlib

    # What one picture calls its parts must be no name of another's.
    matplotlib.rcParams["svg.hashsalt"] = alternative
    written = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    axes.figure.savefig(
        written, format="svg", transparent=True, metadata=nothing
    )
    text = written.getvalue()
    text = text[text.index("<svg") :]
    # The page's style sheet says the same once.
    for needless in (
        r' xmlns(?::\w+)?="[^"]*"',
        r"<style.*?</style>\s*",
        r'(?<=<g) id="[^"]*"',
        r"(?<=px); font-family: [^;]*(?=;)",
        r"(?<=\d\.\d\d)\d+(?=[ \n])",
    ):
        text = re.sub(needless, "", text, flags=re.DOTALL)
    text = re.sub(
        r'(?<=[ :])#0[a-c]0[a-c][0-9a-f]{2}(?=[;"])',
        lambda found: _VARIABLES.get(found[0], found[0]),
        text,
    )
    start = element("svg", role="img", aria_label=alternative)
    return Html(text.replace("<svg", start.removesuffix("></svg>"), 1))


def _cut(label, most=28):
    return label if len(label) <= most else f"{label[: most - 1]}…"

"""Draws charts of records with Matplotlib: SVG files for light and dark pages.

A chart is a list of panels, dictionaries that JSON can hold: `kind`, a function
of `KINDS`, `title`, and what that function reads. The file's description has
the panels, so that a chart can be compared with the records without its pixels.
"""

import io
import json
from xml.etree import ElementTree

import matplotlib
from matplotlib import figure, ticker

WIDTH, ROW, SIZE = 4.4, 0.24, 9.5  # inches, inches a row, points of text
PALETTES = {
    "light": ("#1f2328", "#656d76", "#d8dee4", "#0b62c4 #b54a00 #1a7f37"),
    "dark": ("#e6e8eb", "#a0a6ae", "#4a505c", "#79b8ff #ffab70 #7ee787"),
}
SHAPES = "os^"
SETTINGS = {
    "svg.fonttype": "none",  # text is text
    "svg.hashsalt": "keras_synth",  # the same names of parts each time
    "font.family": "sans-serif",
    "font.size": SIZE,
}
DESCRIPTION = ".//{http://purl.org/dc/elements/1.1/}description"


def svg(panels, palette):
    """Returns a chart as the text of an SVG file.

    Args:
        panels: List of dictionaries, from top to bottom.
        palette: `"light"` or `"dark"`.
    """
    with matplotlib.rc_context(SETTINGS):
        drawn, file = draw(panels, palette), io.StringIO()
        about = {"Date": None, "Description": json.dumps(panels)}
        drawn.savefig(file, format="svg", transparent=True, metadata=about)
    return "\n".join(x.rstrip() for x in file.getvalue().splitlines()) + "\n"


def panels_of(text):
    """Returns the panels that an SVG file shows."""
    return json.loads(ElementTree.fromstring(text).find(DESCRIPTION).text)


def draw(panels, palette):
    """Returns the figure of a chart."""
    heights = [height(panel) for panel in panels]
    drawn = figure.Figure((WIDTH, sum(heights)), layout="constrained")
    column = drawn.subfigures(len(panels), height_ratios=heights, squeeze=False)
    ink, muted, grid, colors = PALETTES[palette]
    for part, panel in zip(column.flat, panels, strict=True):
        axes = part.subplots()
        axes.spines[:].set_visible(False)
        axes.grid(axis="x" if panel["kind"] == "dots" else "both", color=grid)
        axes.set_axisbelow(True)
        axes.tick_params(which="both", length=0, colors=muted, labelsize=SIZE)
        axes.set_facecolor("none")
        axes.set_title(
            panel["title"],
            loc="left",
            color=ink,
            weight="bold",
            size=SIZE,
            pad=2 * SIZE + 4 if len(panel.get("series", ())) > 1 else 5,
        )
        for name in "xy":
            if name in panel:
                _scale(axes, name, panel[name], muted)
        KINDS[panel["kind"]](axes, panel, ink, muted, colors.split())
    return drawn


def _scale(axes, name, options, color):
    axis = getattr(axes, f"{name}axis")
    if "log" in options:  # its base
        axes.set(**{f"{name}scale": "log"})
        axis.set_major_locator(ticker.LogLocator(options["log"]))
        axis.set_minor_locator(ticker.NullLocator())
    else:
        most = options.get("ticks", 4)
        steps = ticker.MaxNLocator(most, steps=[1, 2, 5, 10])
        axis.set_major_locator(steps)
    axis.set_major_formatter(lambda x, place: f"{x:,g}")
    axes.margins(**{name: 0.08})
    if "range" in options:
        axes.set(**{f"{name}lim": options["range"]})
    axis.set_label_text(options.get("title", ""), color=color)


def dots(axes, panel, ink, muted, colors):
    """Rows of marks: `rows` are `[label, values of each of series, end]`."""
    for place, (_, series, end) in enumerate(panel["rows"]):
        for values, color, shape in zip(series, colors, SHAPES, strict=False):
            several = len(values) > 1
            places = [place] * len(values)
            alpha = 0.65 if several else 1
            axes.plot(values, places, shape, color=color, ms=7, alpha=alpha)
            if several:
                mean = sum(values) / len(values)
                axes.plot(mean, place, "|", color=ink, ms=13, mew=2)
        where = ("axes fraction", "data")
        axes.annotate(
            end, (1.02, place), xycoords=where, va="center", color=ink
        )
    axes.set_yticks(range(len(panel["rows"])), [x[0] for x in panel["rows"]])
    axes.tick_params(axis="y", labelcolor=ink)
    axes.set_ylim(len(panel["rows"]) - 0.4, -0.6)
    if "reference" in panel:
        axes.axvline(panel["reference"], color=muted, ls="--", zorder=1)
    if len(panel["series"]) > 1:
        for name, color, shape in zip(
            panel["series"], colors, SHAPES, strict=False
        ):
            axes.plot([], [], shape, color=color, ms=7, label=name)
        axes.legend(
            loc="lower left",
            bbox_to_anchor=(-0.05, 1),
            borderaxespad=0,
            ncols=3,
            frameon=False,
            labelcolor="linecolor",
            handletextpad=0,
            columnspacing=1,
        )


def curves(axes, panel, ink, muted, colors):
    """Lines `name: [[x, y], ...]`."""
    for number, (name, points) in enumerate(panel["lines"].items()):
        color, dashed = colors[number % 3], "--" if number > 2 else "-"
        x, y = zip(*points, strict=True)
        style = {"marker": "o", "ms": 4, "lw": 1.8, "color": color}
        axes.plot(x, y, dashed, label=name, **style)
    place = {"loc": "upper left", "bbox_to_anchor": (1, 1)}
    axes.legend(frameon=False, labelcolor="linecolor", **place)


KINDS = {"dots": dots, "curves": curves}


def height(panel):
    """The height of a panel, in inches."""
    if panel["kind"] == "curves":
        return 3.4
    lines = 2 * (len(panel["series"]) > 1) + ("title" in panel["x"])
    return ROW * (len(panel["rows"]) + 4 + lines)

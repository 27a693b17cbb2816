"""Draws charts of records as SVG, one file for each palette.

Text is text and coordinates are rounded: the same records give the same bytes
on every machine, with nothing but Python.
"""

import html
import math

WIDTH, ROW, LEFT, RIGHT = 420, 24, 142, 48  # in pixels; a row's height is ROW
SIZE = 13  # of text; still legible on a phone, 340 pixels wide
PALETTES = {
    "light": ("#1f2328", "#656d76", "#d8dee4", "#0b62c4 #b54a00 #1a7f37"),
    "dark": ("#e6e8eb", "#a0a6ae", "#4a505c", "#79b8ff #ffab70 #7ee787"),
}
TOP = 54  # of axes, in pixels
LARGEST = 13  # radius of a chart's largest disc
FARTHER = 4  # pixels² that a name may cover to be a pixel nearer to its disc
SHAPES = ("circle", "square", "triangle")


class Canvas:
    """Lines of an SVG, in the colours of a palette."""

    def __init__(self, palette):
        self.ink, self.muted, self.grid, series = PALETTES[palette]
        self.series = series.split()
        self.lines = []

    def text(self, x, y, said, anchor="start", color=None, bold=False):
        weight = ' font-weight="600"' if bold else ""
        self.lines.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" '
            f'fill="{color or self.ink}"{weight}>{html.escape(said)}</text>'
        )

    def line(self, points, color, width=1, dash=None):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self.lines.append(
            f'<polyline points="{path}" fill="none" stroke="{color}" '
            f'stroke-width="{width}"{dashed}/>'
        )

    def disc(self, x, y, radius, color):
        self.lines.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" '
            f'fill="{color}" fill-opacity="0.45" stroke="{color}"/>'
        )

    def mark(self, x, y, shape, color, opacity=1.0):
        style = f'fill="{color}" fill-opacity="{opacity}"'
        if shape == "circle":
            shown = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" {style}/>'
        elif shape == "square":
            shown = (
                f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8" '
                f"{style}/>"
            )
        else:
            corners = [(x, y - 5.5), (x + 5.2, y + 4), (x - 5.2, y + 4)]
            path = " ".join(f"{a:.1f},{b:.1f}" for a, b in corners)
            shown = f'<polygon points="{path}" {style}/>'
        self.lines.append(shown)

    def svg(self, height, title):
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" '
                f'height="{height}" viewBox="0 0 {WIDTH} {height}" role="img" '
                'font-family="system-ui, -apple-system, Segoe UI, Roboto, '
                f'sans-serif" font-size="{SIZE}">',
                f"<title>{html.escape(title)}</title>",
                *self.lines,
                "</svg>\n",
            ]
        )


def scale(values, low, high, log):
    """A function from values to places between two others."""
    first, last = values
    form = math.log if log else float
    span = form(last) - form(first)
    return lambda x: low + (form(x) - form(first)) / span * (high - low)


def dots(title, panels, palette):
    """A chart of rows of marks.

    Args:
        title: String, for those who cannot see it.
        panels: List of dictionaries: `title`; `series`, names of the marks, or
            one without a legend; `rows`, `(label, one list of values for each
            series, text at the end or "")`; `ticks` and `range`; and, where
            wanted, `log`, `end`, what the texts at the end are, and
            `reference`, a value and what it says.
        palette: `"light"` or `"dark"`.
    """
    canvas, top = Canvas(palette), 0
    for panel in panels:
        top = _panel(canvas, panel, top)
    return canvas.svg(round(top), title)


def _panel(canvas, panel, top):
    x = scale(panel["range"], LEFT, WIDTH - RIGHT, panel.get("log", False))
    canvas.text(4, top + 18, panel["title"], bold=True)
    canvas.text(WIDTH - 4, top + 18, panel.get("end", ""), "end", canvas.muted)
    top += 26
    if len(panel["series"]) > 1:
        _legend(canvas, panel["series"], top + 12)
        top += 22
    if panel.get("reference"):
        value, said = panel["reference"]
        canvas.text(x(value), top + 13, said, "middle", canvas.muted)
        top += 18
    bottom = top + ROW * len(panel["rows"])
    for tick in panel["ticks"]:
        canvas.line([(x(tick), top), (x(tick), bottom)], canvas.grid)
        said = f"{tick:,g}"
        canvas.text(x(tick), bottom + 16, said, "middle", canvas.muted)
    if panel.get("reference"):
        at = x(panel["reference"][0])
        canvas.line([(at, top), (at, bottom)], canvas.muted, 1.5, "4 3")
    for place, (label, series, end) in enumerate(panel["rows"]):
        y = top + ROW * (place + 0.5)
        canvas.text(LEFT - 12, y + 4.5, label, "end")
        canvas.text(WIDTH - 4, y + 4.5, end, "end")
        for number, values in enumerate(series):
            if len(values) > 1:
                mean = x(sum(values) / len(values))
                canvas.line([(mean, y - 9), (mean, y + 9)], canvas.ink, 2)
            for value in values:
                color, shape = canvas.series[number], SHAPES[number]
                faint = 0.65 if len(values) > 1 else 1.0
                canvas.mark(x(value), y, shape, color, faint)
    return bottom + 34


def _legend(canvas, names, y):
    x = 10
    for number, name in enumerate(names):
        color = canvas.series[number]
        canvas.mark(x, y - 4, SHAPES[number], color)
        canvas.text(x + 10, y, name, color=color)
        x += 26 + 7.4 * len(name)


def _axes(canvas, panel, left, right, height, logarithmic=False):
    """Draws a title and two axes, the one of x logarithmic.

    Returns:
        `(x, y)`, functions from values to places.
    """
    bottom = height - 46
    x = scale(panel["x"]["range"], left, right, log=True)
    y = scale(panel["y"]["range"], bottom, TOP, log=logarithmic)
    canvas.text(4, 18, panel["title"], bold=True)
    canvas.text(4, 40, panel["y"]["title"], color=canvas.muted)
    for tick in panel["x"]["ticks"]:
        canvas.line([(x(tick), TOP), (x(tick), bottom)], canvas.grid)
        canvas.text(x(tick), bottom + 18, f"{tick:,g}", "middle", canvas.muted)
    for tick in panel["y"]["ticks"]:
        canvas.line([(left, y(tick)), (right, y(tick))], canvas.grid)
        said = f"{tick:,g}"
        canvas.text(left - 6, y(tick) + 4.5, said, "end", canvas.muted)
    said = panel["x"]["title"]
    canvas.text((left + right) / 2, height - 8, said, "middle", canvas.muted)
    return x, y


def costs(title, panel, palette):
    """A chart of discs: a score over the speed, their area the memory.

    Args:
        title: String, for those who cannot see it.
        panel: Dictionary: `title`; `discs`, name -> `(speed, score, memory)`;
            `area`, what the memory of the largest disc is called; `x` and `y`,
            dictionaries of `range`, `ticks` and `title`. The axis of speeds is
            logarithmic.
        palette: `"light"` or `"dark"`.
    """
    canvas, height, right = Canvas(palette), 460, WIDTH - 12
    x, y = _axes(canvas, panel, 40, right, height)
    canvas.text(right, 40, panel["area"], "end", canvas.muted)
    most = max(memory for *_, memory in panel["discs"].values())
    discs = {
        name: (x(speed), y(score), LARGEST * math.sqrt(memory / most))
        for name, (speed, score, memory) in panel["discs"].items()
    }
    for disc in discs.values():
        canvas.disc(*disc, canvas.series[0])
    for name, place in labels(discs, 42, right, TOP, height - 48).items():
        canvas.text(*place, name)
    return canvas.svg(height, title)


def labels(discs, left, right, top, bottom):
    """Where names of discs stand: near them, and over as little as can be.

    Args:
        discs: Dictionary, name -> `(x, y, radius)`.
        left, right, top, bottom: Floats, the sides of where they may stand.

    Returns:
        Dictionary, name -> `(x, y)`, the start of its baseline.
    """
    taken = [(x - r, y - r, x + r, y + r) for x, y, r in discs.values()]
    places = {}
    for name, (x, y, r) in sorted(discs.items(), key=lambda item: item[1][1]):
        wide = 0.55 * SIZE * len(name)
        boxes = [
            (away, (x0, y0, x0 + wide, y0 + SIZE))
            for away in range(2, 60, 4)
            for x0, y0 in (
                (x + r + away, y - SIZE / 2),
                (x - r - away - wide, y - SIZE / 2),
                (x - wide / 2, y - r - away - SIZE),
                (x - wide / 2, y + r + away),
                (x + r, y - r - away - SIZE / 2),
                (x + r, y + r + away - SIZE / 2),
            )
            if left <= x0 and x0 + wide <= right
            if top <= y0 and y0 + SIZE <= bottom
        ]
        _, box = min(
            boxes,
            key=lambda found: (
                FARTHER * found[0] + sum(_shared(found[1], x) for x in taken)
            ),
        )
        taken.append(box)
        places[name] = box[0], box[3] - 2.5
    return places


def _shared(one, two):
    """The area that two boxes `(left, top, right, bottom)` share."""
    across = min(one[2], two[2]) - max(one[0], two[0])
    down = min(one[3], two[3]) - max(one[1], two[1])
    return max(across, 0) * max(down, 0)


def curves(title, panel, palette):
    """A chart of lines over the length, each with its name at its end.

    Args:
        title: String, for those who cannot see it.
        panel: Dictionary: `title`; `lines`, name -> list of `(x, y)`; `x` and
            `y`, dictionaries of `range`, `ticks` and `title`. Both axes are
            logarithmic.
        palette: `"light"` or `"dark"`.
    """
    canvas, height, right = Canvas(palette), 330, WIDTH - 112
    x, y = _axes(canvas, panel, 52, right, height, logarithmic=True)
    ends = {}
    for number, (name, points) in enumerate(panel["lines"].items()):
        color = canvas.series[number % 3]
        places = [(x(a), y(b)) for a, b in points]
        dash = None if number < 3 else "6 4"
        canvas.line(places, color, 2.2, dash)
        for place in places:
            canvas.mark(*place, "circle", color)
        ends[name] = (places[-1], color)
    below = -math.inf
    for name, (place, color) in sorted(ends.items(), key=lambda x: x[1][0][1]):
        below = max(below + 17, place[1] + 4.5)
        canvas.text(max(place[0] + 10, 0), below, name, color=color, bold=True)
    return canvas.svg(height, title)

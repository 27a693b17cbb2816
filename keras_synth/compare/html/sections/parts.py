"""What sections are made of: figures, legends, headings of tables."""

from keras_synth.compare.html import charts
from keras_synth.compare.html.markup import element, joined

GLYPHS = dict(zip(charts.MARKERS, "●■▲◆▼★✖✚", strict=True))
DASHES = (  # of charts.DASHES and FILLS
    "full line, filled mark",
    "dashed line, hollow mark",
    "dotted line, left half filled",
    "dashed and dotted line, upper half filled",
)


def section(heading, *content):
    """A heading, and what stands below it."""
    return element("section", element("h2", heading), *content)


def figures(comparison, made, lines):
    """Charts side by side, below what their marks stand for."""
    drawn = map(figure, made)
    return joined(
        legend(comparison, lines), element("div", *drawn, class_="figures")
    )


def figure(chart):
    """A chart below its heading."""
    return element("figure", element("h3", chart.heading), chart.svg)


def legend(comparison, lines):
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


def telling(rows):
    """The headings of a table, without those of columns that tell nothing."""
    same = {"heads", "backend"}
    return [
        name
        for name in rows[0]
        if not (name in same and len({str(row[name]) for row in rows}) == 1)
        and not (name == "paper" and not any(row[name][0] for row in rows))
    ]


def counted(count, noun):
    """A number and a noun, as in `"2 runs"`."""
    return f"{count:,} {noun if count == 1 else f'{noun}s'}"

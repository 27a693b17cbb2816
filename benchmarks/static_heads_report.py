"""The `report` of static_heads.py: tables and the figure of docs/surgery.md."""

import csv
import pathlib

from keras_synth.compare.files import writing

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "docs" / "surgery"
PAGE = FOLDER.with_suffix(".md")
MARKS = "<!-- {} made by benchmarks/static_heads.py report -->"
# Of each way, in the order of the tables; readable on light and dark.
COLORS = {
    "R, by input dependence": "#1b86c9",
    "R, at random": "#d97706",
    "R, greedy": "#c2458f",
    "FR(rank=8), by input dependence": "#8a63d2",
    "D, by input dependence": "#2e9e6b",
    "R (averages), by input dependence": "#4b9e9e",
    "R (averages), at random": "#b58900",
}
MARKERS = [("as they are", "o", True), ("distilled", "D", False)]
INK = "#7a7f87"  # of text and axes, on either ground


def report(args):
    """Writes the tables into the page, and draws the figure beside it."""
    scores = _read(args.output / "scores.csv")
    speeds = _read(args.output / "speed.csv")
    page = PAGE.read_text(encoding="utf-8")
    for name, lines in {
        "scores": _score_table(scores),
        "speed": _speed_table(speeds),
    }.items():
        begin, end = MARKS.format(f"{name}:"), MARKS.format(f"end of {name},")
        before, _, rest = page.partition(begin)
        after = rest.partition(end)[2]
        text = "\n".join([begin, "", *lines, "", end])
        page = f"{before}{text}{after}"
    with writing(PAGE) as file:
        file.write(page)
    _draw(scores, speeds, args.output / "static_heads.svg")


def _read(path):
    with open(path, encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _way(row):
    by = row["by"]
    if by.startswith("random"):
        return f"{row['to']}, at random"
    return f"{row['to']}, " + ("greedy" if by == "greedy" else f"by {by}")


def _score_table(rows):
    """A line for each way, a column for each number of heads, on dev."""
    dev = [row for row in rows if row["split"] == "dev"]
    numbers = sorted({int(row["heads"]) for row in dev})
    lines = [f"| static heads of 72 | {' | '.join(map(str, numbers))} |"]
    lines.append("|---" * (len(numbers) + 1) + "|")
    for part in ("as they are", "distilled"):
        own = [row for row in dev if row["part"] == part and row["heads"] > "0"]
        for way in COLORS:
            cells = [
                _scores_of(own, way, number)
                or ("" if number or part == "distilled" else _teacher(dev))
                for number in numbers
            ]
            if any(_scores_of(own, way, n) for n in numbers):
                lines.append(f"| {way}, {part} | {' | '.join(cells)} |")
    return [*lines, "", *_trained(rows)]


def _scores_of(rows, way, number):
    found = [
        row["spearman"][:6]
        for row in rows
        if _way(row) == way and int(row["heads"]) == number
    ]
    return ", ".join(found)


def _teacher(rows):
    return next(row["spearman"] for row in rows if row["heads"] == "0")


def _trained(rows):
    """What was distilled, on dev and test, with the time that it took."""
    lines = ["| distilled | dev | test | steps | minutes, of a CPU's core |"]
    lines.append("|---|---|---|---|---|")
    models = {}
    for row in rows:
        if row["part"] == "distilled" or row["heads"] == "0":
            key = tuple(row[k] for k in ("heads", "to", "by", "steps"))
            models.setdefault(key, {})[row["split"]] = row
    for (heads, to, by, steps), found in models.items():
        name = f"{heads} heads as {to}, {by}" if steps != "0" else "the model"
        row = found["dev"]
        test = found.get("test", {}).get("spearman", "")
        cells = [name, row["spearman"], test, steps, row["cpu_minutes"]]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _speed_table(rows):
    """A line for each length, batch and model, a column for each backend."""
    backends = sorted({row["backend"] for row in rows})
    lines = [f"| T, B | model | bound | {' | '.join(backends)} |"]
    lines.append("|---" * (len(backends) + 3) + "|")
    found = {}
    for row in rows:
        key = int(row["length"]), int(row["batch"]), row["model"]
        found.setdefault(key, {})[row["backend"]] = row
    for (length, batch, model), own in found.items():
        bound = next(iter(own.values()))["bound"]
        cells = [own[b]["speed"] if b in own else "" for b in backends]
        if model != "V":
            shown = [f"{length}, {batch}", model, bound, *cells]
            lines.append(f"| {' | '.join(shown)} |")
    return lines


# --- the figure ---------------------------------------------------------------


def _draw(scores, speeds, path):
    import matplotlib
    from matplotlib import figure

    settings = {
        "svg.hashsalt": "static heads",  # the same names of parts each time
        "svg.fonttype": "none",
        "font.family": "sans-serif",
        "text.color": INK,
        "axes.labelcolor": INK,
        "axes.edgecolor": INK,
        "xtick.color": INK,
        "ytick.color": INK,
    }
    with matplotlib.rc_context(settings):
        picture = figure.Figure(figsize=(9, 7), layout="constrained")
        panels = picture.subplot_mosaic(
            [["curve", "half"], ["speed", "speed"]],
            width_ratios=[1.1, 1],
            height_ratios=[1.2, 1],
        )
        dev = [row for row in scores if row["split"] == "dev"]
        _draw_curve(panels["curve"], dev)
        _draw_half(panels["half"], dev)
        _draw_speeds(panels["speed"], speeds)
        for axes in panels.values():
            axes.patch.set_alpha(0)
            axes.spines[["top", "right"]].set_visible(False)
        with writing(path) as file:
            picture.savefig(
                file, format="svg", transparent=True, metadata={"Date": None}
            )


def _draw_curve(axes, rows):
    """All scores; a line for the way that has been followed to the end."""
    teacher = float(_teacher(rows))
    axes.axhline(teacher, color=INK, lw=0.8, ls=":")
    axes.text(72, teacher + 0.002, "the model", ha="right", fontsize=8)
    for way, color in COLORS.items():
        for part, mark, fill in MARKERS:
            points = _points(rows, way, part)
            if len({x for x, _ in points}) > 3:
                axes.plot(*zip((0, teacher), *points, strict=True), color=color)
                _label(axes, points[-1], way, color, (-9, -3))
            for point in points:
                face = color if fill else "none"
                axes.plot(*point, mark, c=color, mfc=face, ms=5)
    axes.set_xticks(range(0, 73, 12))
    axes.set_xlim(-1, 74)
    axes.margins(y=0.1)
    axes.set_xlabel("static heads of 72")
    axes.set_title("STS-B dev, Spearman's correlation", fontsize=10, loc="left")


def _draw_half(axes, rows):
    """Half of the heads static in each way, before and after training."""
    teacher = float(_teacher(rows))
    axes.axvline(teacher, color=INK, lw=0.8, ls=":")
    half = [row for row in rows if row["heads"] == "36"]
    ways = [way for way in COLORS if _own(half, way)]
    for at, way in enumerate(ways):
        color = COLORS[way]
        for part, mark, fill in MARKERS:
            found = [score for _, score in _points(half, way, part)]
            face = color if fill else "none"
            axes.plot(found, [at] * len(found), mark, c=color, mfc=face, ms=7)
        left = min(float(x["spearman"]) for x in _own(half, way))
        where, shift, side = (left, at), (0, 9), "left"
        if left > teacher - 0.012:  # no room beside the model's line
            where, shift, side = (teacher, at), (-5, 9), "right"
        _label(axes, where, way, color, shift, side)
    for part, mark, fill in MARKERS:
        face = INK if fill else "none"
        axes.plot([], [], mark, c=INK, mfc=face, label=part)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_ylim(len(ways) - 0.6, -0.9)
    axes.set_xlabel("Spearman's correlation; dotted: the model")
    axes.set_title("36 static heads", fontsize=10, loc="left")
    axes.legend(
        fontsize=8, frameon=False, labelcolor=INK, ncols=2, loc="upper left"
    )


def _own(rows, way, part=None):
    return [
        row
        for row in rows
        if _way(row) == way
        and row["heads"] != "0"
        and row["part"] == (part or row["part"])
    ]


def _points(rows, way, part):
    return sorted(
        (int(row["heads"]), float(row["spearman"]))
        for row in _own(rows, way, part)
    )


def _label(axes, point, text, color, offset, side="right"):
    axes.annotate(
        text,
        point,
        offset,
        textcoords="offset points",
        color=color,
        fontsize=9,
        ha=side,
    )


def _draw_speeds(axes, rows):
    """Points for each backend, the bound by multiplications beside them."""
    names = ["half static, folded", "all static, folded"]
    marks = {
        "torch": ("o", "#d1495b"),
        "jax": ("s", "#6a7fd1"),
        "tensorflow": ("^", "#a08a3c"),
    }
    kinds = dict.fromkeys((row["length"], row["batch"]) for row in rows)
    ticks = []
    for at, (name, kind) in enumerate((n, k) for n in names for k in kinds):
        ticks.append(f"{name.split()[0]}, T {kind[0]}, B {kind[1]}")
        own = [
            row
            for row in rows
            if (row["length"], row["batch"]) == kind and row["model"] == name
        ]
        for row in own:
            mark, color = marks[row["backend"]]
            axes.plot(float(row["speed"]), at, mark, color=color, ms=5)
            axes.plot(float(row["bound"]), at, "|", color=INK, ms=14)
    for backend, (mark, color) in marks.items():
        axes.plot([], [], mark, color=color, label=backend)
    axes.plot([], [], "|", color=INK, ms=10, label="bound")
    axes.axvline(1, color=INK, lw=0.8, ls=":")
    axes.set_yticks(range(len(ticks)), ticks, fontsize=8)
    axes.invert_yaxis()
    axes.set_title("speed, folded; V = 1", fontsize=10, loc="left")
    axes.legend(
        fontsize=8,
        frameon=False,
        labelcolor=INK,
        loc="upper left",
        bbox_to_anchor=(1, 1),
    )

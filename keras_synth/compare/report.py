"""`report.html`: one file that shows a comparison, to send on."""

import io
import pathlib

import numpy as np

from keras_synth._system.files import writing
from keras_synth.compare import results as tables

DRAWN = 10  # variants in a chart, those with the best scores
STYLES = {"jax": "-", "tensorflow": "--", "torch": ":"}


def report(folder, console):
    """Prints the tables of a folder's results, and writes files about them.

    Args:
        folder: Path, for `results.csv`, `results.md` and `report.html`.
        console: `rich.console.Console`.
    """
    import jinja2

    folder = pathlib.Path(folder)
    groups = tables.tables(tables.read(folder))
    for group in groups:
        table = tables.summary(group)
        words = title(group, groups)
        console.print(f"\n{words}\n", markup=False, highlight=False)
        print(table.to_string(index=False))
    tables.write_tables(groups, folder)
    source = pathlib.Path(__file__).with_name("report.html")
    template = jinja2.Environment(autoescape=True).from_string(
        source.read_text("utf-8")
    )
    with writing(folder / "report.html") as file:
        file.write(template.render(groups=[section(x, groups) for x in groups]))
    print(f"\nresults.csv, results.md and report.html are in {folder}")


def title(group, groups):
    """What a table is about: its task, and the settings others do not have."""
    first = group[0]
    everyone = [
        x[0]["settings"] for x in groups if x[0]["task"] == first["task"]
    ]
    own = {
        name: value
        for name, value in first["settings"].items()
        if any(x.get(name) != value for x in everyone)
    }
    words = ", ".join(f"{name}={value}" for name, value in own.items())
    better = "" if first["score"]["higher_is_better"] else ", lower is better"
    return (
        f"{first['task']}: {first['score']['name']} on the test{better}"
        f"{f' ({words})' if words else ''}"
    )


def section(group, groups):
    """What the template shows of a table."""
    first = group[0]
    gaps = tables.differences(group)
    digits = first["score"]["digits"]
    for name in ("difference", "low", "high") if len(gaps) else ():
        gaps[name] = gaps[name].map(
            lambda x: "" if x is None or np.isnan(x) else f"{x:.{digits}f}"
        )
    versions = {
        ", ".join(map(" ".join, x["versions"].items())): 0 for x in group
    }
    look = {"index": False, "border": 0, "classes": "table"}
    return {
        "title": title(group, groups),
        "table": tables.summary(group).to_html(**look),
        "differences": gaps.to_html(**look) if len(gaps) else "",
        "mixed": len(versions) > len({x["backend"] for x in group}),
        "charts": [seeds(group), curves(group)],
        "versions": list(versions),
        "settings": first["settings"],
        "commands": list({x["command"]: 0 for x in group}),
        "signatures": list(
            {s: 0 for x in group if (s := x["result"].get("signature"))}
        ),
    }


def _variants(group):
    """The variants to draw, those with the best scores, and their colours."""
    runs, better = tables.frame(group), group[0]["score"]["higher_is_better"]
    means = runs.groupby("variant", sort=False)["score"].mean()
    chosen = {*means.sort_values(ascending=not better).index[:DRAWN]}
    names = [x for x in means.index if x in chosen]
    return {name: f"C{i}" for i, name in enumerate(names)}


def seeds(group):
    """A chart with a point for each run."""
    variants, score = _variants(group), group[0]["score"]
    runs = tables.frame(group)

    def draw(figure):
        axes = figure.subplots()
        for place, (name, colour) in enumerate(variants.items()):
            values = runs[runs["variant"] == name]["score"]
            axes.plot(
                values, [place] * len(values), "o", color=colour, alpha=0.7
            )
        axes.set_yticks(range(len(variants)), [*variants])
        axes.set_xlabel(f"{score['name']} {score['unit']}".strip())
        axes.invert_yaxis()

    return chart(draw, 8, 1 + 0.35 * len(variants))


def curves(group):
    """Charts of the losses of each step and the figures of each epoch."""
    variants = _variants(group)
    drawn = [x for x in group if x["variant"] in variants]

    def draw(figure):
        steps, epochs = figure.subplots(1, 2)
        for content in drawn:
            result, variant = content["result"], content["variant"]
            history = result["history"]
            name = tables.validation_name(history)
            look = {
                "color": variants[variant],
                "linestyle": STYLES[content["backend"]],
                "linewidth": 1.2,
                "label": f"{variant}, {content['backend']}",
            }
            steps.plot(*zip(*result["losses"], strict=True), **look)
            values = history[name]
            epochs.plot(np.arange(len(values)) + 1, values, marker=".", **look)
        steps.set_xlabel("step")
        steps.set_ylabel("training loss, mean of the epoch so far")
        epochs.set_xlabel("epoch")
        epochs.set_ylabel(f"validation {name.removeprefix('val_')}")
        found = dict(zip(*steps.get_legend_handles_labels()[::-1], strict=True))
        steps.legend(found.values(), found.keys(), fontsize=8)

    return chart(draw, 10, 4)


def chart(draw, width, height):
    """An SVG picture, for a page."""
    import matplotlib  # commands start faster
    from matplotlib.figure import Figure

    with matplotlib.rc_context(
        {"text.parse_math": False, "svg.hashsalt": draw.__qualname__}
    ):
        figure = Figure((width, height), layout="constrained")
        draw(figure)
        text = io.StringIO()
        figure.savefig(text, format="svg", transparent=True)
    return text.getvalue()[text.getvalue().index("<svg") :]

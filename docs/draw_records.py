"""Writes tables and charts of what was measured on accelerators.

    python docs/draw_records.py            # docs/accelerators.md and its charts
    python docs/draw_records.py --check    # whether they are up to date

Everything between the two marks of docs/accelerators.md is made of the records
in benchmarks/records, which benchmarks/accelerator.py writes; the rest of what
that folder holds is shown by docs/draw_benchmarks.py.
"""

import argparse
import pathlib
import sys

DOCS = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(DOCS), str(DOCS.parent), str(DOCS.parent / "benchmarks")]

import accelerator_cases as cases  # noqa: E402
import accelerator_records as records  # noqa: E402
import benchmark_charts  # noqa: E402

from keras_synth.compare.files import writing  # noqa: E402

BEGIN = "<!-- made by docs/draw_records.py from benchmarks/records -->"
END = "<!-- end of what docs/draw_records.py made -->"
NONE = "No accelerator has been measured with this command yet."
ALT = "Speed of layers at 1,024 tokens in bfloat16"
# What tells tables of a part apart; what is left tells their columns.
CAPTIONS = {
    "layers": ("way", "dtype", "mask", "mode"),
    "training": ("way", "dtype"),
    "generation": ("way", "dtype"),
    "memory": ("way", "dtype", "mask", "mode"),
}
TITLES = {
    "layers": "Layers: speed relative to `MultiHeadAttention`",
    "training": "Training a classifier of 12 blocks: tokens a second",
    "generation": "`generate`: tokens a second",
    "memory": "The most memory of a training step, in MiB",
}


def text(found):
    """The Markdown of all records.

    Args:
        found: Dictionary, name of a file -> its content.
    """
    measured = {k: v for k, v in found.items() if not v["small"]}
    if not measured:
        return NONE + "\n"
    return "\n".join(of_record(name, measured[name]) for name in measured)


def of_record(name, content):
    versions = ", ".join(
        f"{package} {version}"
        for package, version in content["versions"].items()
        if version
    )
    commit = content["commit"] or f"sources {content['sources']}"
    lines = [
        f"## {content['device']}, {content['backend']}",
        "",
        f"{content['date']}, commit {commit}; {versions}. "
        f"Record: `benchmarks/records/{name}`.",
        "",
        *of_contract(content["rows"]),
    ]
    if panels_of(content):
        for palette in benchmark_charts.PALETTES:
            path = f"benchmarks/charts/{chart_name(name, palette)}"
            lines.append(f"![{ALT}]({path}#gh-{palette}-mode-only)")
        lines.append("")
    for part in CAPTIONS:
        rows = [row for row in content["rows"] if row["part"] == part]
        if rows:
            lines += [f"### {TITLES[part]}", "", *of_part(part, rows)]
    return "\n".join(lines)


def of_contract(rows):
    """How many of the contract tests passed, and which did not."""
    lines = []
    for row in rows:
        if row["part"] != "contract":
            continue
        values = row.get("values")
        if values is None:
            said = outcome(row)
        else:
            said = f"{values['passed']} passed, {values['failed']} failed"
            names = ", ".join(f"`{x}`" for x in values["failures"])
            said += f" ({names})" if names else ""
        lines += [f"Contract tests: {said}.", ""]
    return lines


def of_part(part, rows):
    """Tables of a part, one for each value of what its captions say."""
    lines = []
    for caption in unique(tuple(x[k] for k in CAPTIONS[part]) for x in rows):
        own = [
            row
            for row in rows
            if tuple(row[key] for key in CAPTIONS[part]) == caption
        ]
        columns = unique((row["length"], row["batch"]) for row in own)
        columns.sort()
        heads = [f"T {length}, B {batch}" for length, batch in columns]
        lines += [f"{', '.join(caption)}:", "", f"| | {' | '.join(heads)} |"]
        lines.append("|---" * (len(columns) + 1) + "|")
        cells = {
            (row["name"], row["length"], row["batch"]): cell(part, row)
            for row in own
        }
        for name in unique(row["name"] for row in own):
            found = [cells.get((name, *column), "") for column in columns]
            lines.append(f"| `{name}` | {' | '.join(found)} |")
        lines.append("")
        lines += notes(own)
    return lines


def cell(part, row):
    """What a table says of one contender."""
    values = row.get("values")
    if values is None:
        return "-"
    if part == "memory":
        return f"{values['bytes'] / 2**20:,.0f}"
    ratio = f"{values['ratio']:.2f}" if "ratio" in values else "?"
    if part == "layers":
        if row["name"] == cases.BASELINE:
            return f"{1000 * values['seconds']:.3g} ms"
        return ratio
    return f"{values['tokens_per_second']:,.0f} ({ratio})"


def notes(rows):
    """Why contenders are missing."""
    found = [
        f"`{row['name']}` at T {row['length']}: {outcome(row)}"
        for row in rows
        if "values" not in row
    ]
    return [f"Not measured: {'; '.join(found)}.", ""] if found else []


def outcome(row):
    kinds = ("skipped", "error", "unfinished")
    (kind,) = [name for name in kinds if name in row]
    if kind == "unfinished":
        return f"not done in {row[kind]} s"
    return f"{kind}: {row[kind]}"


def unique(values):
    return [*dict.fromkeys(values)]


# --- the chart ----------------------------------------------------------------


def panels_of(content):
    """What a record's chart shows: way and mask -> name -> speed.

    Ratios at T 1024 in bfloat16, training, plain and padded.
    """
    panels = {}
    for row in content["rows"]:
        if (
            row["part"] == "layers"
            and (row["length"], row["dtype"]) == (1024, "bfloat16")
            and row["mode"] == "training"
            and row["name"] != cases.BASELINE
            and "ratio" in row.get("values", {})
        ):
            panel = panels.setdefault(f"{row['way']}, {row['mask']}", {})
            panel[row["name"]] = row["values"]["ratio"]
    return panels


def chart_name(name, palette):
    return f"accelerator_{name.removesuffix('.json')}_{palette}.svg"


def chart(panels, palette):
    """An SVG of the panels of a record, on one scale."""
    found = [ratio for panel in panels.values() for ratio in panel.values()]
    low, high = min(0.5, 0.9 * min(found)), max(2, 1.1 * max(found))
    ticks = [2.0**x for x in range(-6, 7) if low <= 2.0**x <= high]
    shared = {"log": True, "range": (low, high), "ticks": ticks}
    shared |= {"series": ["speed"], "reference": (1, cases.BASELINE)}
    drawn = [
        {
            "title": f"Speed of a training step: {title}",
            "rows": [
                (contender.split("(")[0], [[ratio]], f"{ratio:.2f}")
                for contender, ratio in panel.items()
            ],
            **shared,
        }
        for title, panel in panels.items()
    ]
    return benchmark_charts.dots(ALT, drawn, palette)


def page(current, found):
    """The page with what is between the marks made anew."""
    before, _, rest = current.partition(BEGIN)
    _, _, after = rest.partition(END)
    if not rest or END not in current:
        raise SystemExit(
            f"docs/accelerators.md must hold the marks {BEGIN} and {END}."
        )
    return f"{before}{BEGIN}\n\n{text(found)}\n{END}{after}"


def charts(found):
    """File name of each chart -> its content."""
    return {
        chart_name(name, palette): chart(panels, palette)
        for name, content in found.items()
        if not content["small"] and (panels := panels_of(content))
        for palette in benchmark_charts.PALETTES
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if it would"
    )
    check = parser.parse_args().check
    found = records.load_all(records.FOLDER)
    path, pictures = DOCS / "accelerators.md", DOCS / "benchmarks" / "charts"
    current = path.read_text(encoding="utf-8")
    wanted, drawn = page(current, found), charts(found)
    present = {
        x.name: x.read_text(encoding="utf-8")
        for x in pictures.glob("accelerator_*.svg")
    }
    if check:
        if current != wanted or present != drawn:
            sys.exit(
                "docs/accelerators.md does not show benchmarks/records; run "
                "python docs/draw_records.py"
            )
        return
    for name in present.keys() - drawn.keys():
        (pictures / name).unlink()
    contents = {pictures / name: svg for name, svg in drawn.items()}
    for target, content in ({path: wanted} | contents).items():
        with writing(target) as file:
            file.write(content)


if __name__ == "__main__":
    main()

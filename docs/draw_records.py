"""Writes tables and charts of what was measured on accelerators.

    python docs/draw_records.py            # docs/accelerators.md and its charts
    python docs/draw_records.py --check    # whether they are up to date

Everything between the two marks of docs/accelerators.md is made of the records
in benchmarks/records, which benchmarks/accelerator.py writes. A chart's name
holds a digest of what it shows.
"""

import argparse
import hashlib
import json
import pathlib
import sys

DOCS = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(DOCS.parent), str(DOCS.parent / "benchmarks")]

import keras_synth_command  # noqa: E402

keras_synth_command.keras_waits = True  # this process computes nothing

import accelerator_cases as cases  # noqa: E402
import accelerator_records as records  # noqa: E402

from keras_synth._system.files import writing  # noqa: E402
from keras_synth.training import reporting  # noqa: E402

BEGIN = "<!-- made by docs/draw_records.py from benchmarks/records -->"
END = "<!-- end of what docs/draw_records.py made -->"
NONE = "No accelerator has been measured with this command yet."
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
    picture = chart_of(name, content)
    if picture:
        lines += [f"![Layers at 1,024 tokens](performance/{picture[0]})", ""]
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


def chart_of(name, content):
    """The file name of a record's chart and its bars, or `None`.

    Ratios at T 1024 in bfloat16, training, plain and padded.
    """
    bars = {}
    for row in content["rows"]:
        if (
            row["part"] == "layers"
            and (row["length"], row["dtype"]) == (1024, "bfloat16")
            and row["mode"] == "training"
            and row["name"] != cases.BASELINE
            and "ratio" in row.get("values", {})
        ):
            panel = bars.setdefault(f"{row['way']}, {row['mask']}", {})
            panel[row["name"]] = row["values"]["ratio"]
    if not bars:
        return None
    digest = hashlib.sha256(json.dumps(bars).encode()).hexdigest()[:8]
    stem = name.removesuffix(".json")
    return f"accelerator_{stem}_{digest}.png", bars


def draw(path, bars):
    size = (3.5 * len(bars), 4)
    with reporting.picture(path, len(bars), size, "speed") as axes:
        panels = axes.flat if len(bars) > 1 else [axes]
        for each, (title, ratios) in zip(panels, bars.items(), strict=True):
            each.barh([*ratios][::-1], [*ratios.values()][::-1])
            each.axvline(1, color="black", lw=1)
            each.set_title(title)


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
    """File name of each chart -> its bars."""
    made = [chart_of(k, v) for k, v in found.items() if not v["small"]]
    return dict(filter(None, made))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if it would"
    )
    check = parser.parse_args().check
    found = records.load_all(records.FOLDER)
    path, pictures = DOCS / "accelerators.md", DOCS / "performance"
    current = path.read_text(encoding="utf-8")
    wanted, drawn = page(current, found), charts(found)
    present = {x.name for x in pictures.glob("accelerator_*.png")}
    if check:
        if current != wanted or present != {*drawn}:
            sys.exit(
                "docs/accelerators.md does not show benchmarks/records; run "
                "python docs/draw_records.py"
            )
        return
    with writing(path) as file:
        file.write(wanted)
    for name in present - {*drawn}:
        (pictures / name).unlink()
    for name in {*drawn} - present:
        draw(pictures / name, drawn[name])


if __name__ == "__main__":
    main()

"""What the page of accelerators shows of the records of accelerator.py.

`text` is the Markdown below the page's mark, which the site has when it is
built; `docs/draw_benchmarks.py` draws the charts.
"""

import json

import benchmark_records
import benchmark_tables

MARK = "<!-- records of benchmarks/accelerator.py -->"
NONE = "No accelerator has been measured with this command yet."
ALT = "Speed of layers at 1,024 tokens in bfloat16"
BASELINE = "MultiHeadAttention"
# What tells tables of a part apart, in addition to length and batch.
CAPTIONS = ["way", "dtype", "mask", "mode"]
TITLES = {
    "layers": f"Layers: speed relative to {BASELINE}",
    "training": "Training a classifier of 12 blocks: tokens a second",
    "generation": "`generate`: tokens a second",
    "memory": "The most memory of a training step, in MiB",
}


def load():
    """Returns the contents of all records of accelerators, by file names."""
    paths = sorted(benchmark_records.FOLDER.glob("*.json"))
    found = {path.name: json.loads(path.read_text("utf-8")) for path in paths}
    return {k: content for k, content in found.items() if not content["small"]}


def text(found):
    """Returns the Markdown of records, a dictionary as `load` returns it."""
    parts = [of_record(name, content) for name, content in found.items()]
    return "\n".join(parts) or NONE


def of_record(name, content):
    versions = ", ".join(
        f"{k} {x}" for k, x in content["versions"].items() if x
    )
    commit = content["commit"] or f"sources {content['sources']}"
    lines = [
        f"## {content['device']}, {content['backend']}",
        "",
        f"{content['date']}, commit {commit}; {versions}. "
        f"Record: `benchmarks/records/{name}`.",
        "",
    ]
    for row in content["rows"]:
        if row["part"] == "contract":
            lines += [f"Contract tests: {cell(row)}.", ""]
    if panels(content):
        for palette in ("light", "dark"):
            path = f"benchmarks/charts/{chart_name(name, palette)}"
            lines.append(f"![{ALT}]({path}#gh-{palette}-mode-only)")
        lines.append("")
    for part, title in TITLES.items():
        rows = [row for row in content["rows"] if row["part"] == part]
        if rows:
            lines += [f"### {title}", "", *of_part(rows)]
    return "\n".join(lines)


def of_part(rows):
    """Tables of a part, and why contenders are missing."""
    shown = {
        "title": "",
        "fields": {"text": {}},
        "rows": [
            {**row, "text": cell(row) if "values" in row else "-"}
            for row in rows
        ],
    }
    layout = {"apart": CAPTIONS, "across": ["length", "batch"]}
    lines = benchmark_tables.tables(shown, layout)
    missing = [
        f"`{row['name']}` at T {row['length']}: {cell(row)}"
        for row in rows
        if "values" not in row
    ]
    return lines + [f"Not measured: {'; '.join(missing)}.", ""] * bool(missing)


def cell(row):
    """What a row says."""
    values = row.get("values")
    if values is None:
        kind = "skipped" if "skipped" in row else "error"
        return f"{kind}: {row[kind]}"
    if "passed" in values:
        names = ", ".join(f"`{name}`" for name in values["failures"])
        said = f"{values['passed']} passed, {values['failed']} failed"
        return f"{said} ({names})" if names else said
    if "bytes" in values:
        return f"{values['bytes'] / 2**20:,.0f}"
    ratio = f"{values['ratio']:.2f}" if "ratio" in values else "?"
    if "tokens_per_second" in values:
        return f"{values['tokens_per_second']:,.0f} ({ratio})"
    is_first = row["name"] == BASELINE
    return f"{1000 * values['seconds']:.3g} ms" if is_first else ratio


def chart_name(name, palette):
    return f"accelerator_{name.removesuffix('.json')}_{palette}.svg"


def panels(content):
    """A record's chart: ratios at T 1024 in bfloat16, training."""
    shown = {}
    for row in content["rows"]:
        if (
            row["part"] == "layers"
            and (row["length"], row["dtype"]) == (1024, "bfloat16")
            and row["mode"] == "training"
            and row["name"] != BASELINE
            and "ratio" in row.get("values", {})
        ):
            rows = shown.setdefault(f"{row['way']}, {row['mask']}", [])
            ratio = row["values"]["ratio"]
            name = row["name"].split("(")[0]
            rows.append([name, [[ratio]], f"{ratio:.2f}"])
    axis = {"log": 2, "title": f"{BASELINE} is 1"}
    return [
        {
            "kind": "dots",
            "title": f"Speed of a training step: {title}",
            "series": ["speed"],
            "rows": rows,
            "x": axis,
            "reference": 1,
        }
        for title, rows in shown.items()
    ]

"""Tables and pictures from the CSV files of `layers.py`."""

import collections
import csv

from matplotlib import figure
from rich.console import Console
from rich.table import Table

REFERENCE = "MultiHeadAttention"
BLOCK_REFERENCE = "TransformerEncoder"
PICTURED = [
    REFERENCE,
    "torch.sdpa",
    "jax.nn",
    "V",
    "R",
    "FR",
    "D",
    "R+V",
    "D+V",
    "floor of R",
]


def report(folder):
    """Prints the tables and saves the pictures of all files in a folder."""
    for path in sorted(folder.glob("layers_*.csv")):
        with open(path, encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        _print_tables(rows)
        _save_picture(rows, path.with_suffix(".png"))
        print(f"{path} and {path.with_suffix('.png').name}")


def print_markdown(folder):
    """Prints ratios to the reference as Markdown, a table for each mode."""
    for path in sorted(folder.glob("layers_*.csv")):
        with open(path, encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if row["value"]]
        for measure, mode, dtype in dict.fromkeys(
            (row["measure"], row["mode"], row["dtype"]) for row in rows
        ):
            chosen = {
                (
                    r["mask"],
                    int(r["length"]),
                    int(r["batch"]),
                    r["contender"],
                ): r
                for r in rows
                if (r["measure"], r["mode"], r["dtype"])
                == (measure, mode, dtype)
            }
            print(f"\n{rows[0]['device']}: {measure}, {mode}, {dtype}\n")
            _print_markdown(chosen)


def _print_markdown(rows):
    columns = list(dict.fromkeys(key[:3] for key in rows))
    names = list(dict.fromkeys(key[3] for key in rows))
    heads = [
        f"{mask}, T {length}, B {batch}" for mask, length, batch in columns
    ]
    print("| | " + " | ".join(heads) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for name in names:
        cells = []
        for column in columns:
            row = rows.get((*column, name))
            reference = rows.get((*column, _reference(name)))
            if row is None or reference is None:
                cells.append("")
            elif row is reference and row["measure"] == "bytes":
                cells.append(f"{float(row['value']) / 2**20:,.0f} MiB")
            elif row is reference:
                cells.append(f"{1000 * float(row['value']):.0f} ms")
            else:
                ratio = float(reference["value"]) / float(row["value"])
                cells.append(f"{ratio:.2f}")
        print(f"| {name} | " + " | ".join(cells) + " |")


def _reference(contender):
    is_block = contender.startswith("block ") or contender == BLOCK_REFERENCE
    return BLOCK_REFERENCE if is_block else REFERENCE


def _print_tables(rows):
    groups = collections.defaultdict(dict)
    for row in rows:
        title = (
            f"{row['device']}: {row['measure']}, {row['mode']}, {row['mask']}, "
            f"{row['dtype']}, d {row['width']}, H {row['heads']}"
        )
        shape = (int(row["length"]), int(row["batch"]))
        groups[title].setdefault(row["contender"], {})[shape] = row
    for title, table in groups.items():
        _print_table(title, table)


def _print_table(title, contenders):
    shapes = sorted({s for cells in contenders.values() for s in cells})
    table = Table(title=title)
    table.add_column("contender")
    for length, batch in shapes:
        table.add_column(f"T {length}, B {batch}", justify="right")
        table.add_column("ratio", justify="right")
    for name, cells in contenders.items():
        texts = []
        for shape in shapes:
            reference = contenders.get(_reference(name), {}).get(shape)
            texts += _texts(cells.get(shape), reference)
        table.add_row(name, *texts)
    Console().print(table)
    skipped = {
        (name, row["note"])
        for name, cells in contenders.items()
        for row in cells.values()
        if row["note"]
    }
    for name, note in sorted(skipped):
        print(f"  {name}: {note}")


def _texts(row, reference):
    if row is None or not row["value"]:
        return "-", "-"
    value = float(row["value"])
    if row["measure"] == "bytes":
        text = f"{value / 2**20:,.0f} MiB"
    else:
        tokens = int(row["length"]) * int(row["batch"]) / value
        text = (
            f"{1000 * value:.2f} ms ±{100 * float(row['spread']) / value:.0f}%"
            f"\n{tokens / 1000:,.0f}k tok/s"
        )
    if reference is None or not reference["value"]:
        return text, "-"
    return text, f"{float(reference['value']) / value:.2f}"


def _save_picture(rows, path):
    panels = list(
        dict.fromkeys(
            (row["measure"], row["mode"], row["mask"], row["dtype"])
            for row in rows
            if row["value"]
        )
    )
    columns = min(3, max(1, len(panels)))
    lines = -(-len(panels) // columns)
    picture = figure.Figure(
        figsize=(4.2 * columns, 3.4 * lines + 0.9), layout="constrained"
    )
    grid = list(picture.subplots(lines, columns, squeeze=False).flat)
    for axes, panel in zip(grid, panels, strict=False):
        _draw(axes, panel, rows)
    for axes in grid[len(panels) :]:
        axes.set_axis_off()
    handles = {}
    for axes in picture.axes:
        for handle, label in zip(
            *axes.get_legend_handles_labels(), strict=True
        ):
            handles.setdefault(label, handle)
    picture.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=5
    )
    if rows:
        picture.suptitle(rows[0]["device"])
    partial = path.with_suffix(".partial.png")
    picture.savefig(partial, dpi=120)
    partial.replace(path)


def _some_ticks(value, position):
    """Labels 2, 3 and 5 times a power of ten, which do not collide."""
    return f"{value:g}" if f"{value:e}"[0] in "235" else ""


def _draw(axes, panel, rows):
    measure, mode, mask, dtype = panel
    unit = 2**20 if measure == "bytes" else 1
    for i, name in enumerate(PICTURED):
        chosen = {
            int(row["length"]): row
            for row in rows
            if row["contender"] == name
            and row["value"]
            and panel
            == (row["measure"], row["mode"], row["mask"], row["dtype"])
        }
        points = sorted(chosen.items())
        if measure == "bytes":
            values = [float(row["value"]) / unit for _, row in points]
        else:  # per token, so that all lengths fit one picture
            values = [
                1e6 * float(r["value"]) / (int(r["batch"]) * int(r["length"]))
                for _, r in points
            ]
        if points:
            axes.plot(
                [length for length, _ in points],
                values,
                marker="o",
                markersize=3,
                color="black" if name == REFERENCE else f"C{i}",
                linestyle=":" if "floor" in name else "-",
                label=name,
            )
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(_some_ticks)
    axes.set_xlabel("length T")
    axes.set_ylabel("peak MiB" if measure == "bytes" else "µs per token")
    axes.set_title(f"{mode}, {mask}, {dtype}", fontsize=9)
    axes.grid(alpha=0.3, which="both")

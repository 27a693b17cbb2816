"""What a results file says, as a table, a CSV file and a picture."""

import csv
import statistics

import numpy as np
from matplotlib import figure
from rich.console import Console
from rich.table import Table

SMOOTHING = 25  # steps over which the picture's loss curves are averaged
STYLES = {"tensorflow": "-", "jax": "--", "torch": ":"}
COLUMNS = (
    "task variant num_heads backend seed score steps_per_second "
    "compile_seconds train_seconds seconds data_share parameters "
    "peak_memory_bytes"
).split()


def groups(rows):
    """Rows that differ in their seeds alone, by all that they share."""
    found = {}
    for row in rows:
        key = row["key"]
        shared = key["variant"], key["num_heads"], key["backend"]
        found.setdefault(shared, []).append(row)
    return found


def table(rows, paper):
    """The rows as a `rich` table, one line for each group."""
    first = rows[0]["key"]["settings"]
    made = Table(title=f"{first['task']}: test accuracy of the last epoch")
    for heading in (
        "variant heads backend accuracy seeds steps/s /V compiling data "
        "parameters memory"
    ).split():
        made.add_column(heading, justify="right")
    if paper:
        made.add_column("paper", justify="right")
    grouped = groups(rows)
    for (variant, heads, backend), some in grouped.items():
        speed = _mean(some, "steps_per_second")
        baseline = grouped.get(("V", heads, backend))
        baseline = baseline and _mean(baseline, "steps_per_second")
        cells = [
            variant,
            str(heads),
            backend,
            accuracy([row["score"] for row in some]),
            str(len(some)),
            "-" if speed is None else f"{speed:.2f}",
            f"{speed / baseline:.2f}" if speed and baseline else "-",
            f"{_mean(some, 'compile_seconds'):.1f} s",
            f"{100 * _mean(some, 'data_share'):.1f}%",
            f"{some[0]['parameters']:,}",
            f"{_mean(some, 'peak_memory_bytes') / 2**20:,.0f} MiB",
        ]
        if paper:
            cells.append(str(paper.get(variant, "")))
        made.add_row(*cells)
    return made


def accuracy(scores):
    """The mean of some seeds' scores, and half of their range."""
    mean = f"{100 * statistics.mean(scores):.2f}"
    if len(scores) == 1:
        return mean
    return f"{mean} ±{50 * (max(scores) - min(scores)):.2f}"


def report(rows, paper, folder):
    """Prints the table, writes `results.csv`, `.md` and `curves.png`."""
    Console().print(table(rows, paper))
    write_csv(rows, folder / "results.csv")
    write_markdown(rows, paper, folder / "results.md")
    draw(rows, folder / "curves.png")
    print(
        f"results.jsonl, results.csv, results.md and curves.png are in {folder}"
    )


def write_markdown(rows, paper, path):
    """Writes a table for a document, one line for each group of seeds."""
    headings = (
        "| | heads | backend | seeds | test accuracy | each seed, epoch by "
        "epoch | training, s | steps/s | parameters |"
    )
    lines = [headings + (" paper |" if paper else "")]
    lines.append("|---" * (lines[0].count("|") - 1) + "|")
    for (variant, heads, backend), some in groups(rows).items():
        seeds = ", ".join(str(row["key"]["seed"]) for row in some)
        epochs = "; ".join(
            " ".join(f"{100 * score:.1f}" for score in row["scores"])
            for row in some
        )
        score = accuracy([row["score"] for row in some])
        speed = _mean(some, "steps_per_second")
        cells = [
            variant,
            f"{heads}",
            backend,
            seeds,
            score,
            epochs,
            f"{_mean(some, 'train_seconds'):.0f}",
            "" if speed is None else f"{speed:.2f}",
            f"{some[0]['parameters']:,}",
        ]
        cells += [str(paper.get(variant, ""))] if paper else []
        lines.append(f"| {' | '.join(cells)} |")
    partial = path.with_suffix(".partial")
    partial.write_text("\n".join(lines) + "\n", encoding="utf-8")
    partial.replace(path)


def write_csv(rows, path):
    """Writes one line for each run."""
    partial = path.with_suffix(".partial")
    with open(partial, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for row in rows:
            known = {**row["key"]["settings"], **row["key"], **row}
            writer.writerow({name: known[name] for name in COLUMNS})
    partial.replace(path)


def draw(rows, path):
    """Loss curves of all runs, colours by variant, lines by backend."""
    picture = figure.Figure(figsize=(7.5, 4.5), layout="constrained")
    axes = picture.subplots()
    labels = {}
    for row in rows:
        variant, heads = row["key"]["variant"], row["key"]["num_heads"]
        name = f"{variant}, {heads} heads"
        color = labels.setdefault(name, f"C{len(labels) % 10}")
        label = f"{name}, {row['key']['backend']}, {100 * row['score']:.1f}%"
        losses = row["losses"]
        window = min(SMOOTHING, len(losses))
        smooth = np.convolve(losses, np.full(window, 1 / window), "valid")
        epochs = row["key"]["settings"]["epochs"] / len(losses)
        axes.plot(
            (np.arange(len(smooth)) + window) * epochs,
            smooth,
            STYLES[row["key"]["backend"]],
            color=color,
            linewidth=1.2,
            alpha=0.8,
            label=label,
        )
    axes.set_xlabel("epochs")
    axes.set_ylabel(f"training loss, mean of {SMOOTHING} steps")
    axes.set_title(rows[0]["key"]["settings"]["task"])
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    columns = 1 if len(rows) <= 12 else 2
    axes.legend(fontsize=7, ncols=columns, loc="lower left")
    partial = path.with_suffix(".partial.png")
    picture.savefig(partial, dpi=150)
    partial.replace(path)


def _mean(rows, name):
    values = [row[name] for row in rows if row[name] is not None]
    return statistics.mean(values) if values else None

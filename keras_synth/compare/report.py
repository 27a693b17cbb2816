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
    "peak_memory_bytes score_name generate_seconds signature"
).split()
OF_WRITING = ("generate_seconds", "signature")  # columns of few tasks


def groups(rows):
    """Rows that differ in their seeds alone, by all that they share."""
    found = {}
    for row in rows:
        key = row["key"]
        shared = key["variant"], key["num_heads"], key["backend"]
        found.setdefault(shared, []).append(row)
    return found


def table(rows, task):
    """The rows as a `rich` table, one line for each group."""
    made = Table(title=title(rows, task.kind.score), caption=signature(rows))
    headings = ["variant", "heads", "backend", task.kind.score.heading]
    headings += "seeds steps/s /V compiling data parameters memory".split()
    headings += ["paper"] if task.paper else []
    for heading in headings:
        made.add_column(heading, justify="right")
    grouped = groups(rows)
    for (variant, heads, backend), some in grouped.items():
        speed = _mean(some, "steps_per_second")
        baseline = grouped.get(("V", heads, backend))
        baseline = baseline and _mean(baseline, "steps_per_second")
        cells = [
            variant,
            str(heads),
            backend,
            spread(task.kind.score, some),
            str(len(some)),
            "-" if speed is None else f"{speed:.2f}",
            f"{speed / baseline:.2f}" if speed and baseline else "-",
            f"{_mean(some, 'compile_seconds'):.1f} s",
            f"{100 * _mean(some, 'data_share'):.1f}%",
            f"{some[0]['parameters']:,}",
            f"{_mean(some, 'peak_memory_bytes') / 2**20:,.0f} MiB",
        ]
        if task.paper:
            cells.append(str(task.paper.get(variant, "")))
        made.add_row(*cells)
    return made


def title(rows, score):
    """What a table of these rows shows."""
    task = rows[0]["key"]["settings"]["task"]
    better = "" if score.higher_is_better else ", lower is better"
    return f"{task}: {score.name} of the last epoch{better}"


def signature(rows):
    """How what was written has been scored, if anything was."""
    return "; ".join(
        {row["signature"]: 0 for row in rows if "signature" in row}
    )


def spread(score, rows):
    """The mean of some seeds' scores, and half of their range."""
    values = [row["score"] for row in rows]
    mean = score.show(statistics.mean(values))
    if len(values) == 1:
        return mean
    return f"{mean} ±{score.show((max(values) - min(values)) / 2)}"


def report(rows, task, folder):
    """Prints the table, writes `results.csv`, `.md` and `curves.png`.

    Args:
        rows: List of results, dictionaries.
        task: `Task` of all of them.
        folder: Path.
    """
    Console().print(table(rows, task))
    write_csv(rows, task.kind.score, folder / "results.csv")
    write_markdown(rows, task, folder / "results.md")
    draw(rows, task.kind.score, folder / "curves.png")
    print(
        f"results.jsonl, results.csv, results.md and curves.png are in {folder}"
    )


def write_markdown(rows, task, path):
    """Writes a table for a document, one line for each group of seeds."""
    score, epochs = task.kind.score, task.kind.epoch_score
    each = "each seed, epoch by epoch"
    if epochs.name != score.name:
        each = f"{epochs.name} of {each}"
    headings = (
        f"| | heads | backend | seeds | {score.name} | {each} | training, s | "
        "steps/s | parameters |"
    )
    lines = [headings + (" paper |" if task.paper else "")]
    lines.append("|---" * (lines[0].count("|") - 1) + "|")
    lines += [
        f"| {' | '.join(_cells(group, some, task))} |"
        for group, some in groups(rows).items()
    ]
    lines += ["", f"`{signature(rows)}`"] if signature(rows) else []
    partial = path.with_suffix(".partial")
    partial.write_text("\n".join(lines) + "\n", encoding="utf-8")
    partial.replace(path)


def _cells(group, rows, task):
    """A line of the table for a document."""
    variant, heads, backend = group
    speed = _mean(rows, "steps_per_second")
    cells = [
        variant,
        f"{heads}",
        backend,
        ", ".join(str(row["key"]["seed"]) for row in rows),
        spread(task.kind.score, rows),
        "; ".join(
            " ".join(task.kind.epoch_score.show(x, 1) for x in row["scores"])
            for row in rows
        ),
        f"{_mean(rows, 'train_seconds'):.0f}",
        "" if speed is None else f"{speed:.2f}",
        f"{rows[0]['parameters']:,}",
    ]
    return cells + ([str(task.paper.get(variant, ""))] if task.paper else [])


def write_csv(rows, score, path):
    """Writes one line for each run, scores as `results.jsonl` has them."""
    partial = path.with_suffix(".partial")
    columns = [x for x in COLUMNS if x not in OF_WRITING or x in rows[0]]
    with open(partial, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        for row in rows:
            known = {**row["key"]["settings"], **row["key"], **row}
            known["score_name"] = score.name
            writer.writerow({name: known[name] for name in columns})
    partial.replace(path)


def draw(rows, score, path):
    """Loss curves of all runs, colours by variant, lines by backend."""
    picture = figure.Figure(figsize=(7.5, 4.5), layout="constrained")
    axes = picture.subplots()
    labels = {}
    # All runs of a grid have as many steps; short ones are averaged less.
    window = min(SMOOTHING, max(1, len(rows[0]["losses"]) // 8))
    for row in rows:
        variant, heads = row["key"]["variant"], row["key"]["num_heads"]
        name = f"{variant}, {heads} heads"
        color = labels.setdefault(name, f"C{len(labels) % 10}")
        shown = score.show(row["score"], 1) + score.unit
        label = f"{name}, {row['key']['backend']}, {shown}"
        losses = row["losses"]
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
    axes.set_ylabel(f"training loss, mean of {window} steps")
    axes.set_title(rows[0]["key"]["settings"]["task"])
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    columns = 1 if len(rows) <= 12 else 2
    axes.legend(
        title=score.name,
        title_fontsize=7,
        fontsize=7,
        ncols=columns,
        loc="lower left",
    )
    partial = path.with_suffix(".partial.png")
    picture.savefig(partial, dpi=150)
    partial.replace(path)


def _mean(rows, name):
    values = [row[name] for row in rows if row[name] is not None]
    return statistics.mean(values) if values else None

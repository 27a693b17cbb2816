"""What a results file says, as a table, a CSV file and a picture."""

import csv
import statistics

import numpy as np
from rich.console import Console
from rich.table import Table

SMOOTHING = 25  # steps over which the picture's loss curves are averaged
STYLES = {"tensorflow": "-", "jax": "--", "torch": ":"}
COLUMNS = (
    "task variant num_heads backend seed score validation_score test_loss "
    "steps_per_second compile_seconds train_seconds seconds data_share "
    "parameters peak_memory_bytes score_name generate_seconds signature"
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
    """The rows as a `rich` table of 80 columns, one line for each group."""
    score, epochs = task.kind.score, task.kind.epoch_score
    grouped = groups(rows)
    # What is the same in all lines stands above them.
    several = [len(set(values)) > 1 for values in zip(*grouped, strict=True)]
    shared = zip(several[1:], ("heads", "backend"), strict=True)
    columns = ["variant", *(name for differs, name in shared if differs)]
    columns += [f"test\n{score.heading}{_unit(score, chr(10))}"]
    columns += [f"valid.\n{epochs.heading}{_unit(epochs, chr(10))}"]
    columns += ["steps/s", "/V", "weights\nx 1e6", "peak\nMiB"]
    columns += ["paper"] if task.paper else []
    made = Table(
        title=title(rows, task.kind.score),
        caption=signature(rows),
        box=None,
        padding=(0, 1, 0, 0),
    )
    for name in columns:
        # Names of variants may be long; figures are never cut.
        first = name == "variant"
        made.add_column(
            name,
            justify="left" if first else "right",
            no_wrap=not first,
            overflow="fold",
        )
    for (variant, heads, backend), some in grouped.items():
        speed = _mean(some, "steps_per_second")
        baseline = grouped.get(("V", heads, backend))
        baseline = baseline and _mean(baseline, "steps_per_second")
        memory = _mean(some, "peak_memory_bytes")
        validation = [row["validation_scores"][-1] for row in some]
        cells = {
            "variant": variant,
            "heads": str(heads),
            "backend": backend,
            "score": spread(score, some),
            "validation": epochs.show(statistics.mean(validation)),
            "speed": "-" if speed is None else f"{speed:.2f}",
            "/V": f"{speed / baseline:.2f}" if speed and baseline else "-",
            "weights": f"{some[0]['parameters'] / 1e6:.2f}",
            "memory": "-" if memory is None else f"{memory / 2**20:.0f}",
        }
        for name in {"heads", "backend"} - set(columns):
            del cells[name]
        if task.paper:
            cells["paper"] = str(task.paper.get(variant, ""))
        made.add_row(*cells.values())
    return made


def _unit(score, between=", "):
    return f"{between}{score.unit}" if score.unit else ""


def title(rows, score):
    """What a table of these rows shows, and what all of them have in common."""
    keys = [row["key"] for row in rows]
    task = keys[0]["settings"]["task"]
    better = "" if score.higher_is_better else ", lower is better"
    heads, backends, seeds = (
        list(dict.fromkeys(str(key[name]) for key in keys))
        for name in ("num_heads", "backend", "seed")
    )
    shared = [f"{heads[0]} heads"] * (len(heads) == 1)
    shared += backends * (len(backends) == 1)
    shared += [f"seed{'s' * (len(seeds) > 1)} {' '.join(seeds)}"]
    return (
        f"{task}: test {score.name} after the last epoch{better}\n"
        f"{', '.join(shared)}"
    )


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
    draw(rows, task.kind, folder / "curves.png")
    print(
        f"results.jsonl, results.csv, results.md and curves.png are in {folder}"
    )


def write_markdown(rows, task, path):
    """Writes a table for a document, one line for each group of seeds."""
    score, epochs = task.kind.score, task.kind.epoch_score
    headings = (
        f"| | heads | backend | seeds | test {score.name} | validation "
        f"{epochs.name} of each seed, epoch by epoch | training, s | steps/s | "
        "parameters |"
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
            " ".join(
                task.kind.epoch_score.show(x, 1)
                for x in row["validation_scores"]
            )
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
            known["validation_score"] = row["validation_scores"][-1]
            writer.writerow({name: known[name] for name in columns})
    partial.replace(path)


def draw(rows, kind, path):
    """Training losses and validation scores of all runs.

    Colours tell variants and heads, lines backends.
    """
    from matplotlib import figure  # imported last: the command starts faster

    picture = figure.Figure(figsize=(11, 4.5), layout="constrained")
    steps, epochs = picture.subplots(1, 2)
    labels = {}
    # All runs of a grid have as many steps; short ones are averaged less.
    window = min(SMOOTHING, max(1, len(rows[0]["losses"]) // 8))
    for row in rows:
        variant, heads = row["key"]["variant"], row["key"]["num_heads"]
        name = f"{variant}, {heads} heads"
        shown = kind.score.show(row["score"], 1) + kind.score.unit
        style = {
            "linestyle": STYLES[row["key"]["backend"]],
            "color": labels.setdefault(name, f"C{len(labels) % 10}"),
            "linewidth": 1.2,
            "alpha": 0.8,
            "label": f"{name}, {row['key']['backend']}, {shown}",
        }
        losses, scores = row["losses"], row["validation_scores"]
        smooth = np.convolve(losses, np.full(window, 1 / window), "valid")
        places = (np.arange(len(smooth)) + window) * len(scores) / len(losses)
        steps.plot(places, smooth, **style)
        scaled = np.multiply(scores, kind.epoch_score.scale)
        epochs.plot(np.arange(len(scores)) + 1, scaled, marker=".", **style)
    steps.set_ylabel(f"training loss, mean of {window} steps")
    steps.set_ylim(bottom=0)
    epochs.set_ylabel(
        f"validation {kind.epoch_score.name}{_unit(kind.epoch_score)}"
    )
    for axes in (steps, epochs):
        axes.set_xlabel("epochs")
        axes.grid(alpha=0.3)
    picture.suptitle(rows[0]["key"]["settings"]["task"])
    steps.legend(
        title=f"test {kind.score.name}",
        title_fontsize=7,
        fontsize=7,
        ncols=1 if len(rows) <= 12 else 2,
        loc="lower left",
    )
    partial = path.with_suffix(".partial.png")
    picture.savefig(partial, dpi=150)
    partial.replace(path)


def _mean(rows, name):
    values = [row[name] for row in rows if row[name] is not None]
    return statistics.mean(values) if values else None

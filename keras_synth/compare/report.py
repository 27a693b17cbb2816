"""What a results file says, as a table, a CSV file and pictures."""

import csv
import math
import statistics

import numpy as np

from keras_synth._system.files import writing
from keras_synth.compare.groups import best, groups, labels, mean, spread
from keras_synth.compare.html import write_html
from keras_synth.training.reporting import picture, score_table, smoothed

SMOOTHING = 25  # steps over which the picture's loss curves are averaged
DRAWN = 48  # runs in the picture, at most
LARGEST = 400  # area of the largest mark in the picture of costs, square points
STYLES = {"tensorflow": "-", "jax": "--", "torch": ":"}
COLUMNS = (
    "task variant num_heads backend seed score validation_score test_loss "
    "steps_per_second compile_seconds train_seconds seconds data_share "
    "parameters multiplications peak_memory_bytes score_name "
    "generate_seconds signature"
).split()
COSTS = ("steps_per_second", "score", "peak_memory_bytes")
OF_WRITING = ("generate_seconds", "signature")  # columns of few tasks


def report(rows, task, folder, page=True):
    """Prints the table, and writes the files that say more.

    Args:
        rows: List of results, dictionaries.
        task: `Task` of all of them.
        folder: Path, for `results.csv`, `results.md`, `curves.png` and, where
            speed and memory are known, `costs.png`.
        page: Boolean, whether `report.html` is written, too.
    """
    from rich.console import Console  # commands start faster

    Console().print(table(rows, task))
    write_csv(rows, task.objective.score, folder / "results.csv")
    write_markdown(rows, task, folder / "results.md")
    draw(rows, task.objective, folder / "curves.png")
    files = ["results.jsonl", "results.csv", "results.md", "curves.png"]
    if draw_costs(rows, task.objective.score, folder / "costs.png"):
        files.append("costs.png")
    if page:
        write_html(rows, task, folder / "report.html")
        files.append("report.html")
    print(f"{', '.join(files[:-1])} and {files[-1]} are in {folder}")


def table(rows, task):
    """The rows as a `rich` table of 80 columns, one line for each group."""
    score, epochs = task.objective.score, task.objective.epoch_score
    test, validation = (
        f"{split}\n{x.heading}{_unit(x, chr(10))}"
        for split, x in (("test", score), ("valid.", epochs))
    )
    grouped, lines = groups(rows), []
    for (variant, heads, backend), group in grouped.items():
        speed = mean(group, "steps_per_second")
        baseline = mean(
            grouped.get(("V", heads, backend), ()), "steps_per_second"
        )
        memory = mean(group, "peak_memory_bytes")
        counted = group[0].get("multiplications")
        last = statistics.mean(row["validation_scores"][-1] for row in group)
        line = {
            "variant": variant,
            "heads": str(heads),
            "backend": backend,
            test: spread(score, group),
            validation: epochs.show(last),
            "steps/s": "-" if speed is None else f"{speed:.2f}",
            "/V": f"{speed / baseline:.2f}" if speed and baseline else "-",
            "weights\nx 1e6": f"{group[0]['parameters'] / 1e6:.2f}",
            "mult.\nx 1e6": "-" if counted is None else f"{counted / 1e6:.0f}",
            "peak\nMiB": "-" if memory is None else f"{memory / 2**20:.0f}",
            "paper": str(task.paper.get(variant, "")),
        }
        lines.append(line)
    # What is the same in all lines stands above them.
    same = [x for x in ("heads", "backend") if len({y[x] for y in lines}) == 1]
    for name in (*same, *(() if task.paper else ("paper",))):
        for line in lines:
            del line[name]
    cells = [list(line.values()) for line in lines]
    return score_table(title(rows, score), [*lines[0]], cells, signature(rows))


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


def write_markdown(rows, task, path):
    """Writes a table for a document, one line for each group of seeds."""
    score, epochs = task.objective.score, task.objective.epoch_score
    lines = []
    for (variant, heads, backend), group in groups(rows).items():
        speed = mean(group, "steps_per_second")
        validation = (
            " ".join(epochs.show(x, 1) for x in row["validation_scores"])
            for row in group
        )
        line = {
            "": variant.replace("|", "\\|").replace("<", "&lt;"),
            "heads": f"{heads}",
            "backend": backend,
            "seeds": ", ".join(str(row["key"]["seed"]) for row in group),
            f"test {score.name}": spread(score, group),
            f"validation {epochs.name} of each seed, epoch by epoch": "; ".join(
                validation
            ),
            "training, s": f"{mean(group, 'train_seconds'):.0f}",
            "steps/s": "" if speed is None else f"{speed:.2f}",
            "parameters": f"{group[0]['parameters']:,}",
        }
        if task.paper:
            line["paper"] = str(task.paper.get(variant, ""))
        lines.append(line)
    with writing(path) as file:
        file.write(f"| {' | '.join(lines[0]).strip()} |\n")
        file.write("|---" * len(lines[0]) + "|\n")
        for line in lines:
            file.write(f"| {' | '.join(line.values())} |\n")
        if signature(rows):
            file.write(f"\n`{signature(rows)}`\n")


def write_csv(rows, score, path):
    """Writes one line for each run, scores as `results.jsonl` has them."""
    columns = [x for x in COLUMNS if x not in OF_WRITING or x in rows[0]]
    # Results of an older version have fewer.
    metrics = {name: "" for row in rows for name in row.get("metrics", ())}
    columns += metrics
    with writing(path) as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        for row in rows:
            known = {**metrics, **row["key"]["settings"], **row["key"], **row}
            known.update(row.get("metrics", {}))
            known["score_name"] = score.name
            known["validation_score"] = row["validation_scores"][-1]
            writer.writerow({name: known[name] for name in columns})


def draw(rows, objective, path):
    """Training losses and validation scores of all runs, or the best.

    Colours tell variants and heads, lines backends.
    """
    import matplotlib  # commands start faster

    score, epoch_score = objective.score, objective.epoch_score
    labels, drawn, title = {}, *_drawn(rows, epoch_score)
    # All runs of a grid have as many steps; short ones are averaged less.
    window = min(SMOOTHING, max(1, len(rows[0]["losses"]) // 8))
    with (
        matplotlib.rc_context({"text.parse_math": False}),
        picture(path, 2, size=(11, 4.5)) as (steps, epochs),
    ):
        for row in drawn:
            key = row["key"]
            name = f"{key['variant']}, {key['num_heads']} heads"
            shown = score.show(row["score"], 1) + score.unit
            style = {
                "linestyle": STYLES.get(key["backend"], "-."),
                "color": labels.setdefault(name, f"C{len(labels) % 10}"),
                "linewidth": 1.2,
                "alpha": 0.8,
                "label": f"{name}, {key['backend']}, {shown}",
            }
            scores = row["validation_scores"]
            steps.plot(*smoothed(row["losses"], window, len(scores)), **style)
            scaled = np.multiply(scores, epoch_score.scale)
            places = np.arange(len(scores)) + 1
            epochs.plot(places, scaled, marker=".", **style)
        steps.set_ylabel(f"training loss, mean of {window} steps")
        steps.set_ylim(bottom=0)
        epochs.set_ylabel(f"validation {epoch_score.name}{_unit(epoch_score)}")
        steps.figure.suptitle(title)
        steps.legend(
            title=f"test {score.name}",
            title_fontsize=7,
            fontsize=7,
            ncols=1 if len(drawn) <= 12 else 2,
            loc="lower left",
        )


def _drawn(rows, score):
    """The runs to draw, and the picture's title."""
    task = rows[0]["key"]["settings"]["task"]
    if len(rows) <= DRAWN:
        return rows, task
    chosen = best(groups(rows), DRAWN, score).values()
    drawn = [row for group in chosen for row in group][:DRAWN]
    return drawn, f"{task}: {len(drawn)} of {len(rows):,} runs"


def draw_costs(rows, score, path):
    """Draws a mark for each group of seeds: score over speed, area memory.

    Args:
        rows: List of results.
        score: `Score` of the test.
        path: Path of the `.png` file.

    Returns:
        Boolean, whether speed and memory of any group are known.
    """
    import matplotlib  # commands start faster

    grouped = groups(rows)
    marks = [
        (labels(grouped)[key], *figures)
        for key, group in grouped.items()
        if _all_finite(figures := [mean(group, x) for x in COSTS])
    ]
    if not marks:
        return False
    names, speeds, scores, memory = zip(*marks, strict=True)
    scores = np.multiply(scores, score.scale)
    with (
        matplotlib.rc_context({"text.parse_math": False}),
        picture(path, size=(8, 5), label="training steps per second") as axes,
    ):
        areas = LARGEST * np.divide(memory, max(memory))
        colours = [f"C{number % 10}" for number in range(len(marks))]
        axes.scatter(speeds, scores, areas, colours, alpha=0.6)
        for place in zip(names, speeds, scores, strict=True):
            axes.annotate(
                place[0],
                place[1:],
                (0, 2 + math.sqrt(LARGEST / math.pi)),  # above the largest
                textcoords="offset points",
                ha="center",
                fontsize=8,
            )
        axes.margins(0.12)
        axes.set_ylabel(f"test {score.name}{_unit(score)}")
        least, most = (f(memory) / 2**20 for f in (min, max))
        axes.set_title(
            f"{rows[0]['key']['settings']['task']}: areas are peak memory, "
            f"{least:,.0f} to {most:,.0f} MiB",
            fontsize=10,
        )
    return True


def _all_finite(figures):
    return all(x is not None and math.isfinite(x) for x in figures)

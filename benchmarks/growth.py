"""How time and memory of each mixer grow with the length.

    KERAS_BACKEND=torch python benchmarks/growth.py
    KERAS_BACKEND=jax python benchmarks/growth.py --lengths 1024 8192 \\
        --variants MultiHeadAttention "local(window=64)" linear
    python benchmarks/growth.py --report

One sample, a forward pass or a training step. Each mixer has a process of its
own in each mode, from the shortest length to the longest; memory is the peak
beyond what the process held before. What grows with the square of the length
stops at `--quadratic`. Rows go to a CSV file one by one: a run that was stopped
goes on where it was.
"""

import argparse
import csv
import itertools
import os
import pathlib
import statistics
import subprocess
import sys
import time

os.environ.setdefault("KERAS_BACKEND", "jax")

import command
import reporting
from records import Records
from rich.console import Console
from rich.progress import Progress

REFERENCE = "MultiHeadAttention"
# Those whose time or memory is a square of the length.
QUADRATIC = [REFERENCE, "V", "R", "additive", "relu", "mlp_mixer", "gmlp"]
OTHERS = [
    "fnet",
    "light_conv(width=7)",
    "dynamic_conv(width=7)",
    "local(window=64)",
    "strided(stride=64)",
    "longformer(window=64)",
    "big_bird",
    "linformer(rank=64)",
    "linear",
    "performer(features=64)",
]
MODES = ["inference", "training"]
KEY = ["backend", "length", "width", "heads", "mode", "mixer"]
FIELDS = [*KEY, "seconds", "bytes", "note"]
ROUNDS = 3
LONGEST_STEP = 8  # seconds; where twice the length takes longer it stops


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = command.adder(parser)
    add(
        "--lengths",
        "in tokens, T",
        type=int,
        nargs="+",
        default=[512, 1024, 2048, 4096, 8192, 16384],
    )
    add(
        "--quadratic",
        "longest length of mixers that compare all pairs",
        type=int,
        default=4096,
    )
    add(
        "--longest-reference",
        f"longest length of {REFERENCE}, in training too",
        type=int,
        default=8192,
    )
    add("--hidden-dim", dest="width", type=int, default=256)
    add("--num-heads", dest="heads", type=int, default=4)
    add("--modes", "what a step does", nargs="+", default=MODES, choices=MODES)
    add("--variants", "mixers", nargs="+", default=[*QUADRATIC, *OTHERS])
    add("--report", action="store_true", help="only print what there is")
    add("--markdown", action="store_true", help="the same, as Markdown")
    add("--output", type=pathlib.Path, default=pathlib.Path("benchmarks/out"))
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    return command.parse(parser)


def lengths_of(mixer, settings):
    most = max(settings.lengths)
    if mixer == REFERENCE:
        most = settings.longest_reference
    elif mixer in QUADRATIC:
        most = settings.quadratic
    return [length for length in sorted(settings.lengths) if length <= most]


def one(mixer, mode, settings):
    """Prints a line `length,seconds,bytes` for each length."""
    import contenders
    import steps
    from measuring import PeakMemory

    def step_at(length):
        cell = contenders.Cell(
            1, length, settings.width, settings.heads, "float32", "plain"
        )
        return steps.MODES[mode](contenders.make(mixer, cell), cell.inputs())

    step_at(256)()  # loads what is loaded when it is first used
    memory = PeakMemory(steps.BACKEND, steps.on_gpu())
    for length in settings.lengths:
        step = step_at(length)
        step()
        taken = memory.of(step)  # warms up, too
        seconds = []
        while len(seconds) < ROUNDS and sum(seconds) < LONGEST_STEP:
            started = time.perf_counter()
            step()
            seconds.append(time.perf_counter() - started)
        print(f"{length},{statistics.median(seconds):.6g},{taken}", flush=True)
        if seconds[0] > LONGEST_STEP / 4:
            break  # four times as long, or more


def measure(mixer, mode, settings, records):
    """Starts a process for the lengths that are not there yet."""
    shape = {"width": settings.width, "heads": settings.heads}
    shape |= {"backend": os.environ["KERAS_BACKEND"]}
    shape |= {"mode": mode, "mixer": mixer}
    todo = [
        length
        for length in lengths_of(mixer, settings)
        if {**shape, "length": length} not in records
    ]
    if not todo:
        return
    arguments = [
        *("--one", mixer, mode, "--lengths", *map(str, todo)),
        *("--hidden-dim", str(settings.width)),
        *("--num-heads", str(settings.heads)),
    ]
    process = subprocess.Popen(
        [sys.executable, __file__, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in process.stdout:
        fields = line.strip().split(",")
        if len(fields) == 3 and fields[0] == str(todo[0]):
            length, seconds, taken = fields
            row = {"length": length, "seconds": seconds, "bytes": taken}
            records.append({**shape, **row})
            todo.pop(0)
    errors = process.stderr.read().strip().splitlines()
    why = "a step of the next length takes too long"
    if process.wait():
        why = errors[-1] if errors else f"ended with {process.returncode}"
    for length in todo:
        note = {"length": length, "note": f"not measured: {why}"}
        records.append({**shape, **note})


def report(folder, markdown=False):
    """Prints the tables and saves the pictures of all files in a folder."""
    for path in sorted(folder.glob("growth_*.csv")):
        with open(path, encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if row["seconds"]]
        if not rows:
            continue
        for mode in dict.fromkeys(row["mode"] for row in rows):
            own = [row for row in rows if row["mode"] == mode]
            title = f"{rows[0]['backend']}, {mode}"
            if markdown:
                _print_markdown(title, *_table(own))
            else:
                reporting.print_table(f"{title}: ms, and MiB", *_table(own))
        _save_picture(rows, path.with_suffix(".png"))
        print(f"{path} and {path.with_suffix('.png').name}")


def _table(rows):
    """Headings, and for each mixer times, memory, and growth in the end."""
    lengths = sorted({int(row["length"]) for row in rows})
    found = {(r["mixer"], int(r["length"])): r for r in rows}
    headings = [
        "mixer",
        *(f"T {n}" for n in lengths),
        "MiB, longest",
        "time, 8192 / 1024",
        "memory, 8192 / 1024",
    ]
    body = []
    for mixer in dict.fromkeys(row["mixer"] for row in rows):
        cells = [found.get((mixer, length)) for length in lengths]
        times = [
            f"{1000 * float(cell['seconds']):.0f}" if cell else ""
            for cell in cells
        ]
        longest = [cell for cell in cells if cell][-1]
        ends = [found.get((mixer, length)) for length in (1024, 8192)]
        growth = ["", ""]
        if all(ends):
            growth = [
                f"{float(ends[1][key]) / max(1e-9, float(ends[0][key])):.1f}"
                for key in ("seconds", "bytes")
            ]
        memory = f"{int(longest['bytes']) / 2**20:.0f}"
        body.append([mixer, *times, memory, *growth])
    return headings, body


def _print_markdown(title, headings, body):
    print(f"\n{title}\n")
    print("| " + " | ".join(headings) + " |")
    print("|---" * len(headings) + "|")
    for mixer, *cells in body:
        print(f"| `{mixer}` | " + " | ".join(cells) + " |")


def _save_picture(rows, path):
    measures = {"seconds": "seconds", "bytes": "bytes beyond the start"}
    modes = list(dict.fromkeys(row["mode"] for row in rows))
    panels = list(itertools.product(modes, measures))
    size = (2 + 5 * len(panels), 5.5)
    with reporting.picture(path, len(panels), size, "tokens, T") as axes:
        for each, (mode, measure_) in zip(axes, panels, strict=True):
            own = [row for row in rows if row["mode"] == mode]
            for i, mixer in enumerate(dict.fromkeys(r["mixer"] for r in rows)):
                points = sorted(
                    (int(r["length"]), float(r[measure_]))
                    for r in own
                    if r["mixer"] == mixer
                )
                style = "--" if mixer in QUADRATIC else "-"
                places, values = (
                    zip(*points, strict=True) if points else ((), ())
                )
                color = None if mixer != REFERENCE else "black"
                each.plot(
                    places,
                    values,
                    style,
                    label=mixer,
                    color=color or f"C{i % 10}",
                    marker="os^vD"[i // 4 % 5],
                    markersize=4,
                )
            each.set_xscale("log", base=2)
            each.set_yscale("log")
            each.set_title(
                f"{rows[0]['backend']}, {mode}: {measures[measure_]}"
            )
        axes[-1].legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))


def main():
    settings = parse()
    if settings.one:
        one(*settings.one, settings)
        return
    if not (settings.report or settings.markdown):
        backend = os.environ["KERAS_BACKEND"]
        records = Records(
            settings.output / f"growth_{backend}.csv", FIELDS, KEY
        )
        work = list(itertools.product(settings.modes, settings.variants))
        with Progress(console=Console(stderr=True)) as progress:
            task = progress.add_task(backend, total=len(work))
            for mode, mixer in work:
                progress.update(task, description=f"{backend} {mode} {mixer}")
                measure(mixer, mode, settings, records)
                progress.advance(task)
    report(settings.output, settings.markdown)


if __name__ == "__main__":
    main()

"""Time and memory of one attention layer compared with MultiHeadAttention.

All variants of a cell (shape, dtype, mask, mode) are timed in turn in one
process; ratios are within a cell. Memory is measured in a process for each,
since peaks never sink. Rows go to a CSV file one by one: a run that was
stopped, or that had used up its `--minutes`, goes on where it was.

    KERAS_BACKEND=jax python benchmarks/layers.py
    KERAS_BACKEND=torch python benchmarks/layers.py --lengths 256 1024 \\
        --masks padded --modes training --variants MultiHeadAttention R D
    KERAS_BACKEND=jax python benchmarks/layers.py --memory --lengths 2048
    python benchmarks/layers.py --report
"""

import csv
import itertools
import json
import os
import statistics
import subprocess
import sys
import time

os.environ.setdefault("KERAS_BACKEND", "jax")

import measuring
import steps

CELL = ["backend", "device", *steps.Cell._fields, "mode"]
KEY = [*CELL, "measure", "contender"]
FIELDS = [*KEY, "value", "spread", "first_call", "note"]
VARIANTS = [steps.BASELINE, steps.FLOOR]
VARIANTS += "V R FR Fix D FD R+FR R+V FR+V D+V R+D".split()
ROUNDS = 3  # of what is measured apart
LONGEST_STEP = 8  # seconds; where twice the length takes longer it stops


def parse():
    parser = measuring.options(
        __doc__,
        {"masks": steps.MASKS, "modes": [*steps.MODES]},
        lengths=[64, 256, 1024, 4096],
        tokens=4096,
        batch_size=0,
        hidden_dim=512,
        num_heads=8,
        dtypes=["float32"],
        masks=steps.MASKS,
        modes=[*steps.MODES],
        variants=VARIANTS,
        rounds=11,
        minutes=9.5,
        memory=False,
        output=measuring.OUTPUT,
    )
    parser.add_argument(
        *("--report", "--markdown"),
        action="store_true",
        help="only print what there is",
    )
    parser.add_argument("--one", help="for memory: JSON of `apart`")
    settings = parser.parse_args()
    steps.check(parser, settings.variants)
    return settings


def cells(settings):
    for dtype, mask, length in itertools.product(
        settings.dtypes, settings.masks, settings.lengths
    ):
        batch = settings.batch_size or max(1, settings.tokens // length)
        shape = batch, length, settings.hidden_dim, settings.num_heads
        yield steps.Cell(*shape, dtype, mask)


def measure_time(cell, mode, names, settings):
    """Yields the rows of a cell, of all variants in one go."""
    x = cell.inputs()
    ready = {
        name: steps.MODES[mode](steps.make(name, cell), x) for name in names
    }
    for name, timing in measuring.interleaved(ready, settings.rounds).items():
        yield {
            "contender": name,
            "value": f"{timing.median:.6g}",
            "spread": f"{timing.spread:.3g}",
            "first_call": f"{timing.first:.3g}",
        }


def measure_memory(cell, mode, names, settings):
    for name in names:
        (found,) = apart(name, [cell], mode)
        note = found.get("note", "")
        row = {"contender": name, "value": found.get("bytes", "")}
        yield {**row, "note": note and f"skipped: {note}"}


def apart(name, cells, mode, warm=False):
    """Measures steps of cells, one after the other, in a process of its own.

    Args:
        name: String, a variant.
        cells: List of `Cell`, from the quickest to the slowest.
        mode: `"inference"` or `"training"`.
        warm: Whether to load first what is loaded when it is first used.

    Yields:
        A dictionary for each cell, of `seconds` and `bytes` or of a `note`.
    """
    asked = json.dumps([name, cells, mode, warm])
    process = subprocess.Popen(
        [sys.executable, __file__, "--one", asked],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    count = 0
    for line in process.stdout:
        if line.startswith('{"seconds"'):
            count += 1
            yield json.loads(line)
    errors = process.stderr.read().strip().splitlines()
    why = "a step of the next length takes too long"
    if process.wait():
        why = errors[-1] if errors else f"ended with {process.returncode}"
    for _ in cells[count:]:
        yield {"note": why}


def one(name, cells, mode, warm):
    """Prints what `apart` yields."""

    def step_of(cell):
        program = steps.make(name, cell)
        return steps.MODES[mode](program, cell.inputs())

    cells = [steps.Cell(*cell) for cell in cells]
    steps.array([0.0])  # starts the backend
    if warm:
        step_of(cells[0]._replace(length=256))()
    memory = measuring.PeakMemory(steps.BACKEND, steps.on_gpu())
    for cell in cells:
        step, seconds = step_of(cell), []
        step()
        peak = memory.of(step)  # warms up, too
        while len(seconds) < ROUNDS and sum(seconds) < LONGEST_STEP:
            started = time.perf_counter()
            step()
            seconds.append(time.perf_counter() - started)
        found = {"seconds": float(f"{statistics.median(seconds):.6g}")}
        found["bytes"] = peak
        print(json.dumps(found), flush=True)
        if seconds[0] > LONGEST_STEP / 4:
            break  # four times as long, or more


def report(folder):
    """Prints the ratios to the baseline, a table for each mode and dtype."""
    for path in sorted(folder.glob("layers_*.csv")):
        with open(path, encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if row["value"]]
        kinds = ("device", "measure", "mode", "dtype")
        for kind in dict.fromkeys(tuple(row[k] for k in kinds) for row in rows):
            own = {}
            for row in rows:
                if tuple(row[k] for k in kinds) == kind:
                    place = row["mask"], row["length"], row["batch"]
                    found = own.setdefault(row["contender"], {})
                    found[place] = float(row["value"])
            places = [
                *dict.fromkeys(x for found in own.values() for x in found)
            ]
            heads = [f"{m}, T {length}, B {b}" for m, length, b in places]
            table = [
                [name, *(_shown(own, name, x, kind[1]) for x in places)]
                for name in own
            ]
            measuring.print_table(", ".join(kind), ["", *heads], table)


def _shown(found, name, place, measure):
    value = found[name].get(place)
    first = found.get(steps.BASELINE, {}).get(place)
    if value is None:
        return ""
    if name == steps.BASELINE or first is None:
        is_size = measure == "bytes"
        return (
            f"{value / 2**20:,.0f} MiB" if is_size else f"{1e3 * value:.3g} ms"
        )
    return f"{first / value:.2f}"


def measure(settings):
    path = settings.output / f"layers_{steps.BACKEND}.csv"
    records = measuring.Records(path, FIELDS, KEY)
    deadline = time.monotonic() + 60 * settings.minutes
    work = list(itertools.product(cells(settings), settings.modes))
    function = measure_memory if settings.memory else measure_time
    for i, (cell, mode) in enumerate(work):
        if time.monotonic() > deadline:
            measuring.progress(
                f"{len(work) - i} of {len(work)} cells are left; "
                "run the same command again to go on."
            )
            return
        shared = {
            "backend": steps.BACKEND,
            "device": steps.device(),
            **cell._asdict(),
            "mode": mode,
            "measure": "bytes" if settings.memory else "seconds",
        }
        known = [
            name
            for name in settings.variants
            if {**shared, "contender": name} in records
        ]
        names = [name for name in settings.variants if name not in known]
        if not settings.memory and names:
            names = settings.variants  # ratios are of one run
        if names:
            measuring.progress(mode, *cell)
            for row in function(cell, mode, names, settings):
                records.append({**shared, **row})


def main():
    settings = parse()
    if settings.one:
        one(*json.loads(settings.one))
        return
    if not settings.report:
        measure(settings)
    report(settings.output)


if __name__ == "__main__":
    main()

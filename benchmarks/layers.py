"""Time and memory of attention layers compared with MultiHeadAttention.

All variants of a cell (shape, dtype, mask, mode) are timed in turn in one
process; ratios are within a cell. With `--memory`, each variant has a process
of its own in each mode, from the shortest length to the longest, for its peak
memory and how time and memory grow. Rows go to a CSV file one by one: a run
that was stopped, or that had used up its `--minutes`, continues there.

    KERAS_BACKEND=jax python benchmarks/layers.py
    KERAS_BACKEND=torch python benchmarks/layers.py --lengths 256 1024 \\
        --masks padded --modes training --variants MultiHeadAttention R D
    KERAS_BACKEND=jax python benchmarks/layers.py --memory --batch-size 1 \\
        --lengths 1024 8192 --variants "local(window=64)" linear
    python benchmarks/layers.py --report
"""

import csv
import itertools
import os
import time

os.environ.setdefault("KERAS_BACKEND", "jax")

import measuring
import steps

CELL = ["backend", "device", *steps.Cell._fields, "mode"]
KEY = [*CELL, "measure", "contender"]
FIELDS = [*KEY, "value", "spread", "first_call", "note"]
VARIANTS = [steps.BASELINE, steps.FLOOR]
VARIANTS += "V R FR Fix D FD R+FR R+V FR+V D+V R+D".split()
# Of rows: in turn, or in processes of their own.
IN_TURN, APART = "seconds", ("seconds apart", "bytes")


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
        report=False,
        output=measuring.OUTPUT,
    )
    settings = parser.parse_args()
    steps.check(parser, settings.variants)
    return settings


def cells(settings, dtype, mask):
    """The cells of all lengths."""
    for length in sorted(settings.lengths):
        batch = settings.batch_size or max(1, settings.tokens // length)
        shape = batch, length, settings.hidden_dim, settings.num_heads
        yield steps.Cell(*shape, dtype, mask)


def row_of(cell, mode, name, measure):
    """The key of a row."""
    return {
        "backend": steps.BACKEND,
        "device": steps.device(),
        **cell._asdict(),
        "mode": mode,
        "measure": measure,
        "contender": name,
    }


def in_turn(settings, records):
    """Yields a function for each cell that is not known, of all variants."""

    def measure(cell, mode):
        x, names = cell.inputs(), settings.variants
        ready = {
            name: steps.MODES[mode](steps.make(name, cell), x) for name in names
        }
        timings = measuring.interleaved(ready, settings.rounds)
        for name, timing in timings.items():
            row = {
                "value": f"{timing.median:.6g}",
                "spread": f"{timing.spread:.3g}",
                "first_call": f"{timing.first:.3g}",
            }
            records.append({**row_of(cell, mode, name, IN_TURN), **row})

    for dtype, mask in itertools.product(settings.dtypes, settings.masks):
        for cell in cells(settings, dtype, mask):
            for mode in settings.modes:
                if any(
                    row_of(cell, mode, name, IN_TURN) not in records
                    for name in settings.variants
                ):
                    yield measure, cell, mode


def each_apart(settings, records):
    """Yields a function for each variant of which lengths are not known."""
    from apart import results

    def measure(name, mode, todo):
        for cell, found in zip(todo, results(name, todo, mode), strict=True):
            note = f"not measured: {found['note']}" if "note" in found else ""
            for measure in APART:
                row = {"value": found.get(measure.split()[0], ""), "note": note}
                records.append({**row_of(cell, mode, name, measure), **row})

    for dtype, mask, mode, name in itertools.product(
        settings.dtypes, settings.masks, settings.modes, settings.variants
    ):
        todo = [
            cell
            for cell in cells(settings, dtype, mask)
            if row_of(cell, mode, name, APART[-1]) not in records
        ]
        if todo:
            yield measure, name, mode, todo


def measure(settings):
    path = settings.output / f"layers_{steps.BACKEND}.csv"
    records = measuring.Records(path, FIELDS, KEY)
    deadline = time.monotonic() + 60 * settings.minutes
    make = each_apart if settings.memory else in_turn
    work = [*make(settings, records)]
    for i, (function, *arguments) in enumerate(work):
        if time.monotonic() > deadline:
            measuring.progress(
                f"{len(work) - i} of {len(work)} cells are left; "
                "run the same command again to continue."
            )
            return
        measuring.progress(*arguments)
        function(*arguments)


def report(folder):
    """Prints a table for each mode, dtype and measure."""
    kinds = ("device", "measure", "mode", "dtype")
    for path in sorted(folder.glob("layers_*.csv")):
        with open(path, encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if row["value"]]
        for kind in dict.fromkeys(tuple(row[k] for k in kinds) for row in rows):
            own = {}
            for row in rows:
                if tuple(row[k] for k in kinds) == kind:
                    place = row["mask"], int(row["length"]), int(row["batch"])
                    found = own.setdefault(row["contender"], {})
                    found[place] = float(row["value"])
            places = [
                *dict.fromkeys(x for found in own.values() for x in found)
            ]
            heads = ["", *(f"{m}, T {n}, B {b}" for m, n, b in places)]
            table = [
                [name, *(_shown(own, name, place, kind[1]) for place in places)]
                for name in own
            ]
            growths = [_growth(own[name]) for name in own]
            if kind[1] != IN_TURN and any(growths):
                heads.append("growth, longest / 1024")
                for row, growth in zip(table, growths, strict=True):
                    row.append(growth)
            measuring.print_table(", ".join(kind), heads, table)


def _shown(found, name, place, measure):
    """Of times in turn a ratio to the baseline's, else the value."""
    value = found[name].get(place)
    first = found.get(steps.BASELINE, {}).get(place)
    if value is None:
        return ""
    if measure == "bytes":
        return f"{value / 2**20:,.0f} MiB"
    if measure == IN_TURN and first and name != steps.BASELINE:
        return f"{first / value:.2f}"
    return f"{1e3 * value:.3g} ms"


def _growth(found):
    """The value at the longest length over that at 1,024 tokens."""
    lengths = {length: value for (_, length, _), value in found.items()}
    longest = max(lengths)
    if longest == 1024 or 1024 not in lengths:
        return ""
    return f"{lengths[longest] / max(1e-9, lengths[1024]):.1f}"


def main():
    settings = parse()
    if not settings.report:
        measure(settings)
    report(settings.output)


if __name__ == "__main__":
    main()

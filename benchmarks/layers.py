"""Time and memory of attention layers compared with MultiHeadAttention.

All variants of a cell (shape, dtype, mask, mode) are timed in turn in one
process; ratios are within a cell. With `--memory`, each variant has a process
of its own in each mode, from the shortest length to the longest, for its peak
memory and how time and memory grow. Rows go to a file one by one: a run
that was stopped, or that had used up its `--minutes`, continues there.

    KERAS_BACKEND=jax python benchmarks/layers.py
    KERAS_BACKEND=torch python benchmarks/layers.py --lengths 256 1024 \\
        --masks padded --modes training --variants MultiHeadAttention R D
    KERAS_BACKEND=jax python benchmarks/layers.py --memory --batch-size 1 \\
        --lengths 1024 8192 --variants "local(window=64)" linear
    python benchmarks/layers.py --report
"""

import itertools
import os
import time

os.environ.setdefault("KERAS_BACKEND", "jax")

import apart
import measuring
import steps

KEY = ["backend", "device", *steps.Cell._fields]
KEY += ["mode", "measure", "contender"]
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


def keys(cell, mode, names, measures):
    """Fields that tell the rows of names in a cell apart, for each row."""
    place = {"backend": steps.BACKEND, "device": steps.device()}
    place |= {**cell._asdict(), "mode": mode}
    return [
        {**place, "measure": measure, "contender": name}
        for name in names
        for measure in measures
    ]


def in_turn(settings, records):
    """Measures all variants of each cell that is not known.

    Yields:
        Strings that say what is measured next.
    """
    for dtype, mask in itertools.product(settings.dtypes, settings.masks):
        for cell in cells(settings, dtype, mask):
            for mode in settings.modes:
                rows = keys(cell, mode, settings.variants, [IN_TURN])
                if all(map(records.get, rows)):
                    continue
                yield f"{cell} {mode}"
                ready = {
                    name: steps.step_of(mode, name, cell)
                    for name in settings.variants
                }
                timings = measuring.interleaved(ready, settings.rounds)
                for row in rows:
                    median, spread, first = timings[row["contender"]]
                    row |= {"value": median, "spread": spread}
                    records.append({**row, "first_call": first})


def each_apart(settings, records):
    """Measures each variant at the lengths that are not known.

    Yields:
        Strings that say what is measured next.
    """
    for dtype, mask, mode, name in itertools.product(
        settings.dtypes, settings.masks, settings.modes, settings.variants
    ):
        todo = [
            cell
            for cell in cells(settings, dtype, mask)
            if not records.get(keys(cell, mode, [name], APART)[-1])
        ]
        if not todo:
            continue
        yield f"{name} {mode} {todo}"
        for cell, found in zip(
            todo, apart.results(name, todo, mode), strict=True
        ):
            for row in keys(cell, mode, [name], APART):
                value = found.get(row["measure"].split()[0])
                records.append({**row, "value": value, "note": found["note"]})


def measure(settings):
    path = settings.output / f"layers_{steps.BACKEND}.jsonl"
    records = measuring.Records(path, KEY)
    deadline = time.monotonic() + 60 * settings.minutes
    for title in (each_apart if settings.memory else in_turn)(
        settings, records
    ):
        if time.monotonic() > deadline:
            measuring.progress(
                "Cells are left; run the same command again to continue."
            )
            return
        measuring.progress(title)


def report(folder):
    """Prints a table for each mode, dtype and measure."""
    for path in sorted(folder.glob("layers_*.jsonl")):
        kinds = {}  # -> contender -> place -> value
        for row in measuring.Records(path).rows:
            if row["value"] is not None:
                kind = [row[k] for k in ("device", "measure", "mode", "dtype")]
                found = kinds.setdefault(tuple(kind), {})
                place = row["mask"], row["length"], row["batch"]
                found.setdefault(row["contender"], {})[place] = row["value"]
        for kind, found in kinds.items():
            places = dict.fromkeys(x for own in found.values() for x in own)
            heads = ["", *(f"{m}, T {n}, B {b}" for m, n, b in places)]
            table = [
                [name, *(_shown(found, name, x, kind[1]) for x in places)]
                for name in found
            ]
            growths = [_growth(own) for own in found.values()]
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

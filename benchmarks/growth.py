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

import csv
import itertools
import os

os.environ.setdefault("KERAS_BACKEND", "jax")

import layers
import measuring
import steps

# Those whose time or memory is a square of the length.
QUADRATIC = [steps.BASELINE, "V", "R", "additive", "relu", "mlp_mixer", "gmlp"]
OTHERS = ["fnet", "light_conv(width=7)", "dynamic_conv(width=7)"]
OTHERS += ["local(window=64)", "strided(stride=64)", "longformer(window=64)"]
OTHERS += ["big_bird", "linformer(rank=64)", "linear", "performer(features=64)"]
KEY = ["backend", "length", "width", "heads", "mode", "mixer"]
FIELDS = [*KEY, "seconds", "bytes", "note"]


def parse():
    parser = measuring.options(
        __doc__,
        {"modes": [*steps.MODES]},
        lengths=[512, 1024, 2048, 4096, 8192, 16384],
        quadratic=4096,
        longest_reference=8192,
        hidden_dim=256,
        num_heads=4,
        modes=[*steps.MODES],
        variants=[*QUADRATIC, *OTHERS],
        output=measuring.OUTPUT,
    )
    parser.add_argument(
        *("--report", "--markdown"),
        action="store_true",
        help="only print what there is",
    )
    settings = parser.parse_args()
    steps.check(parser, settings.variants)
    return settings


def lengths_of(mixer, settings):
    most = max(settings.lengths)
    if mixer == steps.BASELINE:
        most = settings.longest_reference
    elif mixer in QUADRATIC:
        most = settings.quadratic
    return [length for length in sorted(settings.lengths) if length <= most]


def measure(mixer, mode, settings, records):
    """Starts a process for the lengths that are not there yet."""
    sizes = settings.hidden_dim, settings.num_heads
    shape = {"backend": steps.BACKEND, "mode": mode, "mixer": mixer}
    shape |= {"width": sizes[0], "heads": sizes[1]}
    lengths = [
        length
        for length in lengths_of(mixer, settings)
        if {**shape, "length": length} not in records
    ]
    cells = [steps.Cell(1, length, *sizes) for length in lengths]
    found = layers.apart(mixer, cells, mode, warm=True) if cells else ()
    for length, row in zip(lengths, found, strict=True):
        if "note" in row:
            row["note"] = f"not measured: {row['note']}"
        records.append({**shape, "length": length, **row})


def report(folder):
    """Prints milliseconds, the memory at the longest length, and growth."""
    for path in sorted(folder.glob("growth_*.csv")):
        with open(path, encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if row["seconds"]]
        for mode in dict.fromkeys(row["mode"] for row in rows):
            own = {}
            for row in rows:
                if row["mode"] == mode:
                    found = float(row["seconds"]), float(row["bytes"])
                    own.setdefault(row["mixer"], {})[int(row["length"])] = found
            lengths = sorted({n for found in own.values() for n in found})
            heads = ["mixer", *(f"T {n}" for n in lengths), "MiB, longest"]
            heads += ["time, 8192 / 1024", "memory, 8192 / 1024"]
            measuring.print_table(
                f"{rows[0]['backend']}, {mode}: ms, and MiB",
                heads,
                [[k, *_cells(found, lengths)] for k, found in own.items()],
            )


def _cells(found, lengths):
    for length in lengths:
        yield f"{1000 * found[length][0]:.0f}" if length in found else ""
    yield f"{found[max(found)][1] / 2**20:.0f}"
    for place in (0, 1):
        ends = [found[n][place] for n in (8192, 1024) if n in found]
        yield f"{ends[0] / max(1e-9, ends[1]):.1f}" if len(ends) == 2 else ""


def main():
    settings = parse()
    if not settings.report:
        path = settings.output / f"growth_{steps.BACKEND}.csv"
        records = measuring.Records(path, FIELDS, KEY)
        for mode, mixer in itertools.product(settings.modes, settings.variants):
            measuring.progress(steps.BACKEND, mode, mixer)
            measure(mixer, mode, settings, records)
    report(settings.output)


if __name__ == "__main__":
    main()

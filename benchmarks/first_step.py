"""Time to the first training step, beside KerasHub's BertBackbone.

    KERAS_BACKEND=tensorflow python benchmarks/first_step.py
    KERAS_BACKEND=jax python benchmarks/first_step.py --variants V R --rounds 5

Two numbers in seconds, of a padded classifier of blocks of one size: from
before its first layer is made to the end of the first step, which traces and
compiles, and the second step alone. Each round of each has a process of its
own, without a cache of compiled programs; imports do not count. Rows go to a
CSV file one by one: a run that was stopped goes on where it was.
"""

import json
import os
import statistics
import subprocess
import sys
import time

os.environ.setdefault("KERAS_BACKEND", "jax")

import measuring

REFERENCE = "BertBackbone"
SHAPE = ["backend", "layers", "width", "heads", "batch", "length"]
KEY = [*SHAPE, "variant", "round"]
FIELDS = [*KEY, "first", "second"]
CACHE = "JAX_COMPILATION_CACHE_DIR"


def parse():
    parser = measuring.options(
        __doc__,
        variants=["V", "R", "R+V", "D+V", REFERENCE],
        num_layers=6,
        hidden_dim=256,
        num_heads=4,
        batch_size=8,
        sequence_length=256,
        rounds=3,
        output=measuring.OUTPUT,
    )
    parser.add_argument("--one", help="measures here: JSON of a row's key")
    return parser.parse_args()


def one(row):
    """Returns the seconds to the end of the first step, and of the second."""
    import contenders

    sizes = contenders.sizes(
        *(row[x] for x in ("width", "heads", "layers", "length"))
    )
    batch = contenders.examples(row["variant"], row["batch"], sizes)
    start = time.perf_counter()
    model = contenders.classifier(row["variant"], sizes)
    model.train_on_batch(*batch)  # waits: it returns the loss as a number
    first = time.perf_counter()
    model.train_on_batch(*batch)
    return first - start, time.perf_counter() - first


def apart(row):
    """The same, by a new process without a cache of programs."""
    done = subprocess.run(
        [sys.executable, __file__, "--one", json.dumps(row)],
        env={name: x for name, x in os.environ.items() if name != CACHE},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        why = lines[-1] if lines else f"status {done.returncode}"
        raise SystemExit(f"{row['variant']} was not measured: {why}")
    return done.stdout.split()[-2:]


def main():
    settings = parse()
    if settings.one:
        print(*(f"{x:.4g}" for x in one(json.loads(settings.one))))
        return
    backend = os.environ["KERAS_BACKEND"]
    shape = {
        "backend": backend,
        "layers": settings.num_layers,
        "width": settings.hidden_dim,
        "heads": settings.num_heads,
        "batch": settings.batch_size,
        "length": settings.sequence_length,
    }
    path = settings.output / f"first_step_{backend}.csv"
    records = measuring.Records(path, FIELDS, KEY)
    for number in range(settings.rounds):
        for variant in settings.variants:
            row = {**shape, "variant": variant, "round": number}
            if row not in records:
                measuring.progress(variant, number)
                first, second = apart(row)
                records.append({**row, "first": first, "second": second})
    known = {name: str(value) for name, value in shape.items()}
    medians = {
        variant: [
            statistics.median(float(row[name]) for row in own)
            for name in ("first", "second")
        ]
        for variant in settings.variants
        if (
            own := [
                row
                for row in records.rows
                if known.items() <= row.items() and row["variant"] == variant
            ]
        )
    }
    most = medians.get(REFERENCE, [float("nan")])[0]
    measuring.print_table(
        f"{', '.join(f'{k} {v}' for k, v in shape.items())}, padded",
        ["variant", "first step, s", f"over {REFERENCE}", "second, s"],
        [
            [name, f"{first:.2f}", f"{first / most:.2f}", f"{second:.3f}"]
            for name, (first, second) in medians.items()
        ],
    )


if __name__ == "__main__":
    main()

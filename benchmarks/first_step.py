"""Time to the first training step, beside KerasHub's BertBackbone.

    KERAS_BACKEND=tensorflow python benchmarks/first_step.py
    KERAS_BACKEND=jax python benchmarks/first_step.py --variants V R --rounds 5

Two numbers in seconds, of a padded classifier of blocks of one size: from
before its first layer is made to the end of the first step, which traces and
compiles, and the second step alone. Each round of each has a process of its
own, without a cache of compiled programs; imports do not count. Rows go to a
CSV file one by one: a run that was stopped goes on where it was.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import time

os.environ.setdefault("KERAS_BACKEND", "jax")

import command
from records import Records
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

REFERENCE = "BertBackbone"
VARIANTS = ["V", "R", "R+V", "D+V", REFERENCE]
SHAPE = ["backend", "layers", "width", "heads", "batch", "length"]
KEY = [*SHAPE, "variant", "round"]
FIELDS = [*KEY, "first", "second"]
CACHE = "JAX_COMPILATION_CACHE_DIR"
VOCABULARY = 20_000


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = command.adder(parser)
    add("--variants", nargs="+", default=VARIANTS)
    add("--num-layers", type=int, default=6)
    add("--hidden-dim", dest="width", type=int, default=256)
    add("--num-heads", dest="heads", type=int, default=4)
    add("--batch-size", dest="batch", type=int, default=8)
    add("--sequence-length", dest="length", type=int, default=256)
    add("--rounds", "processes of each variant", type=int, default=3)
    add("--one", "measures this one here, and prints what it took")
    add("--output", type=pathlib.Path, default=pathlib.Path("benchmarks/out"))
    return command.parse(parser)


# --- in a process of its own --------------------------------------------------


def made(variant, settings):
    """A compiled classifier."""
    import keras_hub

    from keras_synth import models

    sizes = {
        "vocabulary_size": VOCABULARY,
        "num_layers": settings.num_layers,
        "num_heads": settings.heads,
        "hidden_dim": settings.width,
        "intermediate_dim": 4 * settings.width,
        "max_sequence_length": settings.length,
        "dropout": 0.1,
    }
    if variant == REFERENCE:
        backbone = keras_hub.models.BertBackbone(**sizes)
        kind = keras_hub.models.BertTextClassifier
    else:
        backbone = models.SynthesizerBackbone(**sizes, synthesizer=variant)
        kind = models.SynthesizerTextClassifier
    model = kind(backbone, num_classes=2, preprocessor=None)
    model.compile("adam", _loss())
    return model


def _loss():
    import keras

    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def examples(variant, settings):
    """Padded token ids for a model, and labels."""
    import numpy as np

    random = np.random.default_rng(0)
    shape = settings.batch, settings.length
    real = random.integers(shape[1] // 4, shape[1], (shape[0], 1))
    mask = np.arange(shape[1]) <= real
    features = {
        "token_ids": random.integers(5, VOCABULARY, shape) * mask,
        "padding_mask": mask.astype("int32"),
    }
    if variant == REFERENCE:
        features["segment_ids"] = np.zeros(shape, "int32")
    return features, random.integers(0, 2, shape[0])


def measure(variant, settings):
    """Returns the seconds to the end of the first step, and of the second."""
    import keras_hub  # noqa: F401

    import keras_synth.models  # noqa: F401

    batch = examples(variant, settings)
    start = time.perf_counter()
    model = made(variant, settings)
    model.train_on_batch(*batch)  # waits: it returns the loss as a number
    first = time.perf_counter()
    model.train_on_batch(*batch)
    return first - start, time.perf_counter() - first


# --- in the first process -----------------------------------------------------


def measured_apart(variant, settings):
    """The same, by a new process without a cache of programs."""
    options = {
        "--one": variant,
        "--num-layers": settings.num_layers,
        "--hidden-dim": settings.width,
        "--num-heads": settings.heads,
        "--batch-size": settings.batch,
        "--sequence-length": settings.length,
    }
    words = [str(word) for pair in options.items() for word in pair]
    done = subprocess.run(
        [sys.executable, __file__, *words],
        env={name: x for name, x in os.environ.items() if name != CACHE},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        why = lines[-1] if lines else f"status {done.returncode}"
        raise SystemExit(f"{variant} was not measured: {why}")
    return [float(word) for word in done.stdout.split()[-2:]]


def print_table(rows, settings):
    console = Console()
    medians = {
        variant: [
            statistics.median(float(row[name]) for row in own)
            for name in ("first", "second")
        ]
        for variant in settings.variants
        if (own := [row for row in rows if row["variant"] == variant])
    }
    table = Table(
        title=f"{os.environ['KERAS_BACKEND']}, {settings.num_layers} blocks, "
        f"d {settings.width}, B {settings.batch}, T {settings.length}, padded"
    )
    heads = ("variant", "first step, s", f"over {REFERENCE}", "second, s")
    for heading in heads:
        table.add_column(heading, justify="right")
    reference = medians.get(REFERENCE)
    for variant, (first, second) in medians.items():
        ratio = f"{first / reference[0]:.2f}" if reference else "-"
        table.add_row(variant, f"{first:.2f}", ratio, f"{second:.3f}")
    console.print(table)


def main():
    settings = parse()
    if settings.one:
        print(*measure(settings.one, settings))
        return
    backend = os.environ["KERAS_BACKEND"]
    shape = {
        "backend": backend,
        "layers": settings.num_layers,
        **{name: getattr(settings, name) for name in SHAPE[2:]},
    }
    path = settings.output / f"first_step_{backend}.csv"
    records = Records(path, FIELDS, KEY)
    wanted = [
        {**shape, "variant": variant, "round": number}
        for number in range(settings.rounds)
        for variant in settings.variants
    ]
    with Progress(console=Console(stderr=True)) as progress:
        for row in progress.track(wanted, description="first steps"):
            if row not in records:
                taken = measured_apart(row["variant"], settings)
                numbers = [f"{seconds:.4g}" for seconds in taken]
                records.append(
                    {**row, "first": numbers[0], "second": numbers[1]}
                )
    own = {name: str(value) for name, value in shape.items()}
    rows = [row for row in records.rows if own.items() <= row.items()]
    print_table(rows, settings)


if __name__ == "__main__":
    main()

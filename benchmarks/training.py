"""Training whole models: steps per second of each variant relative to V.

Two models, as memory allows: the IMDB classifier of
examples/text_classification.py, trained with `model.fit`, and encoder blocks
of the shape of T5 base, the model of the paper's Table 4 (there: a whole
encoder and decoder, on TPU).

    KERAS_BACKEND=jax python benchmarks/training.py
    KERAS_BACKEND=torch python benchmarks/training.py --model blocks
"""

import argparse
import functools
import os
import pathlib

os.environ.setdefault("KERAS_BACKEND", "jax")

import command
import keras
import numpy as np
import steps
from contenders import Cell
from measuring import interleaved
from records import Records
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from keras_synth import models
from keras_synth.layers import SynthesizerEncoder

# Tay et al., 2021, Table 4: steps per second, the Transformer's being 1.
PAPER = {"V": 1.0, "R": 1.09, "D": 0.93, "R+V": 0.97, "D+V": 0.86}
VARIANTS = "V R FR Fix D FD R+V FR+V D+V R+D".split()
KEY = ["model", "backend", "device", "batch", "length", "contender"]
FIELDS = [*KEY, "seconds", "spread", "first_call", "parameters"]


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = command.adder(parser)
    add(
        "--model",
        "what to train",
        choices=["classifier", "blocks", "both"],
        default="both",
    )
    add("--variants", nargs="+", default=VARIANTS)
    add(
        "--batch-size",
        "of the classifier",
        dest="batch",
        type=int,
        default=64,
    )
    add(
        "--sequence-length",
        "of the classifier, in tokens",
        dest="length",
        type=int,
        default=256,
    )
    add("--block-batch", "batch size of the blocks", type=int, default=4)
    add("--block-length", "of the blocks, in tokens", type=int, default=512)
    add("--num-layers", type=int, default=2, help="of both")
    add("--steps", type=int, default=5, help="of one call of fit")
    add("--rounds", type=int, default=7)
    add("--output", type=pathlib.Path, default=pathlib.Path("benchmarks/out"))
    return command.parse(parser)


def classifier(variant, settings):
    """Returns a function that makes `settings.steps` training steps."""
    keras.utils.set_random_seed(0)
    vocabulary, classes = 20_000, 2
    backbone = models.SynthesizerBackbone(
        vocabulary_size=vocabulary,
        num_layers=settings.num_layers,
        num_heads=4,
        hidden_dim=128,
        intermediate_dim=512,
        synthesizer=variant,
        dropout=0.1,
        max_sequence_length=settings.length,
    )
    model = models.SynthesizerTextClassifier(
        backbone, num_classes=classes, dropout=0.1
    )
    model.compile(optimizer=keras.optimizers.AdamW(1e-3, weight_decay=0.004))
    shape = (settings.steps * settings.batch, settings.length)
    random = np.random.default_rng(0)
    lengths = random.integers(shape[1] // 4, shape[1], (shape[0], 1))
    padding = np.arange(shape[1]) <= lengths
    features = {
        "token_ids": random.integers(5, vocabulary, shape) * padding,
        "padding_mask": padding.astype("int32"),
    }
    labels = random.integers(0, classes, shape[0])
    step = functools.partial(
        model.fit, features, labels, batch_size=settings.batch, verbose=0
    )
    return step, model.count_params()


def blocks(variant, settings):
    """Returns a function that makes one training step."""
    cell = Cell(
        settings.block_batch,
        settings.block_length,
        width=768,
        heads=12,
        dtype="float32",
        mask="plain",
    )
    stack = keras.Sequential(
        [
            SynthesizerEncoder(
                3072,
                cell.heads,
                synthesizer=variant,
                max_length=cell.length,
                normalize_first=True,
            )
            for _ in range(settings.num_layers)
        ]
    )
    program = steps.of_layer(
        stack, lambda: stack.build((None, *cell.shape[1:]))
    )
    return steps.training(program, cell.inputs()), stack.count_params()


def measure(model, settings, records):
    build = {"classifier": classifier, "blocks": blocks}[model]
    per_call = settings.steps if model == "classifier" else 1
    batch, length = {
        "classifier": (settings.batch, settings.length),
        "blocks": (settings.block_batch, settings.block_length),
    }[model]
    rows = {
        variant: {
            "model": model,
            "backend": steps.BACKEND,
            "device": steps.device(),
            "batch": batch,
            "length": length,
            "contender": variant,
        }
        for variant in settings.variants
    }
    if not all(row in records for row in rows.values()):
        built = {name: build(name, settings) for name in rows}
        calls = {name: call for name, (call, _) in built.items()}
        with Progress(console=Console(stderr=True)) as progress:
            task = progress.add_task(model, total=settings.rounds)
            timings = interleaved(
                calls, settings.rounds, lambda: progress.advance(task)
            )
        for name, timing in timings.items():
            numbers = {
                "seconds": f"{timing.median / per_call:.6g}",
                "spread": f"{timing.spread / per_call:.3g}",
                "first_call": f"{timing.first:.3g}",
                "parameters": built[name][1],
            }
            records.append({**rows[name], **numbers})
    measured = [
        row
        for row in records.rows
        if all(
            row[k] == str(v)
            for k, v in next(iter(rows.values())).items()
            if k != "contender"
        )
    ]
    print_table(
        f"{model}, {steps.device()}, B {batch}, T {length}, "
        f"{settings.num_layers} layers",
        measured,
    )


def print_table(title, rows):
    table = Table(title=title)
    headings = "variant steps/s spread relative paper parameters first"
    for heading in headings.split():
        table.add_column(heading, justify="right")
    reference = [row for row in rows if row["contender"] == "V"]
    for row in rows:
        seconds = float(row["seconds"])
        relative = "-"
        if reference:
            relative = f"{float(reference[0]['seconds']) / seconds:.2f}"
        table.add_row(
            row["contender"],
            f"{1 / seconds:.2f}",
            f"±{100 * float(row['spread']) / seconds:.0f}%",
            relative,
            str(PAPER.get(row["contender"], "-")),
            f"{int(row['parameters']):,}",
            f"{float(row['first_call']):.1f} s",
        )
    Console().print(table)


def main():
    settings = parse()
    records = Records(
        settings.output / f"training_{steps.BACKEND}.csv", FIELDS, KEY
    )
    chosen = ["classifier", "blocks"]
    for model in chosen if settings.model == "both" else [settings.model]:
        measure(model, settings, records)


if __name__ == "__main__":
    main()

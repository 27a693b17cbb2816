"""Training whole models: steps per second of each variant relative to V.

Two models, as memory allows: the classifier of `first_step.py`, trained with
`model.fit`, and encoder blocks of the shape of T5 base, the model of the
paper's Table 4 (there: a whole encoder and decoder, on TPU).

    KERAS_BACKEND=jax python benchmarks/training.py
    KERAS_BACKEND=torch python benchmarks/training.py --model blocks
"""

import functools
import os

os.environ.setdefault("KERAS_BACKEND", "jax")

import contenders
import keras
import measuring
import steps

from keras_synth.layers import SynthesizerEncoder

# Tay et al., 2021, Table 4: steps per second, the Transformer's being 1.
PAPER = {"V": 1.0, "R": 1.09, "D": 0.93, "R+V": 0.97, "D+V": 0.86}
KEY = ["model", "backend", "device", "batch", "length", "contender"]
FIELDS = [*KEY, "seconds", "spread", "first_call", "parameters"]


def parse():
    parser = measuring.options(
        __doc__,
        {"model": ["classifier", "blocks", "both"]},
        model="both",
        variants="V R FR Fix D FD R+V FR+V D+V R+D".split(),
        batch_size=64,
        sequence_length=256,
        block_batch=4,
        block_length=512,
        num_layers=2,
        steps=5,
        rounds=7,
        output=measuring.OUTPUT,
    )
    settings = parser.parse_args()
    steps.check(parser, settings.variants)
    return settings


def classifier(variant, settings):
    """Returns a model and a function that makes some training steps."""
    keras.utils.set_random_seed(0)
    sizes = contenders.sizes(
        128, 4, settings.num_layers, settings.sequence_length
    )
    model = contenders.classifier(variant, sizes)
    batch = settings.batch_size
    data = contenders.examples(variant, settings.steps * batch, sizes)
    return model, functools.partial(
        model.fit, *data, batch_size=batch, verbose=0
    )


def blocks(variant, settings):
    """Returns a model and a function that makes one training step."""
    cell = steps.Cell(settings.block_batch, settings.block_length, 768, 12)
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
    stack.build((None, *cell.shape[1:]))
    return stack, steps.training(steps.of_layer(stack), cell.inputs())


def measure(kind, settings, records):
    make, per_call, shape = {
        "classifier": (
            classifier,
            settings.steps,
            (settings.batch_size, settings.sequence_length),
        ),
        "blocks": (blocks, 1, (settings.block_batch, settings.block_length)),
    }[kind]
    shared = {"model": kind, "backend": steps.BACKEND}
    shared |= {"device": steps.device(), "batch": shape[0], "length": shape[1]}
    names = settings.variants
    if not all({**shared, "contender": name} in records for name in names):
        ready = {name: make(name, settings) for name in names}
        calls = {name: step for name, (_, step) in ready.items()}
        for name, timing in measuring.interleaved(
            calls, settings.rounds
        ).items():
            row = {
                "contender": name,
                "seconds": f"{timing.median / per_call:.6g}",
                "spread": f"{timing.spread / per_call:.3g}",
                "first_call": f"{timing.first:.3g}",
                "parameters": ready[name][0].count_params(),
            }
            records.append({**shared, **row})
    known = {name: str(value) for name, value in shared.items()}
    rows = {
        row["contender"]: row
        for row in records.rows
        if known.items() <= row.items()
    }
    title = f"{kind}, {steps.device()}, B {shape[0]}, T {shape[1]}"
    heads = "variant steps/s spread relative paper parameters first".split()
    table = [line(row, rows.get("V")) for row in rows.values()]
    measuring.print_table(title, heads, table)


def line(row, reference):
    seconds = float(row["seconds"])
    ratio = reference and float(reference["seconds"]) / seconds
    return [
        row["contender"],
        f"{1 / seconds:.2f}",
        f"±{100 * float(row['spread']) / seconds:.0f}%",
        f"{ratio:.2f}" if ratio else "-",
        PAPER.get(row["contender"], "-"),
        f"{int(row['parameters']):,}",
        f"{float(row['first_call']):.1f} s",
    ]


def main():
    settings = parse()
    path = settings.output / f"training_{steps.BACKEND}.csv"
    records = measuring.Records(path, FIELDS, KEY)
    for kind in ("classifier", "blocks"):
        if settings.model in (kind, "both"):
            measure(kind, settings, records)


if __name__ == "__main__":
    main()

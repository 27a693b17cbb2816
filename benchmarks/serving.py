"""Classifiers as they are served: float32, folded, in int8, folded in int8.

Speed, size and agreement of the same classifier in each form. All forms of a
model are timed in turn in one process.

    KERAS_BACKEND=jax python benchmarks/serving.py
    KERAS_BACKEND=torch python benchmarks/serving.py R --batch-size 32

With `--presets`, folders of `SynthesizerTextClassifier`, these are measured
instead of models with random weights, and with `--data`, the folder of SST-2,
their accuracy on its dev set, too.
"""

import argparse
import os
import pathlib
import tempfile
from typing import NamedTuple

os.environ.setdefault("KERAS_BACKEND", "jax")

import command
import keras
import numpy as np
import steps
from keras import ops
from measuring import interleaved
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import keras_synth
from keras_synth import datasets, models, synthesizers

VARIANTS = "V R FR R+V".split()
LABELS = 2


def quantized(model):
    model.quantize("int8")
    return model


# Each takes a model of its own.
FORMS = {
    "float32": lambda model: model,
    "folded": keras_synth.fold,
    "int8": quantized,
    "folded, int8": lambda model: quantized(keras_synth.fold(model)),
}


class Served(NamedTuple):
    """What was measured of a model in one form."""

    name: str
    form: str
    seconds: float
    megabytes: float
    difference: float  # of probabilities, from those of float32, at most
    accuracy: float | None


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = command.adder(parser)
    add("synthesizers", "names of variants", nargs="*", default=VARIANTS)
    add("--presets", "to measure", nargs="+", type=pathlib.Path, default=[])
    add("--data", "folder of SST-2", type=pathlib.Path)
    add("--batch-size", dest="batch", type=int, default=1)
    add("--sequence-length", dest="length", type=int, default=512)
    add("--num-layers", dest="layers", type=int, default=4)
    add("--hidden-dim", dest="width", type=int, default=512)
    add("--num-heads", dest="heads", type=int, default=8)
    add("--vocabulary-size", "tokens", dest="tokens", type=int, default=8000)
    add("--forms", "of the models", nargs="+", choices=FORMS, default=[*FORMS])
    add("--rounds", type=int, default=15)
    add("--markdown", "a file for the table", type=pathlib.Path)
    settings = command.parse(parser)
    for name in settings.synthesizers:
        try:
            synthesizers.get(name, settings.heads, 8, 8)
        except ValueError as error:
            parser.error(str(error))
    for folder in settings.presets:
        if not (folder / "task.json").is_file():
            parser.error(
                "--presets must be folders that a SynthesizerTextClassifier "
                f"was saved to with save_to_preset. Received: {folder}"
            )
    if settings.data and not settings.presets:
        parser.error(
            "--data measures the accuracy of trained models; name some with "
            f"--presets. Received: --data {settings.data}"
        )
    return settings


def contenders(settings):
    """A dictionary of functions that make the models to measure."""
    if settings.presets:
        load = models.SynthesizerTextClassifier.from_preset
        return {
            folder.name: lambda folder=folder: load(folder)
            for folder in settings.presets
        }
    return {
        name: lambda name=name: made(name, settings)
        for name in settings.synthesizers
    }


def made(name, settings):
    """A classifier with random weights, the same ones at each call."""
    keras.utils.set_random_seed(0)
    backbone = models.SynthesizerBackbone(
        vocabulary_size=settings.tokens,
        num_layers=settings.layers,
        num_heads=settings.heads,
        hidden_dim=settings.width,
        intermediate_dim=4 * settings.width,
        synthesizer=name,
        max_sequence_length=settings.length,
    )
    return models.SynthesizerTextClassifier(backbone, num_classes=LABELS)


def inputs(model, settings):
    """A batch of random tokens, as long as the model and settings allow."""
    length = min(settings.length, model.backbone.max_sequence_length)
    shape, vocabulary = (settings.batch, length), model.backbone.vocabulary_size
    rng = np.random.default_rng(0)
    return {
        "token_ids": steps.array(rng.integers(5, vocabulary, shape), "int32"),
        "padding_mask": steps.array(np.ones(shape), "bool"),
    }


def megabytes(model):
    """The size of a file of the weights."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.weights.h5"
        model.save_weights(path)
        return path.stat().st_size / 1e6


def accuracy(model, data):
    """Share of SST-2's dev set that is right."""
    texts, labels = data
    model.compile()  # by default, for logits or probabilities
    scores = model.predict(np.array(texts), batch_size=32, verbose=0)
    return float(np.mean(scores.argmax(-1) == np.array(labels)))


def measure(name, make, settings, data, progress):
    """A list of `Served`, one for each form."""
    calls, sizes, outputs, accuracies = {}, {}, {}, {}
    for form in settings.forms:
        model = FORMS[form](make())
        x = inputs(model, settings)
        # First: on JAX `predict` gives a model's arrays away.
        accuracies[form] = accuracy(model, data) if data else None
        program = steps.of_layer(model, lambda m=model, x=x: m(x))
        calls[form] = steps.inference(program, x)
        scores = ops.softmax(model(x, training=False))
        outputs[form] = ops.convert_to_numpy(scores)
        sizes[form] = megabytes(model)
    timings = interleaved(calls, settings.rounds, progress)
    first = outputs[settings.forms[0]]
    return [
        Served(
            name,
            form,
            timings[form].median,
            sizes[form],
            float(np.abs(outputs[form] - first).max()),
            accuracies[form],
        )
        for form in settings.forms
    ]


def cells(row, first):
    """The cells of a table's row; the speed is as a ratio to the first."""
    known = [
        row.name,
        row.form,
        f"{1e3 * row.seconds:.2f}",
        f"{first.seconds / row.seconds:.2f}",
        f"{row.megabytes:.2f}",
        f"{row.difference:.1e}",
    ]
    if row.accuracy is not None:
        known.append(f"{100 * row.accuracy:.1f}")
    return known


def main():
    settings = parse()
    data = None
    if settings.data:
        data = datasets.read(settings.data / "dev.tsv", text="sentence")
    measured = []
    wanted = contenders(settings)
    with Progress(console=Console(stderr=True)) as progress:
        bar = progress.add_task("rounds", total=len(wanted) * settings.rounds)
        for name, make in wanted.items():
            measured.append(
                measure(
                    name, make, settings, data, lambda: progress.advance(bar)
                )
            )
    show(measured, settings)


def show(measured, settings):
    """Prints a table of lists of `Served`, and writes it where wanted."""
    head = f"{steps.device()}, B {settings.batch}, T {settings.length}"
    if not settings.presets:
        head += f", {settings.layers} blocks, d {settings.width}"
    headings = ["", "form", "ms", "speed", "MB", "difference"]
    headings += ["accuracy, %"] * bool(settings.data)
    rows = [cells(row, forms[0]) for forms in measured for row in forms]
    table = Table(title=head)
    for heading in headings:
        numbers = heading not in ("", "form")
        table.add_column(heading, justify="right" if numbers else "left")
    for row in rows:
        table.add_row(*row)
    Console().print(table)
    if settings.markdown:
        lines = [f"| {' | '.join(row)} |" for row in [headings, *rows]]
        lines.insert(1, "|---" * len(headings) + "|")
        text = "\n".join([head, "", *lines]) + "\n"
        settings.markdown.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

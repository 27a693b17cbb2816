"""Decoding token by token: Synthesizer blocks against KerasHub's decoder.

A stack of decoder blocks with caches for `--lengths` tokens writes the last
`--steps` of them; its output is its next input. Embeddings, output layer and
sampling, which are the same for all, are left out. A step takes as long at any
position, since the caches have their full length from the start. All
contenders are timed in turn in one process.

    KERAS_BACKEND=jax python benchmarks/decoding.py
    KERAS_BACKEND=torch python benchmarks/decoding.py R D+V --shapes 32x512
"""

import argparse
import os
import pathlib

os.environ.setdefault("KERAS_BACKEND", "jax")

import command
import keras
import keras_hub
import steps
from keras import ops
from measuring import interleaved
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from keras_synth import synthesizers
from keras_synth.layers import SynthesizerDecoder

BASELINE = "TransformerDecoder"
VARIANTS = "V R FR D FD R+V D+V".split()


class Decoding(keras.layers.Layer):
    """Writes tokens with a stack of decoder blocks.

    Args:
        name: `"TransformerDecoder"` or a synthesizer's name.
        settings: The command line.
        batch: Integer, `B`.
        length: Integer, tokens in the caches.

    Call arguments:
        x: Tensor `(B, 1, d)`, the first input.

    Returns:
        Tensor `(B, 1, d)`, the last output.
    """

    def __init__(self, name, settings, batch, length):
        super().__init__(dtype=settings.dtype)
        heads, width = settings.heads, settings.width
        options = {"intermediate_dim": 4 * width, "num_heads": heads}
        options["dtype"] = settings.dtype
        head_dim = width // heads
        if name == BASELINE:
            make = keras_hub.layers.TransformerDecoder
            self.cache_shape = (batch, 2, length, heads, head_dim)
        else:
            make = SynthesizerDecoder
            options |= {"synthesizer": name, "max_length": length}
            keys = synthesizers.get(name, heads, head_dim, length).key_dim
            self.cache_shape = (batch, length, heads, keys + head_dim)
        self.blocks = [make(**options) for _ in range(settings.layers)]
        self.first, self.last = length - settings.steps, length

    def build(self, shape):
        for block in self.blocks:
            block.build(shape)

    def call(self, x):
        def step(position, state):
            x, caches = state
            filled = []
            for block, cache in zip(self.blocks, caches, strict=True):
                x, cache = block(
                    x,
                    self_attention_cache=cache,
                    self_attention_cache_update_index=position,
                )
                filled.append(cache)
            return x, tuple(filled)

        caches = tuple(
            ops.zeros(self.cache_shape, dtype=self.compute_dtype)
            for _ in self.blocks
        )
        return ops.fori_loop(self.first, self.last, step, (x, caches))[0]

    def cache_bytes(self):
        """Bytes of the caches of all blocks."""
        numbers = len(self.blocks)
        for size in self.cache_shape:
            numbers *= size
        return numbers * {"float32": 4}.get(self.compute_dtype, 2)


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = command.adder(parser)
    add("synthesizers", "names of variants", nargs="*", default=VARIANTS)
    add(
        "--shapes",
        nargs="+",
        default=["1x128", "32x128", "1x512", "32x512"],
        help="B x tokens in the caches",
    )
    add("--num-layers", dest="layers", type=int, default=2)
    add("--hidden-dim", dest="width", type=int, default=512)
    add("--num-heads", dest="heads", type=int, default=8)
    add("--steps", type=int, default=32, help="tokens to write")
    add("--dtype", default="float32")
    add("--rounds", type=int, default=5)
    add("--markdown", type=pathlib.Path, help="a file for the table")
    settings = command.parse(parser)
    for name in settings.synthesizers:
        try:
            synthesizers.get(name, settings.heads, 8, 8)
        except ValueError as error:
            parser.error(str(error))
    return settings


def measure(shape, settings, progress):
    """Rows `(name, tokens per second, its spread, cache bytes)`."""
    batch, length = map(int, shape.split("x"))
    layers = {
        name: Decoding(name, settings, batch, length)
        for name in (BASELINE, *settings.synthesizers)
    }
    x = steps.array(
        keras.random.normal((batch, 1, settings.width), seed=0), settings.dtype
    )
    calls = {}
    for name, layer in layers.items():
        build = lambda layer=layer: layer.build(tuple(x.shape))  # noqa: E731
        calls[name] = steps.inference(steps.of_layer(layer, build), x)
    timings = interleaved(calls, settings.rounds, progress)
    tokens = batch * settings.steps
    return [
        (
            name,
            tokens / timing.median,
            timing.spread / timing.median,
            layers[name].cache_bytes(),
        )
        for name, timing in timings.items()
    ]


def main():
    settings = parse()
    console = Console()
    head = f"{steps.device()}, {settings.layers} blocks, d {settings.width}"
    lines = [
        f"{head}, {settings.dtype}",
        "",
        "| B x length | | tokens/s | ratio | cache, MiB | ratio |",
        "|---|---|---|---|---|---|",
    ]
    total = len(settings.shapes) * settings.rounds
    with Progress(console=Console(stderr=True)) as progress:
        bar = progress.add_task("rounds", total=total)
        for shape in settings.shapes:
            rows = measure(shape, settings, lambda: progress.advance(bar))
            show(console, shape, rows, head)
            _, speed, _, memory = rows[0]
            lines += [
                f"| {shape} | {name} | {s:,.0f} | {s / speed:.2f} | "
                f"{m / 2**20:.2f} | {m / memory:.2f} |"
                for name, s, _, m in rows
            ]
    if settings.markdown:
        settings.markdown.write_text("\n".join(lines) + "\n", encoding="utf-8")


def show(console, shape, rows, head):
    """Prints the table of one shape; ratios are to KerasHub's decoder."""
    table = Table(title=f"{shape}: {head}")
    for heading in ("", "tokens/s", "ratio", "+-", "cache", "ratio"):
        table.add_column(heading, justify="right")
    _, speed, _, memory = rows[0]
    for name, tokens, spread, size in rows:
        table.add_row(
            name,
            f"{tokens:,.0f}",
            f"{tokens / speed:.2f}",
            f"{100 * spread:.0f}%",
            f"{size / 2**20:.2f} MiB",
            f"{size / memory:.2f}",
        )
    console.print(table)


if __name__ == "__main__":
    main()

"""What padding costs: a layer with a padding mask against the same without.

Both are timed in turn in one process; the ratio is padded time / plain time.

    KERAS_BACKEND=jax python benchmarks/padding.py
    KERAS_BACKEND=torch python benchmarks/padding.py R D --shapes 4x1024
"""

import argparse
import os

os.environ.setdefault("KERAS_BACKEND", "jax")

import command
import contenders
import steps
from measuring import interleaved
from rich.console import Console
from rich.table import Table

VARIANTS = "MultiHeadAttention V R FR D R+V D+V".split()


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = command.adder(parser)
    add("contenders", "names of layers", nargs="*", default=VARIANTS)
    add("--shapes", nargs="+", default=["16x256", "4x1024"], help="B x T")
    add("--hidden-dim", dest="width", type=int, default=512)
    add("--num-heads", dest="heads", type=int, default=8)
    add("--dtype", default="float32")
    add("--rounds", type=int, default=9)
    settings = command.parse(parser)
    contenders.check(parser, settings.contenders)
    return settings


def ratio(name, shape, mode, settings):
    """Padded time over plain time of one contender."""
    batch, length = map(int, shape.split("x"))
    calls = {}
    for mask in ("plain", "padded"):
        cell = contenders.Cell(
            batch, length, settings.width, settings.heads, settings.dtype, mask
        )
        program = contenders.make(name, cell)
        calls[mask] = steps.MODES[mode](program, cell.inputs())
    timings = interleaved(calls, settings.rounds)
    return timings["padded"].median / timings["plain"].median


def main():
    settings = parse()
    table = Table(title=f"{steps.device()}: padded time / plain time")
    table.add_column("contender")
    columns = [(s, mode) for s in settings.shapes for mode in steps.MODES]
    for shape, mode in columns:
        table.add_column(f"{shape}, {mode}", justify="right")
    for name in settings.contenders:
        cells = [f"{ratio(name, *column, settings):.2f}" for column in columns]
        table.add_row(name, *cells)
    Console().print(table)


if __name__ == "__main__":
    main()

"""The routes of `attend`, each where it can serve: what `choose_route` knows.

Times are those of `SyntheticAttention` as a whole with one route forced, beside
the route that it takes by itself.

    KERAS_BACKEND=torch python benchmarks/routes.py
"""

import argparse
import functools
import os

os.environ.setdefault("KERAS_BACKEND", "jax")

import command
import contenders
import steps
from measuring import interleaved
from rich.console import Console
from rich.progress import track
from rich.table import Table

from keras_synth import attend as rooms
from keras_synth.layers import synthetic_attention


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = command.adder(parser)
    add(
        "--variants",
        dest="synthesizers",
        nargs="+",
        default="V D FD R R+V FR+V D+V".split(),
    )
    add("--shapes", nargs="+", default=["16x256", "4x1024"], help="B x T")
    add("--hidden-dim", dest="width", type=int, default=512)
    add("--num-heads", dest="heads", type=int, default=8)
    add("--dtype", default="float32")
    add("--mask", choices=contenders.MASKS, default="plain")
    add("--rounds", type=int, default=5)
    settings = command.parse(parser)
    contenders.check(parser, settings.synthesizers)
    return settings


def forced(route, taken):
    """`attend` by one route if it can serve; notes the one it takes."""

    @functools.wraps(rooms.attend)
    def attend(logits, values, mask=None, **options):
        options.pop("route", None)
        able = rooms.possible_routes(logits, mask or rooms.AttentionMask())
        chosen = rooms.choose_route(able, logits, values)
        taken.append(chosen)
        own = route if route in able else None
        if route and own is None:
            raise contenders.Skipped(route)
        return rooms.attend(logits, values, mask, route=own, **options)

    return attend


def one(name, cell, mode, rounds):
    """Returns the route taken and `Timing` of each route."""
    calls, taken = {}, []
    try:
        for route in rooms.ROUTES:
            # Layers look the function up at each call while they are traced.
            synthetic_attention.attend = forced(route, taken)
            try:
                program = contenders.make(name, cell)
                step = steps.MODES[mode](program, cell.inputs())
                step()
            except contenders.Skipped:
                continue
            calls[route] = _with(synthetic_attention.attend, step)
        timings = interleaved(calls, rounds)
    finally:
        synthetic_attention.attend = rooms.attend
    return taken[-1], timings


def _with(attend, step):
    def call():
        synthetic_attention.attend = attend
        step()

    return call


def main():
    settings = parse()
    for shape in settings.shapes:
        batch, length = map(int, shape.split("x"))
        cell = contenders.Cell(
            batch,
            length,
            settings.width,
            settings.heads,
            settings.dtype,
            settings.mask,
        )
        for mode in steps.MODES:
            table = Table(
                title=f"{steps.device()}: {mode}, ms, {settings.mask}, "
                f"B {batch}, T {length}"
            )
            for heading in ("synthesizer", *rooms.ROUTES, "taken"):
                table.add_column(heading, justify="right")
            for name in track(
                settings.synthesizers, console=Console(stderr=True)
            ):
                taken, timings = one(name, cell, mode, settings.rounds)
                texts = [
                    f"{1000 * timings[r].median:.0f}" if r in timings else "-"
                    for r in rooms.ROUTES
                ]
                table.add_row(name, *texts, taken)
            Console().print(table)


if __name__ == "__main__":
    main()

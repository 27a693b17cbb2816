"""The routes of `attend`, each where it can serve: what their costs rest on.

Times are those of `SyntheticAttention` as a whole with one route forced, beside
the route that it takes by itself.

    KERAS_BACKEND=torch python benchmarks/routes.py
    KERAS_BACKEND=torch python benchmarks/routes.py --routes kernel tiles
"""

import argparse
import os

os.environ.setdefault("KERAS_BACKEND", "jax")

import command
import contenders
import steps
from measuring import interleaved
from rich.console import Console
from rich.progress import track
from rich.table import Table

from keras_synth import routes


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
    known = [route.name for route in routes.registered()]
    add("--routes", nargs="+", default=known, choices=known)
    settings = command.parse(parser)
    contenders.check(parser, settings.synthesizers)
    return settings


class Forced(routes.Route):
    """A route that is taken wherever it can serve.

    Args:
        route: The `Route` that does the work.
        taken: List, to note the route that would have been taken.
    """

    name = "forced"

    def __init__(self, route, taken):
        self.route, self.taken = route, taken

    def serves(self, request):
        return self.route.serves(request)

    def cost(self, request):
        others = [r for r in routes.serving(request) if r is not self]
        cheapest = min(others, key=lambda route: route.cost(request))
        self.taken.append(cheapest.name)
        return -1.0

    def run(self, request):
        return self.route.run(request)


def one(name, cell, mode, rounds, wanted):
    """Returns the route taken and `Timing` of each route that can serve."""
    calls, taken = {}, ["-"]
    for route in wanted:
        forced, before = Forced(route, taken), len(taken)
        with routes.using(forced):
            program = contenders.make(name, cell)
            step = steps.MODES[mode](program, cell.inputs())
            step()
        if len(taken) > before:
            calls[route.name] = _with(forced, step)
    return taken[-1], interleaved(calls, rounds)


def _with(route, step):
    def call():
        # PyTorch asks for the route at each step, others while they compile.
        with routes.using(route):
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
            for heading in ("synthesizer", *settings.routes, "taken"):
                table.add_column(heading, justify="right")
            for name in track(
                settings.synthesizers, console=Console(stderr=True)
            ):
                wanted = [routes.get(route) for route in settings.routes]
                taken, timings = one(name, cell, mode, settings.rounds, wanted)
                texts = [
                    f"{1000 * timings[r].median:.0f}" if r in timings else "-"
                    for r in settings.routes
                ]
                table.add_row(name, *texts, taken)
            Console().print(table)


if __name__ == "__main__":
    main()

"""Time of mixers in two checkouts of this package, in turn.

What a change costs: a process for each checkout, of which one computes while
the other waits, so that both see the same weather.

    KERAS_BACKEND=jax python benchmarks/checkouts.py /path/to/another/checkout
"""

import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import time

import measuring

FOLDER = pathlib.Path(__file__).resolve().parent
VARIANTS = ["V", "R", "R+V", "D+V", "local(window=64)", "strided(stride=64)"]
VARIANTS += ["longformer(window=64)", "big_bird"]
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


def main():
    settings = parsed()
    if settings.worker:
        work(CLOCKS[settings.clock])
        return
    before = pathlib.Path(settings.before).resolve()
    sides = [Side(x, settings.clock) for x in (before, FOLDER.parent)]
    cells = [(mask, mode) for mask in settings.masks for mode in settings.modes]
    rows, logs = [], []
    for variant in settings.variants:
        for length in settings.lengths:
            shape = settings.batch_size, length, settings.hidden_dim
            shape += (settings.num_heads, "float32")
            measuring.progress(variant, length)
            ratios = [
                ratio(sides, [variant, [*shape, mask], mode], settings.rounds)
                for mask, mode in cells
            ]
            logs += map(math.log, ratios)
            rows.append([variant, length, *(f"{x:.2f}" for x in ratios)])
    title = f"{sides[0].device}: {settings.clock} time before / after"
    heads = ["", "T", *map(" ".join, cells)]
    measuring.print_table(f"{title}; more is faster", heads, rows)
    mean = math.exp(statistics.mean(logs))
    print(f"geometric mean {mean:.2f}, least {math.exp(min(logs)):.2f}")


def parsed():
    modes, masks = ["inference", "training"], ["plain", "padded"]
    parser = measuring.options(
        __doc__,
        {"modes": modes, "masks": masks, "clock": [*CLOCKS]},
        lengths=[256, 1024],
        batch_size=4,
        hidden_dim=256,
        num_heads=4,
        variants=VARIANTS,
        modes=modes,
        masks=masks[:1],
        rounds=15,
        clock="wall",
        worker=False,
    )
    parser.add_argument("before", help="another checkout, to compare with")
    return parser.parse_args()


def ratio(sides, case, rounds):
    """The median of seconds before over seconds after, round by round."""
    repeats = min(side.ask(*case, 0) for side in sides)
    found = []
    for i in range(rounds):
        order = sides if i % 2 else sides[::-1]
        seconds = {side: side.ask(*case, repeats) for side in order}
        found.append(seconds[sides[0]] / seconds[sides[1]])
    return statistics.median(found)


class Side:
    """A process that computes with one checkout."""

    def __init__(self, checkout, clock):
        if not (checkout / "keras_synth").is_dir():
            raise SystemExit(
                f"{checkout} is not a checkout of keras_synth: there is no "
                f"folder {checkout / 'keras_synth'}."
            )
        arguments = [str(checkout), "--worker", "--clock", clock]
        self.process = subprocess.Popen(
            [sys.executable, __file__, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(checkout)},
            cwd=FOLDER,
        )
        self.device = self._answer()

    def ask(self, *case):
        print(json.dumps(case), file=self.process.stdin, flush=True)
        return self._answer()

    def _answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("A process ended; its message is above.")
        return json.loads(line)


def work(clock):
    """Answers cases, a line each, by seconds or by how often to repeat."""
    import steps

    print(json.dumps(steps.device()), flush=True)
    known, step = None, None
    for line in sys.stdin:
        *case, repeats = json.loads(line)
        if case != known:
            (variant, cell, mode), known = case, case
            cell = steps.Cell(*cell)
            step = steps.MODES[mode](steps.make(variant, cell), cell.inputs())
            for _ in range(3):
                step()
        started = clock()
        for _ in range(max(1, repeats)):
            step()
        seconds = (clock() - started) / max(1, repeats)
        answer = seconds if repeats else max(1, round(0.05 / seconds))
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()

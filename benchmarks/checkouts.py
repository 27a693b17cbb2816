"""Time of mixers in two checkouts of this package, in turn.

What a change costs: a process for each checkout, of which one computes while
the other waits, so that both see the same weather.
"""

import argparse
import functools
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import time

import command

FOLDER = pathlib.Path(__file__).resolve().parent
VARIANTS = ["V", "R", "R+V", "D+V", "local(window=64)", "strided(stride=64)"]
VARIANTS += ["longformer(window=64)", "big_bird"]


def main():
    args = parsed()
    if args.worker:
        work(args)
        return
    sides = {
        "before": Side(pathlib.Path(args.before).resolve(), args),
        "after": Side(FOLDER.parent, args),
    }
    print(f"{sides['after'].device}, B {args.batch_size}")
    print(f"{args.clock} time before / after; more is faster")
    cells = [(mask, mode) for mask in args.masks for mode in args.modes]
    print(f"{'':24}{'T':>6} " + " ".join(f"{' '.join(c):>18}" for c in cells))
    logs = []
    for variant in args.variants:
        for length in args.lengths:
            ratios = [
                ratio(sides, [variant, length, *cell], args.rounds)
                for cell in cells
            ]
            logs += [math.log(x) for x in ratios]
            row = " ".join(f"{x:18.2f}" for x in ratios)
            print(f"{variant:24}{length:6} {row}", flush=True)
    mean = math.exp(statistics.mean(logs))
    print(f"geometric mean {mean:.2f}, least {math.exp(min(logs)):.2f}")


def parsed():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add = command.adder(parser)
    add("before", metavar="PATH", help="another checkout, to compare with")
    add(
        "--lengths",
        nargs="+",
        type=int,
        default=[256, 1024],
        metavar="N",
        help="in tokens, T",
    )
    add("--batch-size", type=int, default=4, metavar="N")
    add("--hidden-dim", type=int, default=256, metavar="N")
    add("--num-heads", type=int, default=4, metavar="N")
    add("--variants", nargs="+", default=VARIANTS)
    add(
        "--modes",
        nargs="+",
        default=["inference", "training"],
        choices=["inference", "training"],
        help="what a step does",
    )
    add(
        "--masks",
        nargs="+",
        default=["plain"],
        choices=["plain", "padded"],
        help="which keys count",
    )
    add("--rounds", type=int, default=15, metavar="N")
    add(
        "--clock",
        default="wall",
        choices=["wall", "cpu"],
        help="cpu: of all threads, for a busy machine",
    )
    add("--worker", action="store_true", help=argparse.SUPPRESS)
    return command.parse(parser)


def ratio(sides, case, rounds):
    """The median of seconds before over seconds after, round by round."""
    repeats = min(side.ask(*case, 0) for side in sides.values())
    found = []
    for i in range(rounds):
        names = list(sides) if i % 2 else [*sides][::-1]
        seconds = {name: sides[name].ask(*case, repeats) for name in names}
        found.append(seconds["before"] / seconds["after"])
    return statistics.median(found)


class Side:
    """A process that computes with one checkout."""

    def __init__(self, checkout, args):
        if not (checkout / "keras_synth").is_dir():
            raise SystemExit(
                f"{checkout} is no checkout of keras_synth: there is no folder "
                f"{checkout / 'keras_synth'}."
            )
        sizes = ("batch_size", "hidden_dim", "num_heads", "clock")
        options = [
            f"--{name.replace('_', '-')}={getattr(args, name)}"
            for name in sizes
        ]
        self.process = subprocess.Popen(
            [sys.executable, __file__, str(checkout), "--worker", *options],
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
            raise SystemExit("A process ended; its message stands above.")
        return json.loads(line)


def work(args):
    """Answers cases, a line each, by seconds or by how often to repeat."""
    import numpy as np
    import steps

    from keras_synth import mixers

    print(json.dumps(steps.device()), flush=True)
    clock = {"wall": time.perf_counter, "cpu": time.process_time}[args.clock]
    made = {}
    for line in sys.stdin:
        *key, repeats = json.loads(line)
        variant, length, mask, mode = key = tuple(key)
        if key not in made:
            made.clear()
            layer = mixers.get(
                variant,
                args.num_heads,
                args.hidden_dim // args.num_heads,
                length,
            )
            shape = args.batch_size, length, args.hidden_dim
            x = np.random.default_rng(0).normal(size=shape)
            x = steps.array(x)
            ends = np.linspace(length // 2, length, args.batch_size)
            real = np.arange(length) < ends.astype(int)[:, None]
            masks = (
                {}
                if mask == "plain"
                else {"value_mask": steps.array(real, "bool")}
            )
            call = functools.partial(layer, x)
            program = steps.of_layer(layer, call, **masks)
            made[key] = getattr(steps, mode)(program, x)
            for _ in range(3):
                made[key]()
        started = clock()
        for _ in range(max(1, repeats)):
            made[key]()
        seconds = (clock() - started) / max(1, repeats)
        answer = seconds if repeats else max(1, round(0.05 / seconds))
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()

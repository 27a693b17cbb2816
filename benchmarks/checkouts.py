"""Time of mixers in two checkouts of this package, in turn.

What a change costs: a process for each checkout, of which one computes while
the other waits, so that both see the same weather.

    KERAS_BACKEND=jax python benchmarks/checkouts.py /path/to/another/checkout
"""

import contextlib
import math
import os
import pathlib
import pickle
import statistics
import subprocess
import sys

import measuring

FOLDER = pathlib.Path(__file__).resolve().parent
VARIANTS = ["V", "R", "R+V", "D+V", "local(window=64)", "strided(stride=64)"]
VARIANTS += ["longformer(window=64)", "big_bird"]


def main():
    settings = parsed()
    if settings.worker:
        serve(Timer(measuring.CLOCKS[settings.clock]))
        return
    words = [__file__, "--worker", "--clock", settings.clock, "."]
    sides = [Side(x, words) for x in (settings.before, FOLDER.parent)]
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
    title = f"{sides[0].ask()}: {settings.clock} time before / after"
    heads = ["", "T", *map(" ".join, cells)]
    measuring.print_table(f"{title}; more is faster", heads, rows)
    mean = math.exp(statistics.mean(logs))
    print(f"geometric mean {mean:.2f}, least {math.exp(min(logs)):.2f}")


def parsed():
    modes, masks = ["inference", "training"], ["plain", "padded"]
    parser = measuring.options(
        __doc__,
        {"modes": modes, "masks": masks, "clock": [*measuring.CLOCKS]},
        lengths=[256, 1024],
        batch_size=4,
        hidden_dim=256,
        num_heads=4,
        variants=VARIANTS,
        modes=modes,
        masks=masks[:1],
        rounds=8,
        clock="wall",
        worker=False,
    )
    parser.add_argument("before", help="another checkout, to compare with")
    return parser.parse_args()


def ratio(sides, case, rounds):
    """The median of seconds before over seconds after, round by round.

    A round has both orders. After another process, the first answers are slow.
    """
    repeats = min(side.ask(*case, 0) for side in sides)
    found = []
    for _ in range(1 + rounds):
        seconds = dict.fromkeys(sides, 0.0)
        for side in (*sides, *sides[::-1]):
            seconds[side] += side.ask(*case, repeats)
        found.append(seconds[sides[0]] / seconds[sides[1]])
    return statistics.median(found[1:])


class Side:
    """A process that answers with the package of one checkout."""

    def __init__(self, checkout, words):
        package = pathlib.Path(checkout).resolve() / "keras_synth"
        if not package.is_dir():
            raise SystemExit(
                f"{checkout} is not a checkout of keras_synth: there is no "
                f"folder {package}."
            )
        self.process = subprocess.Popen(
            [sys.executable, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(package.parent)},
            cwd=FOLDER,
        )

    def ask(self, *question):
        pickle.dump(question, self.process.stdin)
        self.process.stdin.flush()
        try:
            return pickle.load(self.process.stdout)
        except EOFError:
            raise SystemExit("A process ended; its message is above.") from None


def serve(answer):
    """Answers each question with a function, until the pipe closes."""
    channel = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # print elsewhere than to the channel
    with contextlib.suppress(EOFError):
        while True:
            pickle.dump(answer(pickle.load(sys.stdin.buffer)), channel)
            channel.flush()


class Timer:
    """Answers cases by seconds, or by how often to repeat a step."""

    def __init__(self, clock):
        self.clock, self.known, self.step = clock, None, None

    def __call__(self, question):
        import steps

        if not question:
            return steps.device()
        variant, shape, mode, repeats = question
        if question[:-1] != self.known:
            self.known = question[:-1]
            self.step = steps.step_of(mode, variant, steps.Cell(*shape))
            for _ in range(3):
                self.step()
        started = self.clock()
        for _ in range(max(1, repeats)):
            self.step()
        seconds = (self.clock() - started) / max(1, repeats)
        return seconds if repeats else max(1, round(0.05 / seconds))


if __name__ == "__main__":
    main()

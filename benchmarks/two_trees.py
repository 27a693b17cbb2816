"""Compares two checkouts of this package, one random call after the other.

Each checkout answers in a process of its own. Compared are outputs, scores,
caches, gradients, the weights' paths, configs, and refusals. The exit status is
1 if something differs that `INTENDED` does not explain.

    python benchmarks/two_trees.py OLD NEW --calls 2000
    python benchmarks/two_trees.py OLD NEW --case '{"layer": "R", ...}'
"""

import argparse
import collections
import json
import os
import pathlib
import pickle
import re
import subprocess
import sys

import numpy as np
import two_trees_cases

FOLDER = pathlib.Path(__file__).resolve().parent
FRESH = 400  # cases that a process answers before another one takes over
SHRUNK = 15  # causes of which as little as possible is shown
# Of an array's own largest number, and of that of all arrays of its kind.
TOLERANCES = {
    "float32": (1e-4, 1e-5),
    "float16": (0.05, 0.01),
    "bfloat16": (0.2, 0.05),
}
OF_LAYERS = ("config", "weights", "paths", "spec", "supports", "initial")
DRAWN = ("output", "scores", "gradient", "error")


def _becomes_finite(case, name, old, new):
    """Whether NaN of padding, or of -inf in a bias, is gone."""
    x, y = old.get(name), new.get(name)
    if not {"nonfinite", "low"} & {*case} or not isinstance(y, np.ndarray):
        return False
    rounding = allowed(case, name, old, new)
    return not unequal(np.where(np.isnan(x), y, x), y, rounding)


def _forbids_low(case, name, old, new):
    """Whether it is one of rows all of whose keys a bias of -1e30 hides."""
    return "low" in case and isinstance(old.get(name), np.ndarray)


def _is_of_the_registry(case, name, old, new):
    names = ("additive", "relu", "local(", "strided", "big_bird")
    allowed = name.startswith(OF_LAYERS) or new.get("refusal") is None
    is_array = isinstance(old.get(name), np.ndarray)
    return case["layer"].startswith(names) and allowed and not is_array


def _leaves_dtype_out(case, name, old, new):
    return re.fullmatch("config .*dtype.*", name) and new.get(name) is None


# Each is a function of the case, what differs ("output 0", "refusal"...), and
# both answers.
INTENDED = {
    "a synthesizer's dtype is its layer's, unless it is given": (
        _leaves_dtype_out
    ),
    "padding and -inf in a bias bring no NaN": _becomes_finite,
    "what a mask forbids lies below what a bias hides": _forbids_low,
    "additive, relu, local, strided and big_bird are SyntheticAttention": (
        _is_of_the_registry
    ),
}


def main():
    args = parsed()
    sides = [Side(args.old), Side(args.new)]
    if args.case:
        show(sides, json.loads(args.case))
        return
    numbers = range(args.first, args.first + args.calls)
    cases = (two_trees_cases.draw(args.seed, number) for number in numbers)
    cases = [c for c in cases if re.search(args.only, json.dumps(c))]
    report = Report()
    for number, case in enumerate(cases, 1):
        answers = ask(sides, case)
        found = differences(case, *answers, args.wordings)
        report.add(case, answers, found)
        names = [name for name, _ in faults(case, found, answers)]
        if names and len(report.faults) < SHRUNK:
            case = shrunk(sides, case, names[0], args.wordings)
        if names:
            shown = [x for x in found if x[0] in names]
            report.faults[cause(case, names[0])].append((case, shown))
        if number % 100 == 0:
            print(number, "calls", file=sys.stderr, flush=True)
    report.print()
    sys.exit(len(report.faults) > 0)


def parsed():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add = parser.add_argument
    add("old", type=pathlib.Path, help="a checkout")
    add("new", type=pathlib.Path, help="another one")
    add("--calls", type=int, default=200, metavar="N", help="how many")
    add(
        "--first",
        type=int,
        default=0,
        metavar="N",
        help="the first call, 0 for all",
    )
    add(
        "--seed",
        type=int,
        default=0,
        metavar="N",
        help="of the cases, 0 for the usual ones",
    )
    add("--only", default="", metavar="REGEX", help="cases whose JSON has it")
    add("--case", metavar="JSON", help="show the answers to one case")
    add("--wordings", action="store_true", help="compare words of refusals")
    return parser.parse_args()


class Side:
    """A process that answers with one checkout."""

    def __init__(self, checkout):
        self.checkout = checkout.resolve()
        self.process, self.answered = None, 0

    def send(self, case):
        if self.process and self.answered == FRESH:
            self.process.stdin.close()
            self.process.wait()
            self.process = None
        if self.process is None:
            self._start()
        pickle.dump(case, self.process.stdin)
        self.process.stdin.flush()

    def receive(self):
        self.answered += 1
        try:
            return pickle.load(self.process.stdout)
        except EOFError:
            status, self.process = self.process.wait(), None
            return {"refusal": f"end of the process: {status}", "words": ""}

    def _start(self):
        self.answered = 0
        self.process = subprocess.Popen(
            [sys.executable, FOLDER / "two_trees_worker.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={
                "TF_CPP_MIN_LOG_LEVEL": "3",
                "XLA_FLAGS": "--xla_backend_optimization_level=0",
                **os.environ,
                "PYTHONPATH": str(self.checkout),
            },
        )
        package = pathlib.Path(pickle.load(self.process.stdout))
        if package.parent != self.checkout:
            raise SystemExit(
                f"The package must be that of {self.checkout}. "
                f"Received: {package}"
            )


def ask(sides, case):
    for side in sides:
        side.send(case)
    return [side.receive() for side in sides]


def show(sides, case):
    answers = ask(sides, case)
    for side, answer in zip(sides, answers, strict=True):
        print(side.checkout)
        for name, value in answer.items():
            print(f"  {name}: {value}")
    for name, how in differences(case, *answers, wordings=True):
        why = reason(case, name, answers)
        print(f"{name} differs: {how}", f"({why})" if why else "")


def differences(case, old, new, wordings=False):
    """Returns pairs of what differs and how."""
    if "refusal" in old or "refusal" in new:
        names = ["refusal", *(["words"] if wordings else [])]
    elif old["weights"] != new["weights"]:
        names = ["weights"]
    elif "mean" in old and "mean" in new:
        # Other draws of dropout are no fault, another mean is one.
        names = [k for k in {**old, **new} if not k.startswith(DRAWN)]
    else:
        names = dict.fromkeys([*old, *new])
    found = []
    for name in names:
        x, y = old.get(name), new.get(name)
        if not isinstance(x, np.ndarray) or not isinstance(y, np.ndarray):
            alike = type(x) is type(y) and x == y
            how = "" if alike else f"{x} / {y}"
        elif x.shape != y.shape or x.dtype != y.dtype:
            how = f"{x.shape} {x.dtype} / {y.shape} {y.dtype}"
        else:
            how = unequal(x, y, allowed(case, name, old, new))
        if how:
            found.append((name, how))
    return found


def allowed(case, name, old, new):
    """The largest difference between two arrays that is rounding."""
    own = largest(old[name])
    kind = name.split()[0]
    every = max(largest(x) for k, x in old.items() if k.split()[0] == kind)
    policy = case.get("dtype", "float32").removeprefix("mixed_")
    relative, absolute = TOLERANCES[policy]
    rounding = relative * own + absolute * max(every, 0.1)
    if name == "mean":
        rounding += 6 * np.hypot(old["error"], new["error"])
    return rounding


def largest(array):
    if not isinstance(array, np.ndarray) or array.dtype == bool:
        return 0.0
    return np.abs(array[np.isfinite(array)]).max(initial=0.0)


def unequal(x, y, rounding):
    """How two arrays differ, or an empty string."""
    x, y = (np.asarray(a, "float64") for a in (x, y))
    with np.errstate(invalid="ignore"):
        near = (np.abs(x - y) <= rounding) | (x == y)
    bad = ~(near | (np.isnan(x) & np.isnan(y)))
    if not bad.any():
        return ""
    place = tuple(map(int, np.argwhere(bad)[0]))
    return (
        f"{bad.sum()} of {bad.size}, at {place} {x[place]:.5g} / "
        f"{y[place]:.5g}, the largest is {largest(x):.3g}"
    )


def reason(case, name, answers):
    """Why something may differ, or `None`."""
    for text, explains in INTENDED.items():
        if explains(case, name, *answers):
            return text
    return None


def faults(case, found, answers):
    """The differences that nothing explains."""
    return [x for x in found if reason(case, x[0], answers) is None]


def shrunk(sides, case, name, wordings):
    """The case without what the difference does not need."""
    kind = name.split()[0]
    simpler = [{key: None} for key in case if key not in NEEDED]
    simpler += [{key: n} for key in ("B", "T", "S") for n in (3, 2, 1)]
    for change in simpler:
        if any(
            not case.get(key) or case[key] == x for key, x in change.items()
        ):
            continue
        if "chunks" in case and "T" in change:
            continue
        other = {k: x for k, x in {**case, **change}.items() if x is not None}
        answers = ask(sides, other)
        found = differences(other, *answers, wordings)
        found = faults(other, found, answers)
        if any(name.split()[0] == kind for name, _ in found):
            case = other
    return case


NEEDED = "layer draw heads key_dim width max_length B T how chunks".split()


def cause(case, name):
    """What differences of one cause have in common."""
    if name.startswith(OF_LAYERS):
        return name
    options = [f"{k}={x}" for k, x in case.items() if k not in [*NEEDED, "S"]]
    return f"{name.split()[0]}: {case['layer']}, {', '.join(options)}"


class Report:
    """What was asked, what both refused, and what differs.

    Attributes:
        faults: Dictionary from causes to pairs of a case and its differences.
    """

    def __init__(self):
        self.faults = collections.defaultdict(list)
        self._hows, self._refusals = (
            collections.Counter(),
            collections.Counter(),
        )
        self._intended = collections.Counter()

    def add(self, case, answers, found):
        self._hows[case["how"]] += 1
        self._intended.update({reason(case, x[0], answers) for x in found})
        refusals = [x["words"] for x in answers if "refusal" in x]
        if len(refusals) == 2 and "spoiled" not in case:
            lines = [x for x in refusals[0].splitlines() if x.strip()]
            lines = [x for x in lines if "Exception encountered" not in x]
            self._refusals[lines[0][:100] if lines else ""] += 1

    def print(self):
        print(f"{self._hows.total()} calls: {dict(self._hows)}")
        print(f"{self._refusals.total()} refused by both, and not spoiled:")
        for words, number in self._refusals.most_common(10):
            print(f"{number:5} {words}")
        for why, members in sorted(self.faults.items()):
            print(f"\n{len(members)} x {why}")
            for case, found in members[:3]:
                for name, how in found[:3]:
                    print(f"    {name}: {how[:300]}")
                print(f"    --case '{json.dumps(case)}'")
        del self._intended[None]
        print(f"\n{sum(map(len, self.faults.values()))} differ; as intended:")
        for why, number in self._intended.most_common():
            print(f"{number:5} {why}")


if __name__ == "__main__":
    main()

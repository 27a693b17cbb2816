"""What the scripts here share: options, files, timings, tables.

Imports no backend.
"""

import argparse
import contextlib
import gc
import json
import os
import pathlib
import statistics
import sys
import time
from typing import NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

OUTPUT = pathlib.Path("benchmarks/out")
CLOCKS = {"wall": time.perf_counter, "processor": time.process_time}
SLICE_SECONDS = 0.02  # short steps are repeated until a slice takes this long
HELP = {
    "backends": "which to measure",
    "batch_size": "B",
    "clock": "processor: seconds of all cores, for a busy machine",
    "dtype": "of weights and inputs",
    "dtypes": "of weights and inputs",
    "forms": "of the models",
    "hidden_dim": "model width, d",
    "lengths": "in tokens, T",
    "masks": "which keys count",
    "memory": "peak memory, and time, in a process for each variant",
    "minutes": "stop after that long",
    "modes": "what a step does",
    "num_heads": "of an attention layer, H",
    "num_layers": "blocks in a stack",
    "output": "folder of the results",
    "parts": "what to measure",
    "report": "only print what there is",
    "rounds": "how often each is timed",
    "sequence_length": "in tokens, T",
    "small": "sizes of a test, to see it run",
    "again": "measure what is known, too",
    "steps": "of training",
    "tokens": "B x T, unless --batch-size is given",
    "variants": "what to measure",
    "vocabulary_size": "tokens",
    "ways": "of PyTorch; the other backends always compile",
}


class _Formatter(
    argparse.ArgumentDefaultsHelpFormatter,
    argparse.RawDescriptionHelpFormatter,
):
    pass


def options(text, choices=None, make=argparse.ArgumentParser, **defaults):
    """Returns a parser with an option for each default.

    Args:
        text: String, the description.
        choices: Optional dictionary, name -> its only values.
        make: Function that makes a parser, for one of a subcommand.
        **defaults: Default values, which also give the types. A list allows one
            value or more, `False` makes an option without a value.
    """
    parser = make(description=text, formatter_class=_Formatter)
    for name, default in defaults.items():
        flag, said = f"--{name.replace('_', '-')}", HELP.get(name, " ")
        if default is False:
            parser.add_argument(flag, action="store_true", help=said)
            continue
        several = isinstance(default, list)
        first = default[0] if several else default
        kind = pathlib.Path if isinstance(first, pathlib.Path) else type(first)
        parser.add_argument(
            flag,
            type=kind,
            nargs="+" if several else None,
            default=default,
            choices=(choices or {}).get(name),
            metavar=None if name in (choices or {}) else kind.__name__.upper(),
            help=said,
        )
    return parser


# --- files ---


@contextlib.contextmanager
def writing(path):
    """Opens a text file that takes its name once all of it is on disk."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}-{os.getpid()}-partial")
    try:
        with open(partial, "w", encoding="utf-8", newline="") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


class Records:
    """Rows of a file, JSON in a line each, which need not be measured again.

    Each row is on disk before the next one is measured.

    Args:
        path: Path of the file; it is made when the first row comes.
        key: Sequence of strings, the fields that tell rows apart.
    """

    def __init__(self, path, key=()):
        self.path, self.key, self.rows = pathlib.Path(path), key, []
        if self.path.exists():
            text = self.path.read_text("utf-8")
            whole = text[: text.rfind("\n") + 1]
            self.rows = [json.loads(line) for line in whole.splitlines()]
            if whole != text:  # the process was killed when it wrote a row
                self.path.write_text(whole, "utf-8")

    def get(self, row):
        """Returns the row of the same key, or `None`."""
        for known in self.rows:
            if all(known[name] == row[name] for name in self.key):
                return known

    def append(self, row):
        """Adds a row and waits until it is on disk."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(f"{json.dumps(row)}\n")
            file.flush()
            os.fsync(file.fileno())
        self.rows.append(row)


def print_table(title, heads, rows):
    """Prints a Markdown table, with columns of one width each."""
    rows = [[str(cell) for cell in row] for row in [heads, *rows]]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rows.insert(1, ["-" * (width - 1) + ":" for width in widths])
    rows[1][0] = "-" * widths[0]
    print(f"\n{title}\n")
    for row in rows:
        cells = [
            cell.rjust(width) for cell, width in zip(row, widths, strict=True)
        ]
        cells[0] = row[0].ljust(widths[0])
        print(f"| {' | '.join(cells)} |")


def progress(*said):
    print(*said, file=sys.stderr, flush=True)


# --- timings ---


class Timing(NamedTuple):
    """Seconds per step: median, and the half width of the middle half."""

    median: float
    spread: float
    first: float  # seconds of the first call: compiling


def interleaved(steps, rounds, clock=None):
    """Times functions in turn, so that all see the same weather.

    Args:
        steps: Dictionary of functions without arguments.
        rounds: Integer, how often each is timed after its warm-up.
        clock: Function that returns seconds; `time.perf_counter` by default.

    Returns:
        Dictionary of `Timing`.
    """
    clock = clock or time.perf_counter
    first, repeats = {}, {}
    for name, step in steps.items():
        first[name] = _seconds(step, clock)
        step()
        seconds = _seconds(step, clock)
        repeats[name] = max(1, round(SLICE_SECONDS / max(seconds, 1e-6)))
    slices = {name: [] for name in steps}
    # What exists is left alone by the garbage collector. It has to run: on
    # PyTorch the caches of a decoding step are garbage that waits for it.
    gc.collect()
    gc.freeze()
    try:
        for i in range(rounds):
            # Each round starts elsewhere: nobody always follows the same one.
            names = list(steps)
            names = names[i % len(names) :] + names[: i % len(names)]
            for name in names:
                seconds = _seconds(steps[name], clock, repeats[name])
                slices[name].append(seconds / repeats[name])
    finally:
        gc.unfreeze()
    return {
        name: Timing(statistics.median(s), _spread(s), first[name])
        for name, s in slices.items()
    }


def _seconds(step, clock, repeats=1):
    started = clock()
    for _ in range(repeats):
        step()
    return clock() - started


def _spread(seconds):
    if len(seconds) < 2:
        return 0.0
    low, _, high = statistics.quantiles(seconds, n=4)
    return (high - low) / 2

"""Time and memory of one attention layer, Synthesizers beside the rest.

All contenders of a cell (shape, dtype, mask, mode) are timed in turn in one
process; ratios are within a cell. Rows go to a CSV file one by one: a run
that was stopped, or that had used up its `--minutes`, goes on where it was.

    KERAS_BACKEND=jax python benchmarks/layers.py
    KERAS_BACKEND=torch python benchmarks/layers.py --lengths 256 1024 \\
        --masks padded --modes training --variants MultiHeadAttention R D
    KERAS_BACKEND=jax python benchmarks/layers.py --memory --lengths 2048
    python benchmarks/layers.py --report
"""

import argparse
import itertools
import os
import pathlib
import subprocess
import sys
import time

os.environ.setdefault("KERAS_BACKEND", "jax")

import command
import contenders
import layers_report
import steps
from measuring import PeakMemory, busy, interleaved
from records import Records
from rich.console import Console
from rich.progress import Progress

CELL = ["backend", "device", *contenders.Cell._fields, "mode"]
KEY = [*CELL, "measure", "contender"]
FIELDS = [*KEY, "value", "spread", "first_call", "note"]


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = command.adder(parser)
    add(
        "--lengths",
        "in tokens, T",
        type=int,
        nargs="+",
        default=[64, 256, 1024, 4096],
    )
    add("--tokens", "B x T, if no --batch-size", type=int, default=4096)
    add("--batch-size", "B, for all lengths", dest="batch", type=int)
    add("--hidden-dim", dest="width", type=int, default=512)
    add("--num-heads", dest="heads", type=int, default=8)
    add("--dtypes", command.HELP["--dtype"], nargs="+", default=["float32"])
    add(
        "--masks",
        "which keys count",
        nargs="+",
        default=contenders.MASKS,
        choices=contenders.MASKS,
    )
    add(
        "--modes",
        "what a step does",
        nargs="+",
        default=list(steps.MODES),
        choices=steps.MODES,
    )
    add(
        "--variants",
        "synthesizers and other layers",
        dest="contenders",
        nargs="+",
        default=contenders.names(),
    )
    add("--rounds", type=int, default=11)
    add("--minutes", type=float, default=9.5, help="stop after that long")
    add("--memory", action="store_true", help="peak memory instead of time")
    add(
        "--busy",
        "other processes that keep a core busy each; 0 for a quiet machine",
        type=int,
        default=0,
    )
    add("--compile", action="store_true", help="torch.compile, on PyTorch")
    add("--report", action="store_true", help="only print what there is")
    add("--markdown", action="store_true", help="the same, as Markdown")
    add("--output", type=pathlib.Path, default=pathlib.Path("benchmarks/out"))
    parser.add_argument(
        "--one", help=argparse.SUPPRESS
    )  # a process of its own, for memory
    settings = command.parse(parser)
    if settings.compile and (steps.BACKEND != "torch" or settings.memory):
        parser.error(
            "--compile is for the times of PyTorch; the other backends always "
            f"compile. Received: backend {steps.BACKEND}, "
            f"memory={settings.memory}"
        )
    if settings.busy < 0 or (settings.busy and settings.memory):
        parser.error(
            "--busy is a number of processes, for times alone. Received: "
            f"--busy {settings.busy}, memory={settings.memory}"
        )
    contenders.check(parser, settings.contenders)
    return settings


def cells(settings):
    for dtype, mask, length in itertools.product(
        settings.dtypes, settings.masks, settings.lengths
    ):
        batch = settings.batch or max(1, settings.tokens // length)
        yield contenders.Cell(
            batch, length, settings.width, settings.heads, dtype, mask
        )


def described(cell, mode, measure, contender):
    return {
        "backend": steps.BACKEND,
        "device": steps.device(),
        **cell._asdict(),
        "mode": mode,
        "measure": measure,
        "contender": contender,
    }


def measure_time(cell, mode, wanted, settings, records, progress):
    """Times the wanted contenders of a cell, all of them in one go."""
    todo = [described(cell, mode, "seconds", name) for name in wanted]
    if all(row in records for row in todo):
        return
    task = progress.add_task(
        f"{mode} {cell.mask} B {cell.batch} T {cell.length} {cell.dtype}",
        total=len(wanted) + settings.rounds,
    )
    ready, skipped, x = {}, {}, cell.inputs()
    for name in wanted:
        try:
            program = contenders.make(name, cell)
            ready[name] = steps.MODES[mode](program, x)
        except contenders.Skipped as why:
            skipped[name] = why
        progress.advance(task)
    timings = interleaved(
        ready, settings.rounds, lambda: progress.advance(task)
    )
    for name, timing in timings.items():
        records.append(
            {
                **described(cell, mode, "seconds", name),
                "value": f"{timing.median:.6g}",
                "spread": f"{timing.spread:.3g}",
                "first_call": f"{timing.first:.3g}",
            }
        )
    for name, why in skipped.items():
        row = described(cell, mode, "seconds", name)
        records.append({**row, "note": f"skipped: {why}"})
    progress.remove_task(task)


def measure_memory(cell, mode, wanted, settings, records, progress):
    """Starts a process for each contender, since peaks never sink."""
    task = progress.add_task(
        f"memory, {mode} {cell.mask} T {cell.length}", total=len(wanted)
    )
    for name in wanted:
        row = described(cell, mode, "bytes", name)
        if row not in records:
            fields = [*map(str, cell), mode, name]
            command = [sys.executable, __file__, "--one", "|".join(fields)]
            done = subprocess.run(command, capture_output=True, text=True)
            answer = (done.stdout.strip().splitlines() or [""])[-1]
            if answer.isdigit():
                records.append({**row, "value": answer})
            else:
                why = (done.stderr.strip().splitlines() or ["no answer"])[-1]
                records.append({**row, "note": f"skipped: {why}"})
        progress.advance(task)
    progress.remove_task(task)


def one(fields):
    """Prints the peak memory of one contender's step, in bytes."""
    *shape, dtype, mask, mode, name = fields.split("|")
    cell = contenders.Cell(*map(int, shape), dtype, mask)
    steps.array([0.0])  # starts the backend
    memory = PeakMemory(steps.BACKEND, steps.on_gpu())
    step = steps.MODES[mode](contenders.make(name, cell), cell.inputs())
    step()
    print(memory.of(step))


def main():
    settings = parse()
    if settings.one:
        one(settings.one)
        return
    steps.COMPILED, steps.BUSY = settings.compile, settings.busy
    if settings.markdown:
        layers_report.print_markdown(settings.output)
        return
    if not settings.report:
        records = Records(
            settings.output / f"layers_{steps.BACKEND}.csv", FIELDS, KEY
        )
        measure = measure_memory if settings.memory else measure_time
        deadline = time.monotonic() + 60 * settings.minutes
        work = list(itertools.product(cells(settings), settings.modes))
        with (
            busy(settings.busy),
            Progress(console=Console(stderr=True)) as progress,
        ):
            task = progress.add_task(steps.device(), total=len(work))
            for i, (cell, mode) in enumerate(work):
                if time.monotonic() > deadline:
                    progress.console.print(
                        f"{len(work) - i} of {len(work)} cells are left; "
                        "run the same command again to go on."
                    )
                    break
                measure(
                    cell, mode, settings.contenders, settings, records, progress
                )
                progress.advance(task)
    layers_report.report(settings.output)


if __name__ == "__main__":
    main()

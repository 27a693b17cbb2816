"""Where the time of one step goes, operation by operation.

    KERAS_BACKEND=torch python benchmarks/step_profile.py R --mode training
    KERAS_BACKEND=jax python benchmarks/step_profile.py R D+V --mask padded

The tables come from PyTorch's and JAX's own profilers; TensorFlow compiles with
XLA, as JAX does, and is only timed. The floor, the bare matrix products of R,
is timed beside the rest.
"""

import argparse
import collections
import gzip
import json
import os
import pathlib
import tempfile

os.environ.setdefault("KERAS_BACKEND", "jax")

import command
import contenders
import steps
from measuring import interleaved
from rich.console import Console
from rich.table import Table


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = command.adder(parser)
    add("contenders", f"of {contenders.names()}", nargs="+")
    add("--batch-size", dest="batch", type=int, default=16)
    add("--sequence-length", dest="length", type=int, default=256)
    add("--hidden-dim", dest="width", type=int, default=512)
    add("--num-heads", dest="heads", type=int, default=8)
    add("--dtype", default="float32")
    add("--mask", choices=contenders.MASKS, default="plain")
    add(
        "--mode",
        "what a step does",
        choices=steps.MODES,
        default="inference",
    )
    add("--steps", "to profile", type=int, default=10)
    add("--rows", "of the table", type=int, default=15)
    settings = command.parse(parser)
    contenders.check(parser, settings.contenders)
    return settings


def profile_torch(step, number):
    """Returns `{operation: milliseconds per step}`, each without its parts."""
    import torch

    activities = [torch.profiler.ProfilerActivity.CPU]
    if steps.on_gpu():
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    # Streamed attention computes in threads of its own, which older versions of
    # the profiler do not see.
    make_config = torch._C._profiler._ExperimentalConfig
    wanted = "profile_all_threads"
    known = wanted in (make_config.__init__.__doc__ or "")
    config = make_config(**{wanted: True}) if known else None
    with torch.profiler.profile(
        activities=activities, experimental_config=config
    ) as profiler:
        for _ in range(number):
            step()
    field = (
        "self_device_time_total" if steps.on_gpu() else "self_cpu_time_total"
    )
    return {
        event.key: getattr(event, field) / 1000 / number
        for event in profiler.key_averages()
    }


def profile_jax(step, number):
    """Returns the same from the trace that JAX writes, by kind of kernel."""
    import jax

    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder, create_perfetto_trace=False):
            for _ in range(number):
                step()
        (path,) = pathlib.Path(folder).rglob("*.trace.json.gz")
        with gzip.open(path) as file:
            events = json.load(file)["traceEvents"]
    totals = collections.Counter()
    for event in events:
        # XLA's kernels carry the name of their operation.
        if "hlo_op" in event.get("args", {}):
            totals[event["args"]["hlo_op"]] += event["dur"] / 1000 / number
    return totals


def print_profile(name, totals, rows):
    everything = sum(totals.values())
    table = Table(title=f"{name}: {everything:.2f} ms in all threads")
    table.add_column("operation")
    table.add_column("ms", justify="right")
    table.add_column("share", justify="right")
    ranked = sorted(totals.items(), key=lambda x: -x[1])
    for operation, milliseconds in ranked[:rows]:
        table.add_row(
            operation,
            f"{milliseconds:.2f}",
            f"{100 * milliseconds / everything:.0f}%",
        )
    Console().print(table)


def main():
    settings = parse()
    cell = contenders.Cell(
        settings.batch,
        settings.length,
        settings.width,
        settings.heads,
        settings.dtype,
        settings.mask,
    )
    calls = {
        name: steps.MODES[settings.mode](
            contenders.make(name, cell), cell.inputs()
        )
        for name in dict.fromkeys([*settings.contenders, "floor of R"])
    }
    profilers = {"torch": profile_torch, "jax": profile_jax}
    timings = interleaved(calls, settings.steps)
    print(f"{steps.device()}, {settings.mode}, {cell}")
    for name, timing in timings.items():
        print(f"{name}: {1000 * timing.median:.2f} ms a step")
    if steps.BACKEND not in profilers:
        print("No table of operations on this backend.")
        return
    for name in settings.contenders:
        totals = profilers[steps.BACKEND](calls[name], settings.steps)
        print_profile(name, totals, settings.rows)


if __name__ == "__main__":
    main()

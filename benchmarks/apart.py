"""Seconds and peak memory of layers, each in a process of its own."""

import contextlib
import gc
import multiprocessing
import statistics
import sys
import time
from concurrent import futures

import steps

ROUNDS = 3
LONGEST_STEP = 8  # seconds; where twice the length takes longer it stops
_MEMORY = None


def results(name, cells, mode):
    """Measures a variant in cells, one after the other, in a new process.

    Peaks never sink: cells go from the quickest to the slowest.

    Yields:
        A dictionary for each cell: a `note`, which is empty if there are
        `seconds` and `bytes`.
    """
    context, why = multiprocessing.get_context("spawn"), ""
    begin = mode, name, cells[0], len(cells) > 1
    with futures.ProcessPoolExecutor(1, context, _begin, begin) as process:
        for cell in cells:
            found = {"note": why}
            if not why:
                try:
                    task = process.submit(_measured, mode, name, cell)
                    found |= task.result()
                    if found["seconds"] > LONGEST_STEP / 4:
                        why = "a step of the next length takes too long"
                except Exception as error:
                    lines = str(error).strip().splitlines()
                    why = lines[-1] if lines else type(error).__name__
                    found["note"] = why
            yield found


def _begin(mode, name, first, warm):
    """Starts the backend, and loads what its first step loads."""
    global _MEMORY
    steps.array([0.0])
    if warm:
        steps.step_of(mode, name, first._replace(length=256))()
    _MEMORY = PeakMemory()


def _measured(mode, name, cell):
    step, seconds = steps.step_of(mode, name, cell), []
    step()
    peak = _MEMORY.of(step)  # warms up, too
    while len(seconds) < ROUNDS and sum(seconds) < LONGEST_STEP:
        started = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - started)
    median = statistics.median(seconds)
    return {"seconds": float(f"{median:.6g}"), "bytes": peak}


class PeakMemory:
    """The most memory that steps take, in bytes.

    On a GPU what the backend's allocator has handed out; on a CPU the resident
    set beyond what the process held before the model was built. The peak of
    compiling is not counted where the system can forget it (Linux).
    """

    def __init__(self):
        self.gpu = steps.on_gpu()
        gc.collect()
        self.before = 0 if self.gpu else _resident("VmRSS")

    def of(self, step):
        """Runs a step that has run before and returns the peak."""
        if self.gpu:
            return _on_gpu(step)
        with (
            contextlib.suppress(OSError),
            open("/proc/self/clear_refs", "w") as control,
        ):
            control.write("5")  # forget the peak so far
        for _ in range(3):
            step()
        return _resident("VmHWM") - self.before


def _on_gpu(step):
    if steps.BACKEND == "torch":
        import torch

        torch.cuda.reset_peak_memory_stats()
        step()
        return torch.cuda.max_memory_allocated()
    step()
    if steps.BACKEND == "jax":
        import jax

        return jax.devices()[0].memory_stats()["peak_bytes_in_use"]
    import tensorflow as tf

    return tf.config.experimental.get_memory_info("GPU:0")["peak"]


def _resident(field):
    """A field of Linux' `/proc/self/status`, elsewhere the peak, in bytes."""
    with (
        contextlib.suppress(OSError),
        open("/proc/self/status", encoding="utf-8") as lines,
    ):
        for line in lines:
            if line.startswith(f"{field}:"):
                return int(line.split()[1]) * 1024
    import resource  # not on Windows

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024

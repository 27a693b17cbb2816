"""Interleaved timings, and the memory that one step takes."""

import contextlib
import gc
import os
import statistics
import subprocess
import sys
import time
from typing import NamedTuple

from memory import peak_memory, status

SLICE_SECONDS = 0.02  # short steps are repeated until a slice takes this long
# Multiplies matrices for as long as the process that started it lives.
BUSY = """
import os, numpy
parent = os.getppid()
x = numpy.ones((1000, 1000), "float32")
while os.getppid() == parent:
    x @ x
"""


class Timing(NamedTuple):
    """Seconds per step: median, and the half width of the middle half."""

    median: float
    spread: float
    first: float  # seconds of the first call: compiling


def interleaved(steps, rounds, progress=lambda: None, clock=None):
    """Times functions in turn, so that all see the same weather.

    Args:
        steps: Dictionary of functions without arguments.
        rounds: Integer, how often each is timed after its warm-up.
        progress: Function to call after each round.
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
            progress()
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


@contextlib.contextmanager
def busy(number):
    """Keeps as many cores busy for a `with` block, each by a process."""
    single = dict.fromkeys(
        ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", BUSY],
            env={**os.environ, **single},
        )
        for _ in range(number)
    ]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


class PeakMemory:
    """The most memory that steps take, in bytes.

    On a GPU what the backend's allocator has handed out; on a CPU the resident
    set beyond what the process held before the model was built. The peak of
    compiling is not counted where the system can forget it (Linux).
    """

    def __init__(self, backend, gpu):
        self.backend, self.gpu = backend, gpu
        gc.collect()
        self.before = 0 if gpu else status("VmRSS") or peak_memory()

    def of(self, step):
        """Runs a step that has run before and returns the peak."""
        if self.gpu:
            return self._gpu(step)
        try:
            with open("/proc/self/clear_refs", "w") as control:
                control.write("5")  # forget the peak so far
        except OSError:
            pass
        for _ in range(3):
            step()
        return peak_memory() - self.before

    def _gpu(self, step):
        if self.backend == "torch":
            import torch

            torch.cuda.reset_peak_memory_stats()
            step()
            return torch.cuda.max_memory_allocated()
        step()
        if self.backend == "jax":
            import jax

            return jax.devices()[0].memory_stats()["peak_bytes_in_use"]
        import tensorflow as tf

        return tf.config.experimental.get_memory_info("GPU:0")["peak"]

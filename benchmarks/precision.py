"""Training steps of a translation model: precisions and memory allocators.

The model of docs/benchmarks for Multi30K trains on random tokens with float32
and with Keras' policy mixed_bfloat16, with the C library's memory allocator as
it is and with settings that keep freed memory, in large pages (Linux, glibc).
Allocators are settings of a process, so each contender has one; they step in
turn.

    KERAS_BACKEND=torch python benchmarks/precision.py
    KERAS_BACKEND=jax python benchmarks/precision.py R --lengths 24
"""

import argparse
import contextlib
import itertools
import os
import subprocess
import sys

os.environ.setdefault("KERAS_BACKEND", "torch")

import command
import keras
import numpy as np
from measuring import interleaved
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from keras_synth import models, synthesizers, training

POLICIES = ("float32", "mixed_bfloat16")
ALLOCATORS = {
    "as it is": {},
    "keeps memory": {
        "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
        "MALLOC_MMAP_MAX_": "0",
        "MALLOC_TRIM_THRESHOLD_": "20000000000",
    },
}


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = command.adder(parser)
    add("synthesizer", "name of a variant", nargs="?", default="V")
    add("--lengths", type=int, nargs="+", default=[16, 24], help="in tokens")
    add("--batch-size", dest="batch", type=int, default=128)
    add(
        "--vocabulary-size",
        "tokens",
        dest="vocabulary",
        type=int,
        default=8000,
    )
    add(
        "--num-layers",
        "of encoder and decoder each",
        dest="layers",
        type=int,
        default=3,
    )
    add("--hidden-dim", dest="width", type=int, default=256)
    add("--num-heads", dest="heads", type=int, default=4)
    add("--rounds", type=int, default=5)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    settings = command.parse(parser)
    try:
        synthesizers.get(settings.synthesizer, settings.heads, 8, 8)
    except ValueError as error:
        parser.error(str(error))
    return settings


class Contender:
    """A process that trains a step when it is told to.

    Args:
        policy: Name of a dtype policy of Keras.
        allocator: Dictionary of environment variables.
        arguments: The command line, list of strings.
    """

    def __init__(self, policy, allocator, arguments):
        self.process = subprocess.Popen(
            [sys.executable, __file__, *arguments, "--child", policy],
            env={**os.environ, **allocator},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def step(self, length):
        """Makes a training step on `length` tokens, and waits for it."""
        with contextlib.suppress(BrokenPipeError):  # the answer tells it
            print(length, file=self.process.stdin, flush=True)
        if not self.process.stdout.readline():
            sys.exit("A contender has stopped; its error stands above.")


def answer(settings):
    """The contender's side: makes the steps that are asked for."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # others may print

    keras.config.set_dtype_policy(settings.child)
    model = models.SynthesizerSeq2SeqLM(
        models.SynthesizerSeq2SeqBackbone(
            vocabulary_size=settings.vocabulary,
            num_layers=settings.layers,
            num_heads=settings.heads,
            hidden_dim=settings.width,
            intermediate_dim=2 * settings.width,
            synthesizer=settings.synthesizer,
            dropout=0.2,
            max_sequence_length=max(settings.lengths),
            positions="sinusoidal",
        )
    )
    model.compile(
        optimizer=keras.optimizers.Adam(1e-4),
        loss=training.LabelSmoothedCrossentropy(label_smoothing=0.1),
        weighted_metrics=[],
    )
    rng = np.random.default_rng(0)
    for line in sys.stdin:
        shape = settings.batch, int(line)
        ids = rng.integers(settings.vocabulary, size=shape)
        mask = np.ones(shape, bool)
        sides = {
            f"{side}_{name}": values
            for side in ("encoder", "decoder")
            for name, values in (("token_ids", ids), ("padding_mask", mask))
        }
        loss = model.train_on_batch(sides, ids, mask.astype("float32"))
        print(float(loss), file=out, flush=True)


def main():
    settings = parse()
    if settings.child:
        answer(settings)
        return
    names = list(itertools.product(POLICIES, ALLOCATORS))
    contenders = {
        name: Contender(name[0], ALLOCATORS[name[1]], sys.argv[1:])
        for name in names
    }
    timings = {}
    with Progress(console=Console(stderr=True)) as progress:
        total = len(settings.lengths) * settings.rounds
        bar = progress.add_task("rounds", total=total)
        for length in settings.lengths:
            calls = {
                name: lambda contender=contender, n=length: contender.step(n)
                for name, contender in contenders.items()
            }
            timings[length] = interleaved(
                calls, settings.rounds, lambda: progress.advance(bar)
            )
    for contender in contenders.values():
        contender.process.communicate()
    show(timings, settings)


def show(timings, settings):
    """Prints seconds and how many times as fast as the first contender."""
    table = Table(
        title=f"{settings.synthesizer}, {os.environ['KERAS_BACKEND']}, batch "
        f"{settings.batch}: seconds a training step"
    )
    for heading in ("policy", "allocator"):
        table.add_column(heading)
    for length in settings.lengths:
        table.add_column(f"{length} tokens", justify="right")
        table.add_column("times as fast", justify="right")
    for name in itertools.product(POLICIES, ALLOCATORS):
        cells = []
        for length in settings.lengths:
            first, *_ = timings[length].values()
            timing = timings[length][name]
            cells.append(f"{timing.median:.3f} ±{timing.spread:.3f}")
            cells.append(f"{first.median / timing.median:.2f}")
        table.add_row(*name, *cells)
    Console(width=max(100, Console().width)).print(table)


if __name__ == "__main__":
    main()

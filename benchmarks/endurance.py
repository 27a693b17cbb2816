"""Whether a process that works for an hour grows.

    KERAS_BACKEND=jax python benchmarks/endurance.py --minutes 60
    python benchmarks/endurance.py --report

One process trains a classifier on batches of changing lengths
(`LengthBuckets`) and on raw texts, predicts a changing number of texts of
changing lengths, and generates to changing lengths, round after round. Beside
the memory that it holds it counts what may pile up: compiled programs, live
Python objects, registered classes and routes, threads, open files. Samples go
to a CSV file one by one; `--report` makes a table and a picture of all files.
Memory and files are read from `/proc`: Linux alone.
"""

import argparse
import csv
import gc
import os
import pathlib
import sys
import threading
import time

os.environ.setdefault("KERAS_BACKEND", "jax")

import command
import keras
import numpy as np
import reporting
from records import Records

from keras_synth import models, routes
from keras_synth.training import LengthBuckets

FIELDS = [
    *("run", "backend", "seconds", "rounds", "memory", "programs", "objects"),
    *("registered", "threads", "files"),
]
WORDS = [a + b for a in "bdfgklmnprst" for b in "aeiou"]
SPECIAL = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
LENGTHS = [16, 32, 64]  # tokens
MOST_TEXTS = 24  # of a call
BATCH = 8
MIB = 2**20
WARM_UP = 0.25  # of the time: what is compared with the end


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = command.adder(parser)
    add("--minutes", "how long it works", type=float, default=60.0)
    add("--every", "seconds between samples", type=float, default=20.0)
    add("--variant", "synthesizer of both models", default="R+V")
    add("--report", action="store_true", help="only show what there is")
    add("--output", type=pathlib.Path, default=pathlib.Path("benchmarks/out"))
    settings = command.parse(parser)
    for name in ("minutes", "every"):
        if getattr(settings, name) <= 0:
            parser.error(
                f"--{name} must be more than 0. "
                f"Received: {getattr(settings, name)}"
            )
    return settings


# --- what it does -------------------------------------------------------------


class Work:
    """Two small models, and rounds of what people do with them.

    Args:
        variant: String, the synthesizer of both.
    """

    def __init__(self, variant):
        self.rng = np.random.default_rng(0)
        tokenizer = models.SynthesizerTokenizer([*SPECIAL, *WORDS])
        sizes = {
            "vocabulary_size": tokenizer.vocabulary_size(),
            "num_layers": 1,
            "num_heads": 2,
            "hidden_dim": 16,
            "intermediate_dim": 32,
            "max_sequence_length": max(LENGTHS),
            "synthesizer": variant,
        }
        self.classifier = models.SynthesizerTextClassifier(
            models.SynthesizerBackbone(**sizes),
            num_classes=2,
            preprocessor=models.SynthesizerTextClassifierPreprocessor(
                tokenizer, max(LENGTHS)
            ),
        )
        # The same weights, for batches that are tokenized already.
        self.on_batches = models.SynthesizerTextClassifier(
            self.classifier.backbone, num_classes=2, preprocessor=None
        )
        for model in (self.classifier, self.on_batches):
            model.compile("adam", "sparse_categorical_crossentropy")
        self.writer = models.SynthesizerCausalLM(
            models.SynthesizerBackbone(**sizes, causal=True),
            models.SynthesizerCausalLMPreprocessor(tokenizer, max(LENGTHS)),
        )
        self.writer.compile("adam", sampler="top_k")

    @property
    def models(self):
        return self.classifier, self.on_batches, self.writer

    def round(self):
        """Trains, predicts and generates once."""
        self.on_batches.fit(self.batches(), verbose=0)
        texts = self.texts(2 * BATCH)
        labels = self.rng.integers(0, 2, len(texts))
        self.classifier.fit(texts, labels, batch_size=BATCH, verbose=0)
        texts = self.texts(self.rng.integers(1, MOST_TEXTS))
        self.classifier.predict(texts, batch_size=BATCH, verbose=0)
        self.on_batches.predict(self.batches(), verbose=0)
        prompts = self.texts(self.rng.choice([1, 4]), longest=10)
        length = int(self.rng.choice(LENGTHS))
        self.writer.generate(prompts, max_length=length, stop_token_ids=None)

    def texts(self, count, longest=LENGTHS[-1]):
        lengths = self.rng.integers(1, longest, int(count))
        return [" ".join(self.rng.choice(WORDS, n)) for n in lengths]

    def batches(self):
        """Examples of other lengths each time, in batches of a few shapes."""
        real = self.rng.integers(1, max(LENGTHS) + 1, (4 * BATCH, 1))
        shape = (len(real), max(LENGTHS))
        features = {
            "token_ids": self.rng.integers(len(SPECIAL), len(WORDS), shape),
            "padding_mask": np.arange(max(LENGTHS)) < real,
        }
        labels = self.rng.integers(0, 2, len(real))
        seed = int(self.rng.integers(2**31))
        return LengthBuckets(features, labels, BATCH, LENGTHS, seed=seed)


# --- what it counts -----------------------------------------------------------


class Programs:
    """Counts what the backend compiles: programs, or traces of functions."""

    def __init__(self, backend):
        self.backend = backend
        self.compiled = 0
        if backend == "jax":
            import jax

            jax.monitoring.register_event_duration_secs_listener(self._listen)

    def _listen(self, event, duration, **_):
        self.compiled += event.endswith("backend_compile_duration")

    def count(self, counted):
        """How many there are by now.

        Args:
            counted: Models whose functions TensorFlow has traced.
        """
        if self.backend != "tensorflow":
            return self.compiled  # PyTorch compiles nothing here
        names = ("train_function", "predict_function", "generate_function")
        found = [getattr(m, name, None) for m in counted for name in names]
        return sum(map(_traces, filter(None, found)))


def _traces(function):
    """How often TensorFlow has traced a function, or one that it wraps."""
    if hasattr(function, "experimental_get_tracing_count"):
        return function.experimental_get_tracing_count()
    cells = [
        c.cell_contents for c in getattr(function, "__closure__", ()) or ()
    ]
    return sum(
        x.experimental_get_tracing_count()
        for x in cells
        if hasattr(x, "experimental_get_tracing_count")
    )


def sample(work, programs):
    """What the process holds now: a dictionary of numbers."""
    gc.collect()
    return {
        "memory": _resident_bytes(),
        "programs": programs.count(work.models),
        "objects": len(gc.get_objects()),
        "registered": len(keras.saving.get_custom_objects())
        + len(routes.registered()),
        "threads": threading.active_count(),
        "files": len(os.listdir("/proc/self/fd")),
    }


def _resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def run(settings):
    """Works until the time is up; writes a sample now and then."""
    backend = keras.backend.backend()
    path = settings.output / f"endurance_{backend}.csv"
    records = Records(path, FIELDS, ["run", "seconds"])
    programs, work = Programs(backend), Work(settings.variant)
    started, rounds, due = time.time(), 0, 0.0
    own = {"run": int(started), "backend": backend}
    elapsed = 0.0
    while elapsed < 60 * settings.minutes:
        work.round()
        rounds += 1
        elapsed = time.time() - started
        if elapsed >= due:
            due = elapsed + settings.every
            found = sample(work, programs)
            records.append(
                {**own, "seconds": f"{elapsed:.0f}", "rounds": rounds, **found}
            )
            print(
                f"{elapsed / 60:5.1f} min, round {rounds}: "
                f"{found['memory'] / MIB:.0f} MiB, "
                f"{found['programs']} programs",
                flush=True,
            )


# --- what it shows ------------------------------------------------------------


def report(folder):
    """Prints a table and saves a picture of the last run on each backend."""
    runs = list(
        filter(None, map(_last_run, sorted(folder.glob("endurance_*.csv"))))
    )
    if not runs:
        sys.exit(f"There are no endurance_*.csv in {folder}: run it first.")
    counts = ["programs", "objects", "registered", "threads", "files"]
    memory, piled = [], []
    for rows in runs:
        warm, last = rows[int(WARM_UP * len(rows))], rows[-1]
        memory.append(
            [
                last["backend"],
                f"{last['seconds'] / 60:.0f}",
                str(last["rounds"]),
                f"{warm['memory'] / MIB:.0f}",
                f"{last['memory'] / MIB:.0f}",
                f"{_slope(rows):+.1f}",
            ]
        )
        piled.append(
            [last["backend"], *(f"{warm[x]} / {last[x]}" for x in counts)]
        )
    headings = ["", "minutes", "rounds", "MiB, warm", "MiB, end", "MiB an hour"]
    reporting.print_table("memory", headings, memory)
    reporting.print_table(
        "after a quarter of the time / at the end", ["", *counts], piled
    )
    path = folder / "endurance.png"
    with reporting.picture(path, 2, (10, 4), "minutes") as axes:
        for rows in runs:
            minutes = [row["seconds"] / 60 for row in rows]
            for each, key, unit in zip(
                axes, ("memory", "programs"), (MIB, 1), strict=True
            ):
                values = [row[key] / unit for row in rows]
                each.plot(minutes, values, label=rows[0]["backend"])
        axes[0].set_title("memory, MiB")
        axes[1].set_title("compiled programs")
        for each in axes:
            each.set_ylim(bottom=0)
        axes[0].legend()
    print(path)


def _last_run(path):
    """The samples of a file's last run: a list of dictionaries of numbers."""
    with open(path, encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return [
        {k: x if k == "backend" else int(x) for k, x in row.items()}
        for row in rows
        if row["run"] == rows[-1]["run"]
    ]


def _slope(rows):
    """Bytes that a straight line gains after the warm-up, in MiB an hour."""
    rows = rows[int(WARM_UP * len(rows)) :]
    if len(rows) < 2:
        return 0.0
    hours = [row["seconds"] / 3600 for row in rows]
    return np.polyfit(hours, [row["memory"] / MIB for row in rows], 1)[0]


def main():
    settings = parse()
    if not settings.report:
        run(settings)
    report(settings.output)


if __name__ == "__main__":
    main()

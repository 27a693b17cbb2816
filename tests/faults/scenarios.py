"""What is killed: commands and models, small enough to train in a second."""

import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
import time

import h5py
import keras
import matplotlib.backends.backend_agg  # so that no child need import it
import matplotlib.figure  # noqa: F401
import numpy as np

import keras_synth.models
import keras_synth_command
from keras_synth._system.files import UnwrittenError, naming_what_is_unwritten
from keras_synth.compare import launchers, options, worker

BACKEND = keras.backend.backend()
SMALL = (
    "--epochs 2 --num-layers 1 --hidden-dim 8 --num-heads 2 "
    "--sequence-length 16 --vocabulary-size 100 --batch-size 8"
).split()
ROWS = [f"number {i} is {'even odd'.split()[i % 2]},{i % 2}" for i in range(40)]
LINES = [row.rpartition(",")[0] for row in ROWS]
# Figures of a result that differ from run to run.
OF_TIME = {
    *"started seconds train_seconds compile_seconds".split(),
    *"steps_per_second data_share peak_memory_bytes".split(),
}


@dataclasses.dataclass(frozen=True)
class Here(launchers.Launcher):
    """Runs in this process, so that a kill may come at any of their points."""

    def missing(self, backends):
        return []

    def __call__(self, runs, jobs):
        for run in runs:
            yield run, {"note": "starting"}
            spec = json.loads(jobs.write_spec(run).read_text())
            started = time.time()
            log = jobs.paths(run)["log"]
            with naming_what_is_unwritten(log), open(log, "w"):
                pass
            events = []
            try:
                result = worker.perform(spec, events.append)
            except UnwrittenError as error:
                yield run, {"unwritten": str(error)}
                return
            yield from ((run, event) for event in events)
            times = {"started": round(started), "seconds": 0.0}
            yield run, {"result": {**times, **result}}


def command(folder, *arguments):
    """Runs `keras-synth`, its runs in this process; returns its status."""
    options.LAUNCHERS["local"] = Here
    backend = "--backends" if arguments[0] == "compare" else "--backend"
    given = [*arguments, backend, BACKEND, "--output", str(folder), "--resume"]
    try:
        return keras_synth_command.main(given)
    except SystemExit as stop:
        return stop.code


def compare(folder):
    """Two variants."""
    return command(folder, "compare", *labelled(folder), "--variants", "R", "V")


def train(folder):
    """One model, kept as a preset."""
    return command(folder, "train", *labelled(folder))


def pretraining(folder):
    """A masked language model, which a comparison keeps."""
    path = folder.with_name("corpus")
    task = ["--task", "mlm", "--data", str(path), "--examples", "16"]
    return command(folder, "compare", *task, *SMALL, "--variants", "R")


def labelled(folder):
    path = folder.with_name("labelled.csv")
    return ["--task", "csv", "--data", str(path), *SMALL]


def presets(folder):
    """A preset, a file and weights of a model, over those of another one."""
    save(model(1), folder)
    return 0


def model(seed):
    keras.utils.set_random_seed(seed)
    return keras_synth.models.SynthesizerTextClassifier(
        keras_synth.models.SynthesizerBackbone(
            vocabulary_size=20,
            num_layers=1,
            num_heads=2,
            hidden_dim=8,
            intermediate_dim=8,
            synthesizer="R",
            max_sequence_length=8,
            name="backbone",
        ),
        num_classes=2,
        name="classifier",
    )


def save(made, folder):
    made.save_to_preset(folder / "preset")
    made.save(folder / "model.keras")
    made.save_weights(folder / "model.weights.h5")


SCENARIOS = {x.__name__: x for x in (train, compare, pretraining, presets)}


def prepare(name, folder):
    """Makes what a scenario starts from, once for all cases.

    That is texts beside its folder, and in it what these are as tokens: most
    cases need not wait for TensorFlow, which tokenizes.
    """
    folder.mkdir(parents=True)
    corpus = folder.with_name("corpus")
    corpus.mkdir()
    (corpus / "a.txt").write_text("\n".join(20 * LINES))
    rows = "\n".join(["text,label", *ROWS])
    folder.with_name("labelled.csv").write_text(rows)
    if name == "presets":
        save(model(0), folder)
        return
    whole = folder.with_name("whole")
    assert SCENARIOS[name](whole) == 0
    shutil.copytree(whole / "data", folder / "data")
    shutil.rmtree(whole)


def outcome(name, folder):
    """What a scenario has come to: numbers and weights, to compare."""
    found = {}
    results = folder / "results.jsonl"
    for line in results.read_text().splitlines() if results.exists() else []:
        row = json.loads(line)
        variant = row["key"]["variant"]
        assert variant not in found, f"{variant} has two results"
        found[variant] = {x: y for x, y in row.items() if x not in OF_TIME}
    for path in sorted(folder.rglob("*")):
        place = path.relative_to(folder).as_posix()
        assert "partial" not in place, f"{place} is left"
        assert path.name != ".lock"
        if path.suffix == ".h5":
            found[place] = arrays(path)
        elif "preset" in place and path.is_file():
            content = path.read_text()
            if path.name == "metadata.json":
                content = without_dates(content)
            found[place] = content
    assert not [*folder.glob("checkpoints/*")], "a checkpoint is left"
    if (folder / "model.keras").exists():
        loaded = keras.saving.load_model(folder / "model.keras")
        found["model.keras"] = [w.tolist() for w in loaded.get_weights()]
    return found


def without_dates(content):
    kept = json.loads(content)
    return {x: y for x, y in kept.items() if not x.startswith("date")}


def arrays(path):
    """Name -> values of the arrays in a file of weights."""
    found = {}

    def note(name, item):
        if isinstance(item, h5py.Dataset):
            found[name] = np.asarray(item).tolist()

    with h5py.File(path) as file:
        file.visititems(note)
    return found


@contextlib.contextmanager
def fresh(folder, start):
    """A copy of what a scenario starts from, removed afterwards."""
    shutil.copytree(start, folder)
    try:
        yield pathlib.Path(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def quietly(path):
    """Sends what this process prints to a file."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for descriptor in (1, 2):
        os.dup2(file, descriptor)

"""`--callbacks MODULE:FUNCTION`: checked early, and handed to each run."""

import json
import pathlib
import sys

import command_line
import keras
import pytest
from backend import slow_but_on
from command_line import BACKEND, rows

import keras_synth_command
from keras_synth.compare import (
    callbacks,
    grid,
    jobs,
    launchers,
    options,
    prepare,
    worker,
)

SMALL = (
    "--task reviews --examples 200 --epochs 3 --num-layers 1 --num-heads 2 "
    "--hidden-dim 16 --sequence-length 48 --lengths 32 --vocabulary-size 300 "
    "--batch-size 16 --variants R"
).split()
MODULE = """
import json
import keras

class Notes(keras.callbacks.Callback):
    def __init__(self, run):
        super().__init__()
        self.run, self.path = run, run.folder / "notes.jsonl"

    def on_epoch_end(self, epoch, logs=None):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        note = {"epoch": epoch, "variant": self.run.variant, **logs}
        with open(self.path, "a") as file:
            print(json.dumps(note), file=file)

def notes(run):
    return Notes(run)

def several(run):
    return [Notes(run), keras.callbacks.LambdaCallback()]

def wrong(run):
    return [Notes(run), "no callback"]

def empty(run):
    return []

def failing(run):
    raise KeyError("no\\nproject")

def none():
    return Notes(None)

number = 3
"""
INFO = callbacks.RunInfo(
    "R-2-0", "R", 2, 0, BACKEND, {}, pathlib.Path("folder")
)


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module in the folder where commands are given; its name."""
    name = f"watch_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    (tmp_path / f"{name}_broken.py").write_text("import nothing_of_the_kind")
    (tmp_path / f"{name}_typo.py").write_text("def notes(run)\n    return 1")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return name


def test_a_function_makes_callbacks(module, tmp_path):
    (one,) = callbacks.callbacks_of(f"{module}:notes", INFO, tmp_path)
    assert one.run == INFO
    several = callbacks.callbacks_of(f"{module}:several", INFO, tmp_path)
    assert len(several) == 2
    assert all(isinstance(x, keras.callbacks.Callback) for x in several)
    installed = callbacks.callbacks_of(
        "keras.callbacks:CSVLogger", "x.csv", tmp_path
    )
    assert isinstance(installed[0], keras.callbacks.CSVLogger)


@pytest.mark.once
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no_such_module:notes", "there is no module 'no_such_module' in "),
        ("{0}.inner:notes", "there is no module '{0}.inner' in "),
        ("{0}_broken:notes", "No module named 'nothing_of_the_kind'"),
        ("{0}_typo:notes", "cannot be imported. Received: SyntaxError"),
        ("{0}:note", "has no 'note'. Did you mean 'notes'?"),
        (
            "{0}:number",
            "must name a function. Received: --callbacks {0}:number",
        ),
        ("{0}", "must be MODULE:FUNCTION"),
        (":notes", "must be MODULE:FUNCTION"),
        ("{0}:", "must be MODULE:FUNCTION"),
        ("{0}:wrong", "must return a keras.callbacks.Callback, or a list"),
        ("{0}:empty", "or a list of them. Received: []"),
        ("{0}:failing", "Received: KeyError: 'no\\nproject'"),
        ("{0}:none", "Received: TypeError: none() takes 0 positional"),
    ],
)
@pytest.mark.parametrize("command", ["compare", "train"])
def test_wrong_ones_are_one_line_before_anything_is_made(
    module, tmp_path, capsys, name, words, command
):
    given = SMALL[:-2]
    given += ["--callbacks", name.format(module), "--output", "out"]
    with pytest.raises(SystemExit) as stop:
        keras_synth_command.main([command, *given])
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert words.format(module) in said
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    parser = options.parser("x", "", "", "own", lambda add: None)
    words = " ".join(SMALL[:-2]).replace("--num-heads 2 ", "").split()
    given = parser.parse_args(words)
    settings = options.settings_of(given)
    folder = tmp_path_factory.mktemp("data")
    return settings, prepare.prepare(
        settings, options.source_of(given), folder, lambda line: None
    )


def spec_of(data, folder, name):
    settings, arrays = data
    work = jobs.Jobs(settings, arrays, "0", folder, options={"callbacks": name})
    run = grid.Run("R", 2, 0, BACKEND)
    return json.loads(work.write_spec(run).read_text()), work.paths(run)


def notes(paths):
    lines = (paths["callbacks"] / "notes.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_callbacks_see_each_epoch_and_its_validation(data, module, tmp_path):
    spec, paths = spec_of(data, tmp_path / "out", f"{module}:notes")
    result = worker.perform(spec, lambda event: None)
    found = notes(paths)
    assert [x["epoch"] for x in found] == [0, 1, 2]
    assert {x["variant"] for x in found} == {"R"}
    assert [x["val_score"] for x in found] == result["validation_scores"]
    assert [x["val_loss"] for x in found] == result["validation_losses"]
    assert all(0 < x["loss"] < 2 for x in found)


@slow_but_on("torch")
def test_callbacks_change_nothing_and_go_on_after_a_stop(
    data, module, tmp_path, monkeypatch
):
    spec, _ = spec_of(data, tmp_path / "without", None)
    expected = worker.perform(spec, lambda event: None)
    spec, paths = spec_of(data, tmp_path / "with", f"{module}:notes")

    def stop(event):
        if event.get("step", 0) > 20 and "loss" in event:  # in epoch 1
            raise KeyboardInterrupt

    monkeypatch.setattr(worker, "EVENT_SECONDS", 0)
    with pytest.raises(KeyboardInterrupt):
        worker.perform(spec, stop)
    assert [x["epoch"] for x in notes(paths)] == [0]
    result = worker.perform(spec, lambda event: None)
    assert [x["epoch"] for x in notes(paths)] == [0, 1, 2]
    for name in ("losses", "validation_losses"):
        assert result[name] == pytest.approx(expected[name], abs=2e-4)


def test_a_run_whose_callback_fails_says_so(data, module, tmp_path):
    spec, _ = spec_of(data, tmp_path / "out", f"{module}:failing")
    with pytest.raises(ValueError, match="Received: KeyError"):
        worker.perform(spec, lambda event: None)


@slow_but_on("torch")
def test_the_command_hands_them_to_its_processes(module, tmp_path):
    status, _, err = command_line.run_here(
        tmp_path / "out",
        *(*SMALL, "--callbacks", f"{module}:notes"),
        launcher=launchers.Local,
    )
    assert status == 0, err
    (row,) = rows(tmp_path / "out")
    assert row["options"] == {"callbacks": f"{module}:notes"}
    (folder,) = (tmp_path / "out" / "callbacks").iterdir()
    assert folder.name.startswith(f"R-2-0-{BACKEND}-")
    found = notes({"callbacks": folder})
    assert [x["val_score"] for x in found] == row["validation_scores"]
    page = (tmp_path / "out" / "report.html").read_text()
    assert f"--callbacks {module}:notes" in page

"""Damaged files are refused in a line that names them and the way out."""

import json

import keras
import numpy as np
import pytest
from backend import slow_but_on

from keras_synth.callbacks import EpochCheckpoint
from keras_synth.commands import compare, report
from keras_synth.compare import prepare, tasks, worker
from keras_synth.compare.results import FORMAT, Results

# What is in a file does not depend on the backend.
pytestmark = slow_but_on("torch")


def small_model():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model


@pytest.fixture
def checkpoint(tmp_path):
    """Writes a checkpoint of two epochs, changed by a function; restores it."""
    path = tmp_path / "checkpoint.npz"
    model = small_model()
    made = EpochCheckpoint(path, {"losses": [2.0, 1.0]})
    made.set_model(model)
    model.optimizer.build(model.trainable_variables)
    made.on_epoch_end(1)

    def restore(change):
        with np.load(path) as file:
            arrays = {name: file[name] for name in file.files}
        notes = json.loads(str(arrays.pop("notes")))
        notes = change(notes, arrays) or notes
        given = notes if isinstance(notes, str) else json.dumps(notes)
        np.savez(path, notes=given, **arrays)
        history = {"losses": []}
        epochs = EpochCheckpoint(path, history).restore(small_model())
        return epochs, history

    restore.path = path
    return restore


def test_a_checkpoint_that_is_whole_is_restored(checkpoint):
    assert checkpoint(lambda n, a: None) == (2, {"losses": [2.0, 1.0]})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda n, a: n["history"].update(gone=[1]), "another history"),
        (lambda n, a: n["history"].pop("losses") and None, "another history"),
        (lambda n, a: n.update(epochs="2"), "epochs are '2'"),
        (lambda n, a: n.update(epochs=-1), "epochs are -1"),
        (lambda n, a: n.update(epochs=2.0), "epochs are 2.0"),
        (lambda n, a: n.update(epochs=True), "epochs are True"),
        (lambda n, a: n.pop("epochs") and None, "cannot be read"),
        (lambda n, a: n.update(history=[1]), "cannot be read"),
        (lambda n, a: n.update(history={"losses": 3}), "no list"),
        (lambda n, a: n.update(count="2"), "cannot be read"),
        (lambda n, a: n.update(count=99), "cannot be read"),
        (lambda n, a: n.update(count=0), "another model"),
        (lambda n, a: a.update({"0": a["0"].astype(str)}), "not numbers"),
        (lambda n, a: a.update({"0": a["0"].astype(object)}), "cannot be read"),
        (lambda n, a: [1, 2], "cannot be read"),
        (lambda n, a: "[" * 10**5, "cannot be read"),
        (lambda n, a: '{"epochs": 1', "cannot be read"),
    ],
)
def test_a_damaged_checkpoint_says_what_to_do(checkpoint, change, words):
    with pytest.raises(ValueError, match=words) as error:
        checkpoint(change)
    (line,) = str(error.value).splitlines()
    assert str(checkpoint.path) in line
    assert "Remove it to start from the first epoch." in line


def key(**more):
    settings = tasks.TASKS["reviews"].settings("reviews").to_json()
    run = {"variant": "R", "num_heads": 4, "seed": 0, "backend": "torch"}
    return {"settings": settings, **run, "data": "0", **more}


def whole_row(**more):
    numbers = "score test_loss compile_seconds train_seconds seconds data_share"
    nothing = "steps_per_second multiplications peak_memory_bytes"
    return {
        "format": FORMAT,
        "key": key(),
        **dict.fromkeys(numbers.split(), 0.5),
        **dict.fromkeys(nothing.split()),
        "validation_scores": [0.5],
        "losses": [1.0],
        "parameters": 3,
        **more,
    }


DAMAGED = {
    "a list": b"[1, 2]",
    "a number": b"7",
    "nothing": b"",
    "no key": json.dumps({"format": FORMAT}).encode(),
    "a key that is a list": json.dumps({"format": FORMAT, "key": []}).encode(),
    "settings that are a text": json.dumps(
        {"format": FORMAT, "key": {"settings": "x"}}
    ).encode(),
    "a task that is a list": json.dumps(
        {"format": FORMAT, "key": {"settings": {"task": []}}}
    ).encode(),
    "versions that are a list": b'{"format": 99, "versions": []}',
    "no text": b'{"format": \xff}',
    "zeros": bytes(40),
    "brackets": b"[" * 100_000,
    "a thousand lists": b"[" * 1000 + b"]" * 1000,
    "a thousand keys": b'{"a": ' * 1000 + b"1" + b"}" * 1000,
    "cut": b'{"format": 5, "key": {"settings"',
}


@pytest.mark.parametrize("place", ["first", "last"])
@pytest.mark.parametrize("kind", DAMAGED)
def test_a_damaged_result_says_which_line_and_what_to_do(
    tmp_path, kind, place, capsys
):
    """Also to those who would go on, or see a report."""
    path = tmp_path / "results.jsonl"
    lines = [DAMAGED[kind], json.dumps(whole_row()).encode()]
    lines = lines[:: 1 if place == "first" else -1]
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    before = path.read_bytes()
    number = 1 + (place == "last")
    with pytest.raises(ValueError, match=f"line {number}") as error:
        Results(path)
    assert len(str(error.value).splitlines()) == 1
    assert "another folder with --output" in str(error.value)
    for main, given in [
        (report.main, [str(tmp_path)]),
        (compare.main, ["--output", str(tmp_path), "--resume"]),
    ]:
        with pytest.raises(SystemExit) as stop:
            main(given, "prog")
        assert stop.value.code == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"prog: {path}, line {number}")
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"key": {"settings": {}}}, "'variant'"),
        (whole_row(key=key(settings={})), "task"),
        (whole_row(score="0.5"), "'score'"),
        (whole_row(losses=None), "'losses'"),
        (whole_row(losses=[]), "'losses' are no numbers"),
        (whole_row(validation_scores=[None]), "'validation_scores' are no"),
        (whole_row(steps_per_second="fast"), "'steps_per_second'"),
        (whole_row(key=key(seed="0")), "'seed'"),
        ({x: y for x, y in whole_row().items() if x != "score"}, "'score'"),
    ],
)
def test_results_of_which_no_report_can_be_made_say_why(
    tmp_path, capsys, row, words
):
    path = tmp_path / "results.jsonl"
    lines = [whole_row(), {"format": FORMAT, **row}]
    path.write_text("".join(json.dumps(x) + "\n" for x in lines))
    with pytest.raises(SystemExit):
        report.main([str(tmp_path)], "prog")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"prog: {path}, line 2 is damaged (")
    assert words in line
    assert "Remove that line" in line


def test_whole_results_are_reported_beside_those_of_unknown_tasks(tmp_path):
    unknown = {"key": key(settings={"task": "of tomorrow"}), "format": FORMAT}
    path = tmp_path / "results.jsonl"
    lines = [whole_row(), unknown]
    path.write_text("".join(json.dumps(x) + "\n" for x in lines))
    assert report.main([str(tmp_path)], "prog") == 0
    assert (tmp_path / "curves.png").exists()


@pytest.mark.parametrize("cut", [1, 30, 10**6])
def test_reading_changes_no_file(tmp_path, cut):
    """Another process may be about to write the rest of the line."""
    path = tmp_path / "results.jsonl"
    whole = json.dumps(whole_row()).encode() + b"\n"
    path.write_bytes(whole + whole[: max(1, len(whole) - cut)])
    before = path.read_bytes()
    state = path.stat()
    Results(path)
    assert path.read_bytes() == before
    assert path.stat().st_ino == state.st_ino
    assert path.stat().st_mtime_ns == state.st_mtime_ns


def test_damaged_tokens_and_initial_weights_say_what_to_do(tmp_path):
    path = tmp_path / "x.npz"
    for content in (b"", b"PK\3\4 half of a file"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"x\.npz cannot be read as tok"):
            prepare.read(path)
        with pytest.raises(ValueError, match=r"x\.npz cannot be read as init"):
            worker.share_initial_weights(small_model(), path)

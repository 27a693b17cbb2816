"""What a killed process leaves half-written goes; what is being written not."""

import os
import signal
import time

import children
import keras
import pytest
from backend import slow_but_on

from keras_synth._system import files, processes
from keras_synth.callbacks import EpochCheckpoint
from keras_synth.compare import initial, jobs

# Nothing here depends on the backend.
pytestmark = [
    slow_but_on("torch"),
    pytest.mark.skipif(os.name != "posix", reason="forks children"),
]
YEARS = 10 * 365 * 86400


def leftover(folder, owner=None, name="preset", age=0, as_folder=False):
    """Makes what a process was writing so many seconds ago."""
    owner = f"-{owner}" if owner else ""
    path = folder / f".{name}{owner}-0a1b2c3d-partial"
    path.parent.mkdir(parents=True, exist_ok=True)
    if as_folder:
        (path / "assets").mkdir(parents=True)
        inner = path / "assets" / f".x{owner}-0a1b2c3d-partial"
        inner.write_text("half")
        paths = [inner, inner.parent, path]
    else:
        path.write_text("half")
        paths = [path]
    for each in paths:
        os.utime(each, 2 * (time.time() - age,))
    return path


@pytest.mark.parametrize("as_folder", [False, True])
@pytest.mark.parametrize("age", [0, YEARS, -YEARS])
def test_what_a_process_left_goes_once_it_has_ended(tmp_path, as_folder, age):
    """Whatever the clock says."""
    gone = leftover(tmp_path, children.ended(), age=age, as_folder=as_folder)
    kept = leftover(tmp_path, processes.identity(), "own", age, as_folder)
    files.sweep(tmp_path)
    assert not gone.exists()
    assert kept.exists()


@pytest.mark.parametrize("owner", [None, "00000000-7-00000000"])
@pytest.mark.parametrize("as_folder", [False, True])
def test_what_nobody_knows_of_goes_after_a_week(tmp_path, owner, as_folder):
    """That of another machine, and that of version 0.2."""
    week = files.FORGOTTEN_SECONDS
    young = leftover(tmp_path, owner, "young", week - 3600, as_folder)
    old = leftover(tmp_path, owner, "old", week + 3600, as_folder)
    files.sweep(tmp_path)
    assert young.exists()
    assert not old.exists()
    if as_folder:  # which another machine still writes to
        busy = leftover(tmp_path, owner, "busy", week + 3600, as_folder)
        os.utime(next(busy.rglob("*-partial")))
        files.sweep(tmp_path)
        assert busy.exists()


def test_files_of_other_names_are_nobody_s_business(tmp_path):
    names = ["notes.partial", ".x-partial", "a-0a1b2c3d-partial", ".part"]
    for name in names:
        (tmp_path / name).write_text("mine")
        os.utime(tmp_path / name, (0, 0))
    files.sweep(tmp_path)
    files.sweep(tmp_path / "there is none")
    assert sorted(os.listdir(tmp_path)) == sorted(names)


def test_who_writes_next_sweeps(tmp_path):
    """A kill between the writing and the renaming, of a file and a folder."""

    def file():
        with files.writing(tmp_path / "a.txt") as file:
            file.write("half")
            file.flush()
            children.die()

    def folder():
        with (
            files.folder_beside(tmp_path / "preset") as outer,
            files.folder_beside(outer / "model.weights.h5") as inner,
        ):
            (inner / "a").write_text("half")
            children.die()

    for work in (file, folder):
        assert children.status(children.child(work)) == -signal.SIGKILL
        (left,) = tmp_path.iterdir()
        assert files.is_partial(left)
        with files.writing(tmp_path / "b.txt") as file:
            assert not left.exists()
        (tmp_path / "b.txt").unlink()


def test_training_that_goes_on_sweeps_before_it_begins(tmp_path):
    gone = leftover(tmp_path, children.ended(), "model.npz")
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    assert EpochCheckpoint(tmp_path / "model.npz", {}).restore(model) == 0
    assert not gone.exists()


def test_names_of_files_in_hand_differ_and_fit(tmp_path):
    path = tmp_path / ("é" * 120)
    with files.writing(path) as one, files.writing(path) as other:
        one.write("1")
        other.write("2")
    assert path.read_text() == "1"
    assert [*tmp_path.iterdir()] == [path]


def test_a_command_sweeps_its_folders_and_no_others(tmp_path):
    owner = children.ended()
    places = ["", "data", "initial", "checkpoints", "specs", "preset"]
    places += ["presets", "presets/R-2-0-torch-abc", "reports/1"]
    gone = [leftover(tmp_path / x, owner, as_folder=True) for x in places]
    kept = leftover(tmp_path / "my own" / "data", owner)
    jobs.sweep(tmp_path)
    assert not any(path.exists() for path in gone)
    assert kept.exists()


def test_a_preset_that_is_being_written_is_none_to_start_from(tmp_path):
    whole = tmp_path / "presets" / "R-2-0-torch-abc"
    half = leftover(tmp_path / "presets", processes.identity(), as_folder=True)
    for folder in (whole, half):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / initial.CONFIG).write_text("{}")
    (whole / initial.WEIGHTS).touch()
    assert initial.presets(tmp_path) == [whole]

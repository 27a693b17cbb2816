"""A full disk, a folder that must not be written: a line, and nothing lost."""

import argparse
import errno
import json
import os

import children
import pytest
from backend import slow_but_on

from keras_synth._system import files
from keras_synth.commands import compare
from keras_synth.compare import grid, jobs, results, running, tasks, worker
from keras_synth.compare.launchers import ray_cluster

# Nothing here depends on the backend.
pytestmark = slow_but_on("torch")

REASONS = {
    errno.ENOSPC: "(No space left on device); what was there is as it was. "
    "Make room there.",
    errno.EROFS: "(Read-only file system); what was there is as it was. "
    "Make it writable, or name another folder.",
    errno.EIO: "(Input/output error); what was there is as it was.",
}


def failing(number):
    def fail(*args, **kwargs):
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize("number", REASONS)
@pytest.mark.parametrize("name", ["to_disk", "open"])
def test_an_error_names_the_file_the_reason_and_the_way_out(
    tmp_path, monkeypatch, number, name
):
    path = tmp_path / "a.txt"
    path.write_text("old")
    monkeypatch.setattr(files, name, failing(number), raising=False)
    with pytest.raises(files.UnwrittenError) as error, files.writing(path) as x:
        x.write("new")
    assert str(error.value) == f"{path} cannot be written {REASONS[number]}"
    assert error.value.errno == number
    assert path.read_text() == "old"
    assert [*tmp_path.iterdir()] == [path]


def test_a_file_in_the_way_of_a_folder_is_named(tmp_path):
    (tmp_path / "out").write_text("a file")
    path = tmp_path / "out" / "data" / "a.txt"
    words = r"a\.txt cannot be written"
    with (
        pytest.raises(files.UnwrittenError, match=words),
        files.writing(path),
    ):
        pass


def test_errors_of_reading_something_else_are_left_alone(tmp_path):
    with (
        pytest.raises(FileNotFoundError, match="elsewhere"),
        files.writing(tmp_path / "x" / "a.txt"),
    ):
        (tmp_path / "elsewhere").read_text()


@pytest.mark.parametrize("before", [0, 2])
def test_a_result_that_finds_no_room_leaves_the_others_whole(
    tmp_path, monkeypatch, before
):
    path = tmp_path / "results.jsonl"
    found = results.Results(path)
    for seed in range(before):
        found.append({"key": {"seed": seed}})
    content = path.read_bytes() if before else b""
    with monkeypatch.context() as full:
        full.setattr(files, "to_disk", failing(errno.ENOSPC))
        with pytest.raises(files.UnwrittenError, match="Make room there"):
            found.append({"key": {"seed": 7}})
    assert path.read_bytes() == content
    assert {"seed": 7} not in found
    found.append({"key": {"seed": 7}})
    assert len(results.Results(path).rows) == before + 1


def fake_grid(tmp_path):
    settings = tasks.TASKS["reviews"].settings("reviews")
    work = jobs.Jobs(settings, "data.npz", "0", tmp_path)
    return work, [grid.Run("R", 2, seed, "torch") for seed in range(3)]


class Stub:
    """A launcher of runs that end at once, as they are told."""

    def __init__(self, *ends):
        self.ends, self.begun = ends, []

    def missing(self, backends):
        return []

    def __call__(self, runs, jobs):
        for run, end in zip(runs, self.ends, strict=True):
            self.begun.append(run)
            yield run, end


def test_a_run_that_finds_no_room_ends_the_grid_in_a_line(tmp_path, capsys):
    work, runs = fake_grid(tmp_path)
    parser = argparse.ArgumentParser(prog="prog")
    done = {"score": 0.5, "seconds": 1.0}
    words = "x.npz cannot be written (No space). Make room there."
    stub = Stub({"result": done}, {"unwritten": words}, {"result": done})
    found = results.Results(tmp_path / "results.jsonl")
    with (
        pytest.raises(SystemExit) as stop,
        running.disk_errors_in_a_line(parser),
    ):
        running.run_all(runs, work, stub, found)
    assert stop.value.code == 2
    assert stub.begun == runs[:2]
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == f"prog: {words} The same command with --resume goes on."
    kept = results.Results(tmp_path / "results.jsonl")
    assert [row["key"]["seed"] for row in kept.rows] == [0]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_a_folder_that_takes_no_lock_is_told_of_in_a_line(
    tmp_path, monkeypatch, capsys, number
):
    monkeypatch.setattr(files, "to_disk", failing(number))
    with pytest.raises(SystemExit) as stop:
        compare.main(["--output", str(tmp_path / "out")], "prog")
    assert stop.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    path = tmp_path / "out" / ".lock"
    assert line == f"prog: {path} cannot be written {REASONS[number]}"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.ENOENT])
def test_a_worker_whose_log_is_full_says_so(monkeypatch, number):
    """Libraries print where they like."""
    spec = {
        "settings": {"task": "reviews"},
        "run": ["R", 2, 0, "torch"],
        "paths": {"log": "logs/x.txt"},
        "keep": False,
    }
    monkeypatch.setattr(worker, "train", failing(number))
    with pytest.raises(OSError, match=os.strerror(number)) as error:
        worker.perform(spec, print)
    room = number != errno.ENOENT
    assert isinstance(error.value, files.UnwrittenError) == room
    assert ("logs/x.txt" in str(error.value)) == room


def test_a_run_of_ray_s_says_so_too(tmp_path, monkeypatch):
    work, (run, *_) = fake_grid(tmp_path)
    spec = work.write_spec(run)
    work.paths(run)["events"].parent.mkdir()
    monkeypatch.setattr(worker, "train", failing(errno.ENOSPC))
    keep = os.dup(1), os.dup(2)
    try:
        found = ray_cluster.perform(spec)
    finally:
        for descriptor, kept in zip((1, 2), keep, strict=True):
            os.dup2(kept, descriptor)
    assert "cannot be written (No space left" in found["unwritten"]
    events = work.paths(run)["events"].read_text().splitlines()
    assert "starting on" in json.loads(events[-1])["note"]


def test_a_log_of_bytes_that_are_no_text_is_shown(tmp_path):
    work, (run, *_) = fake_grid(tmp_path)
    work.paths(run)["log"].parent.mkdir()
    work.paths(run)["log"].write_bytes(b"a\xffb\nthe reason\n")
    assert work.failure(run).endswith("the reason")


@pytest.mark.skipif(os.name != "posix", reason="forks children")
@pytest.mark.parametrize("done", [False, True])
def test_a_worker_ends_with_the_command_that_began_it(done):
    """Unless it has written all: then it ends by itself."""
    reads, writes = os.pipe()

    def work():
        os.close(writes)
        os.dup2(reads, 0)
        event = worker.threading.Event()
        if done:
            event.set()
        worker._end_with_input(event)
        return 5

    number = children.child(work)
    os.close(reads)
    os.write(writes, b"anything")
    os.close(writes)  # as when this process is killed
    assert children.status(number) == (5 if done else 1)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError(
            "Can't flush (file write failed: errno = 28, error = 'x')"
        ),
        OSError(errno.ENOSPC, "Unable to write (errno = 28)\na page of it"),
    ],
)
def test_what_hdf5_says_of_a_part_is_told_of_the_whole(tmp_path, error):
    path = tmp_path / "preset"
    with (
        pytest.raises(files.UnwrittenError) as told,
        files.folder_beside(path) as outer,
        files.folder_beside(outer / "model.weights.h5"),
    ):
        raise error
    words = REASONS[errno.ENOSPC]
    assert str(told.value) == f"{path} cannot be written {words}"
    assert told.value.errno == errno.ENOSPC
    assert [*tmp_path.iterdir()] == []


def test_no_file_is_begun_where_there_is_no_room_for_it(tmp_path, monkeypatch):
    """HDF5 may end the process that finds a disk full."""
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr(files.shutil, "disk_usage", lambda path: usage)
    with files.folder_beside(tmp_path / "a", room=1000) as aside:
        assert aside.exists()
    with (
        pytest.raises(files.UnwrittenError, match=r"a cannot be.*Make room"),
        files.folder_beside(tmp_path / "a", room=1001),
    ):
        pytest.fail("it was begun")
    assert [*tmp_path.iterdir()] == []


def test_other_errors_of_a_body_are_left_alone(tmp_path):
    with (
        pytest.raises(RuntimeError, match="my own"),
        files.folder_beside(tmp_path / "preset"),
    ):
        raise RuntimeError("my own")

"""Killed commands, full disks and two writers: losses and messages.

A child of this process runs the command, except the training, whose result is
made up. Nothing else writes results.
"""

import errno
import json
import os
import random
import shutil
import signal
import subprocess
import time

import filelock
import pytest
from commands import BACKEND, SMALL, results, run, start

from keras_synth.compare import runs
from keras_synth.compare.files import writing

pytestmark = pytest.mark.once
SIZES = ["--examples", "48", "--sequence-length", "16", "--lengths", *SMALL]
COMMAND = ["compare", "--task", "pairs", *SIZES, "--backends", BACKEND]
GRID = ["--variants", "V", "R", "--seeds", "0", "1", "2", "3"]
KILLS = 50


def made_up(spec, emit=lambda event: None, processes=None):
    """The result of a run that was not made."""
    rng = random.Random(spec["variant"] + str(spec["seed"]))
    time.sleep(0.01)
    return {
        "score": rng.random(),
        "history": {"loss": [1.0], "val_accuracy": [rng.random()]},
        "losses": [[1, 1.0]],
        "train_seconds": 1.0,
    }


def go(folder, *more):
    return run(*COMMAND, *GRID, "--output", folder, *more, execute=made_up)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A folder of a command that nothing disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    status, _, err = go(folder)
    assert status == 0, err
    return folder


def scores(folder):
    return {
        (x["variant"], x["seed"]): x["result"]["score"] for x in results(folder)
    }


def prepared(whole, folder):
    """A new folder with the tokenized examples only."""
    shutil.copytree(whole / "data", folder / "data")
    return folder


@pytest.mark.slow
def test_a_kill_at_any_moment_loses_the_run_in_hand_only(whole, tmp_path):
    began = time.perf_counter()
    assert go(prepared(whole, tmp_path / "timed"))[0] == 0
    seconds = time.perf_counter() - began
    rng, late = random.Random(0), 0
    for number in range(KILLS):
        folder = prepared(whole, tmp_path / str(number))
        process = os.fork()
        if not process:
            try:
                os._exit(go(folder)[0])
            finally:
                os._exit(70)
        time.sleep(rng.uniform(0, seconds))
        os.kill(process, signal.SIGKILL)
        late += os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
        before = {x: x.read_bytes() for x in folder.glob("runs/[!.]*.json")}
        assert all(map(json.loads, before.values()))
        status, _, err = go(folder, "--resume")
        assert status == 0, err
        assert scores(folder) == scores(whole)
        assert all(x.read_bytes() == y for x, y in before.items())
        assert not [*folder.rglob(".*-partial")]
    assert late < KILLS / 2


def test_two_writers_do_not_write_at_once(whole):
    with filelock.FileLock(whole / ".lock"):
        status, _, err = go(whole, "--resume")
    assert status == 2
    assert f"Another process writes to {whole}" in err
    assert len(err.strip().splitlines()) == 1
    assert go(whole, "--resume")[0] == 0


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EDQUOT])
def test_a_file_that_cannot_be_written_is_one_line(
    number, whole, tmp_path, monkeypatch
):
    """At any place: existing files do not change."""
    folder, replace, left = prepared(whole, tmp_path), os.replace, [3]

    def fail(*args):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(number, os.strerror(number))
        return replace(*args)

    monkeypatch.setattr(os, "replace", fail)
    status, _, err = go(folder)
    assert status == 2
    last = err.strip().splitlines()[-1]
    assert os.strerror(number) in last
    assert str(folder) in last
    assert "--resume" in last
    assert "Traceback" not in err
    assert len(results(folder)) == 3
    monkeypatch.undo()
    assert go(folder, "--resume")[0] == 0
    assert scores(folder) == scores(whole)


def test_a_disk_that_a_run_finds_full_stops_all_runs(whole, tmp_path):
    done = []

    def execute(spec, *rest):
        done.append(spec)
        raise OSError(f"[Errno 28] No space left on device: '{tmp_path}/x'")

    words = [*COMMAND, *GRID, "--output", prepared(whole, tmp_path)]
    status, _, err = run(*words, execute=execute)
    assert status == 2
    assert "No space left on device" in err.strip().splitlines()[-1]
    assert len(done) < 8


@pytest.mark.slow
def test_a_full_disk_is_one_line_and_can_grow(whole, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    size = sum(x.stat().st_size for x in whole.rglob("*") if x.is_file())
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size // 2}", "x", disk]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("may not mount a file system")
    try:
        status, _, err = run(
            *(*COMMAND, *GRID, "--output", disk), execute=made_up
        )
        assert status == 2
        last = err.strip().splitlines()[-1]
        assert "No space left on device" in last
        assert str(disk) in last
        remount = ["mount", "-o", f"remount,size={4 * size}", disk]
        subprocess.run(remount, check=True)
        assert go(disk, "--resume")[0] == 0
        assert scores(disk) == scores(whole)
    finally:
        subprocess.run(["umount", disk], check=True)


@pytest.mark.slow
def test_runs_end_with_the_command_that_was_killed(tmp_path):
    words = [*COMMAND, "--variants", "V", "--output", tmp_path]
    process = start(*words, "--epochs", "1000", start_new_session=True)
    log = tmp_path / "logs"
    deadline = time.monotonic() + 900  # other work may be in the way
    while not [*log.glob("*.txt")] and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(5)
    process.kill()  # its own process only
    assert "Tokenizing" in process.communicate()[0]
    group = process.pid
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            break
        time.sleep(0.1)
    else:
        os.killpg(group, signal.SIGKILL)
        raise AssertionError
    assert not [*tmp_path.glob("runs/*.json")]


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "a" / "b.txt"
    with writing(path) as file:
        file.write("one")

    def fail():
        with writing(path) as file:
            file.write("two")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert path.read_text() == "one"
    assert [*path.parent.iterdir()] == [path]
    with pytest.raises(OSError, match="txt/c"), writing(path / "c"):
        pass


def test_what_a_killed_process_left_is_removed_and_nothing_else(tmp_path):
    other = tmp_path / ".rsync-partial"
    file = tmp_path / "runs" / ".a.json-0123abcd-partial"
    folder = tmp_path / "presets" / ".abcd_123.partial"
    for path in (other, file.parent, folder):
        path.mkdir(parents=True)
    file.touch()
    with runs.locked(tmp_path):
        assert other.exists()
        assert not file.exists()
        assert not folder.exists()


def test_a_process_that_dies_is_a_failed_run(tmp_path, monkeypatch):
    monkeypatch.setattr(runs.sys, "executable", "/bin/false")
    spec = {"backend": BACKEND, "log": str(tmp_path / "log.txt")}
    with pytest.raises(RuntimeError, match="its log is"):
        runs.execute(spec)

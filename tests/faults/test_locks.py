"""One process at a time writes to an output folder; others say who does."""

import json
import os
import random
import re
import signal
import socket

import children
import pytest
from backend import slow_but_on

from keras_synth._system import files, processes
from keras_synth.commands import compare
from keras_synth.compare.locks import HeldError, holder, sole_writer

# Nothing here depends on the backend.
pytestmark = [
    slow_but_on("torch"),
    pytest.mark.skipif(os.name != "posix", reason="forks children"),
]


def refusal(folder):
    """What a second writer is told."""
    with pytest.raises(HeldError) as error, sole_writer(folder):
        pass
    (line,) = str(error.value).splitlines()
    return line


def write_lock(folder, **more):
    held = {
        "process": 7,
        "host": "elsewhere",
        "since": "2026-01-02 03:04:05 UTC",
        "owner": "00000000-7-00000000",
        "claim": "",
    }
    (folder / ".lock").write_text(json.dumps({**held, **more}))


def test_a_second_writer_is_told_who_the_first_one_is(tmp_path):
    folder = tmp_path / "out"
    with sole_writer(folder):
        line = refusal(folder)
        assert line.startswith(
            f"{folder} is being written by process {os.getpid()} on "
            f"{socket.gethostname()} since 20"
        )
        assert re.search(r"since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\. ", line)
        assert "pass another --output" in line
        # A refusal leaves the lock to the one who has it.
        assert holder(folder / ".lock")["process"] == os.getpid()
    assert not folder.exists()  # nothing else was written
    with sole_writer(folder):
        (folder / "a.txt").touch()
    assert [*folder.iterdir()] == [folder / "a.txt"]


def test_the_command_says_so_in_a_line_and_changes_nothing(tmp_path, capsys):
    with sole_writer(tmp_path):
        before = (tmp_path / ".lock").read_bytes()
        with pytest.raises(SystemExit) as stop:
            compare.main(["--output", str(tmp_path), "--resume"], "prog")
        assert (tmp_path / ".lock").read_bytes() == before
    assert stop.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"prog: {tmp_path} is being written by process ")
    assert [*tmp_path.iterdir()] == []


def test_the_lock_of_a_killed_process_is_taken_over(tmp_path):
    def work():
        with sole_writer(tmp_path):
            children.die()

    assert children.status(children.child(work)) == -signal.SIGKILL
    assert (tmp_path / ".lock").exists()
    with sole_writer(tmp_path):
        assert holder(tmp_path / ".lock")["process"] == os.getpid()
    assert [*tmp_path.iterdir()] == []


def test_the_number_of_a_process_may_be_given_anew(tmp_path):
    machine, number, _ = processes.identity().split("-")
    write_lock(tmp_path, process=number, owner=f"{machine}-{number}-00000000")
    with sole_writer(tmp_path):
        pass


def test_the_lock_of_another_machine_is_for_a_person_to_remove(tmp_path):
    write_lock(tmp_path)
    line = refusal(tmp_path)
    assert "process 7 on elsewhere since 2026-01-02 03:04:05 UTC" in line
    assert f"If it has ended, remove {tmp_path / '.lock'}" in line
    (tmp_path / ".lock").unlink()
    with sole_writer(tmp_path):
        pass


@pytest.mark.parametrize("content", [b"", b"\xff", b"[1]", b"[" * 10**5])
def test_a_damaged_lock_is_for_a_person_to_remove(tmp_path, content):
    (tmp_path / ".lock").write_bytes(content)
    assert f"remove {tmp_path / '.lock'}" in refusal(tmp_path)


@pytest.mark.parametrize("owner", [None, "a-b", "a-b-c", 5])
def test_an_owner_that_says_nothing_counts_as_running(tmp_path, owner):
    write_lock(tmp_path, owner=owner)
    assert "process 7 on elsewhere" in refusal(tmp_path)


def test_disks_without_links_are_locked_as_well(tmp_path, monkeypatch):
    def link(*paths):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    with sole_writer(tmp_path):
        assert f"by process {os.getpid()}" in refusal(tmp_path)
    assert [*tmp_path.iterdir()] == []


def test_a_lock_that_somebody_removed_is_not_removed_from_the_next(tmp_path):
    with sole_writer(tmp_path):
        (tmp_path / ".lock").unlink()
        write_lock(tmp_path)
    assert holder(tmp_path / ".lock")["host"] == "elsewhere"


@pytest.mark.parametrize("times", [1, 20, None])
def test_a_folder_removed_by_the_one_before_is_made_again(
    tmp_path, monkeypatch, times
):
    """A writer removes the folder that it made while the next one enters."""
    temporary, calls = files.temporary, []

    def removed(path):
        found = temporary(path)
        calls.append(found)
        if times is None or len(calls) <= times:
            found.parent.rmdir()
        return found

    monkeypatch.setattr(files, "temporary", removed)
    if times is None:  # on /proc folders cannot be made, ever
        failing = pytest.raises(files.UnwrittenError, match="No such file")
        with failing, sole_writer(tmp_path / "out"):
            pass
    else:
        with sole_writer(tmp_path / "out"):
            assert holder(tmp_path / "out" / ".lock")["process"] == os.getpid()


@pytest.mark.slow
def test_of_many_who_are_killed_at_random_one_at_a_time_is_inside(tmp_path):
    """Each child enters as often as it can, until it is killed."""
    inside, entered = tmp_path / "inside", tmp_path / "entered"
    entered.touch()

    def work(seed):
        draw = random.Random(seed)
        while True:
            try:
                with sole_writer(tmp_path / "out"):
                    owner = inside.read_text() if inside.exists() else ""
                    if owner and not processes.has_ended(owner):
                        return 3
                    inside.write_text(processes.identity())
                    with open(entered, "a") as file:
                        file.write(".")
                    if draw.random() < 0.2:
                        children.die()
                    inside.write_text("")
            except HeldError:
                continue
            if draw.random() < 0.05:
                children.die()

    ends = []
    for start in range(0, 60, 6):
        numbers = [
            children.child(lambda seed=start + i: work(seed)) for i in range(6)
        ]
        ends += [children.status(number) for number in numbers]
    assert ends == 60 * [-signal.SIGKILL]
    assert entered.stat().st_size > 60
    with sole_writer(tmp_path / "out"):
        pass

"""A process knows whether another one has ended, or that it cannot know."""

import os
import pathlib
import signal

import children
import pytest
from backend import slow_but_on

from keras_synth._system import processes

# Nothing here depends on the backend.
pytestmark = [
    slow_but_on("torch"),
    pytest.mark.skipif(os.name != "posix", reason="forks children"),
]


def test_this_process_has_not_ended_and_a_child_has():
    assert processes.has_ended(processes.identity()) is False
    assert processes.has_ended(children.ended()) is True


def test_a_process_with_the_number_of_one_that_has_ended_is_another():
    machine, number, start = processes.identity().split("-")
    other = f"{machine}-{number}-{'0' * 7}{'1' if start[-1] != '1' else '2'}"
    assert processes.has_ended(other) is True


def test_a_process_whose_start_is_not_known_counts_as_running():
    machine, number, _ = processes.identity().split("-")
    assert processes.has_ended(f"{machine}-{number}-0") is False


def test_nobody_knows_of_processes_elsewhere(monkeypatch):
    _, number, start = processes.identity().split("-")
    assert processes.has_ended(f"{'0' * 8}-{number}-{start}") is None
    monkeypatch.setattr(os, "name", "nt")  # its `kill` would end the process
    owner = f"{processes._machine()}-1-0"
    assert processes.has_ended(owner) is None


def test_a_child_that_was_killed_has_ended_before_anybody_asked_how():
    reads, writes = os.pipe()

    def work():
        os.write(writes, processes.identity().encode())
        signal.pause()

    number = children.child(work)
    owner = os.read(reads, 100).decode()
    assert processes.has_ended(owner) is False
    os.kill(number, signal.SIGKILL)
    os.waitid(os.P_PID, number, os.WEXITED | os.WNOWAIT)
    assert processes.has_ended(owner) is True
    assert children.status(number) == -signal.SIGKILL


def test_ps_tells_where_there_is_no_proc(monkeypatch):
    monkeypatch.setattr(processes, "PROC", pathlib.Path("/nowhere"))
    owner = processes.identity()
    assert not owner.endswith("-0")
    assert processes.has_ended(owner) is False
    machine, number, _ = owner.split("-")
    assert processes.has_ended(f"{machine}-{number}-00000000") is True
    monkeypatch.setenv("PATH", "")  # nor `ps`
    assert processes.identity().endswith("-0")
    assert processes.has_ended(owner) is False

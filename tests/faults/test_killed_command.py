"""The command in processes of its own, killed: its worker ends with it."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import keras
import pytest
from backend import slow_but_on

pytest.importorskip("keras_hub")

# Workers are processes of one backend, whichever it is.
pytestmark = [
    pytest.mark.slow,
    slow_but_on("torch"),
    pytest.mark.skipif(sys.platform != "linux", reason="asks /proc"),
]
ROOT = pathlib.Path(__file__).parents[2]
PATIENCE = 600  # seconds; other work may be in the way
GRID = (
    "compare --task reviews --examples 400 --epochs 40 --num-layers 1 "
    "--num-heads 2 --hidden-dim 16 --sequence-length 32 --lengths 32 "
    "--vocabulary-size 300 --batch-size 16 --variants R --resume"
).split()


def start(folder):
    code = "import keras_synth_command; keras_synth_command.run()"
    return subprocess.Popen(
        [sys.executable, "-c", code, *GRID, "--output", str(folder)]
        + ["--backends", keras.backend.backend()],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def workers(folder):
    """The processes that train for a folder, as Linux lists them."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes()
        except OSError:
            continue
        if b"compare.worker" in words and os.fsencode(folder) in words:
            found.append(int(path.parent.name))
    return found


def until(condition):
    deadline = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found


def test_a_worker_ends_with_a_killed_command_and_the_next_one_goes_on(tmp_path):
    first = start(tmp_path)
    until(lambda: [*tmp_path.glob("checkpoints/*.npz")] or first.poll())
    (worker,) = workers(tmp_path)
    second = start(tmp_path)
    _, said = second.communicate()
    assert first.poll() is None, "it has ended before it could be killed"
    assert second.returncode == 2
    who = f"{tmp_path} is being written by process {first.pid} on "
    assert who in said
    assert len(said.splitlines()) == 1
    first.send_signal(signal.SIGKILL)
    first.communicate()
    until(lambda: worker not in workers(tmp_path))
    third = start(tmp_path)
    _, said = third.communicate()
    assert third.returncode == 0, said
    assert len((tmp_path / "results.jsonl").read_text().splitlines()) == 1
    names = [path.name for path in tmp_path.rglob("*")]
    assert ".lock" not in names
    assert not [name for name in names if "partial" in name]

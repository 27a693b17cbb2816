"""The scripts of examples/distributed: many devices train as one does."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import keras
import pytest
from assertions import close
from places import ROOT

FOLDER = ROOT / "examples" / "distributed"
BACKEND = keras.backend.backend()


def start(*command):
    environment = {**os.environ, "KERAS_BACKEND": BACKEND}
    del environment["XLA_FLAGS"]  # of conftest.py
    return subprocess.Popen(
        [sys.executable, *map(str, command)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
    )


def run(*command):
    process = start(*command)
    out, _ = process.communicate()
    assert process.returncode == 0, out[-3000:]
    return out


def losses(path):
    return json.loads(path.read_text())


DEVICES = FOLDER / "jax_devices.py"
MIRRORED = FOLDER / "tensorflow_mirrored.py"
TORCH = FOLDER / "torch_processes.py"
TORCHRUN = "-m torch.distributed.run --standalone --nproc-per-node 2".split()
COMMANDS = {  # the first is of one device or process
    "jax": [(DEVICES, "--distribution", x) for x in ("none", "data", "model")],
    "tensorflow": [(MIRRORED, "--devices", x) for x in (1, 2)],
    "torch": [(TORCH,), (*TORCHRUN, TORCH)],
}


@pytest.mark.slow
def test_many_train_as_one(tmp_path):
    found = []
    for i, command in enumerate(COMMANDS[BACKEND]):
        path = tmp_path / f"{i}.json"
        run(*command, "--results", path)
        found.append(losses(path))
    one, *others = found
    assert len(one) == 3
    assert one[-1] < one[0]
    for other in others:
        close(other, one)


@pytest.mark.slow
@pytest.mark.skipif(BACKEND != "jax", reason="processes of JAX")
def test_two_processes_end_if_one_is_killed(tmp_path):
    script, epochs = FOLDER / "jax_processes.py", ("--epochs", 30)
    one, two = tmp_path / "one", tmp_path / "two"
    run(script, "--processes", 1, "--output", one, *epochs)
    command = (script, "--output", two, *epochs)
    process = start(*command)
    pids = [
        int(re.search(r"is (\d+)", process.stdout.readline())[1])
        for _ in range(2)
    ]
    third = two / "process_1_epoch_003.keras"
    while process.poll() is None and not third.exists():
        time.sleep(0.05)
    os.kill(pids[1], signal.SIGKILL)
    process.communicate()
    assert process.returncode != 0
    out = run(*command)
    done = int(re.search(r"goes on after epoch (\d+)", out)[1])
    assert 2 <= done < 30
    found, expected = (losses(path / "losses.json") for path in (two, one))
    assert len(found) == 30 - done
    close(found, expected[done:])

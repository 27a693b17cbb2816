"""The scripts of examples/distributed: many devices train as one does."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import keras
import numpy as np
import pytest
from places import ROOT

FOLDER = ROOT / "examples" / "distributed"
BACKEND = keras.backend.backend()


def start(script, *arguments):
    environment = {**os.environ, "KERAS_BACKEND": BACKEND}
    del environment["XLA_FLAGS"]  # of conftest.py
    return subprocess.Popen(
        [sys.executable, FOLDER / script, *map(str, arguments)],
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


@pytest.mark.slow
@pytest.mark.parametrize(
    "backend, script, option, one, others",
    [
        ("jax", "jax_devices.py", "distribution", "none", ("data", "model")),
        ("tensorflow", "tensorflow_mirrored.py", "devices", 1, (2,)),
        ("torch", "torch_processes.py", "processes", 1, (2,)),
    ],
)
def test_many_train_as_one(tmp_path, backend, script, option, one, others):
    if backend != BACKEND:
        pytest.skip(f"a script for {backend}")
    found = {}
    for number in (one, *others):
        path = tmp_path / f"{number}.json"
        run(script, f"--{option}", number, "--results", path)
        found[number] = losses(path)
    assert len(found[one]) == 3
    assert found[one][-1] < found[one][0]
    for number in others:
        np.testing.assert_allclose(found[number], found[one], atol=1e-5)


@pytest.mark.slow
@pytest.mark.skipif(BACKEND != "jax", reason="processes of JAX")
def test_two_processes_end_if_one_is_killed(tmp_path):
    script, epochs = "jax_processes.py", ("--epochs", 30)
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
    np.testing.assert_allclose(found, expected[done:], atol=1e-5)

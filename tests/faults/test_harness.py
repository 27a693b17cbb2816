"""Kills, full disks, clocks that are set, two writers: nothing is lost.

`python tests/faults/harness.py` runs every case; docs/reliability.md has its
counts.
"""

import json
import os
import pathlib
import subprocess
import sys

import keras
import pytest

pytest.importorskip("keras_hub")

HERE = pathlib.Path(__file__).parent
# All cases on the backend that starts fastest, and a sample on the others.
COUNTS = {"torch": (50, 20, 20, 4, 4)}
FEW = (6, 4, 3, 1, 1)
OPTIONS = "kills-at-points disks-full kills-at-random jumps two-writers"
SMALL_DISKS = 6  # for those who may mount one


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="forks, and asks /proc")
@pytest.mark.parametrize(
    "scenario", ["train", "compare", "pretraining", "presets"]
)
def test_what_meets_a_fault_ends_as_if_it_had_not(scenario):
    counts = COUNTS.get(keras.backend.backend(), FEW)
    given = zip(OPTIONS.split(), counts, strict=True)
    options = [f"--{option}={count}" for option, count in given]
    if os.geteuid() == 0 and keras.backend.backend() == "torch":
        options.append(f"--small-disks={SMALL_DISKS}")
    done = subprocess.run(
        [sys.executable, HERE / "harness.py", scenario, *options],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(HERE.parents[1])},
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["kills at points"] == counts[0]
    assert told["full disks"] == counts[1]
    assert told["too late to kill"] < counts[2]

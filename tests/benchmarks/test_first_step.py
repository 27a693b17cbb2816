"""The time to the first step is measured in processes of their own."""

import csv
import os
import subprocess
import sys

import keras
import pytest
from places import ROOT

SMALL = (
    "--num-layers 1 --hidden-dim 8 --num-heads 2 --batch-size 2 "
    "--sequence-length 8 --rounds 1 --variants R BertBackbone"
).split()


@pytest.mark.slow
def test_first_steps_are_compared_and_kept(tmp_path):
    command = [sys.executable, ROOT / "benchmarks" / "first_step.py", *SMALL]
    command += ["--output", tmp_path]
    for _ in range(2):  # the second time it only reads
        backend = keras.backend.backend()
        done = subprocess.run(
            command,
            env={**os.environ, "KERAS_BACKEND": backend},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        assert "over BertBackbone" in done.stdout
        with open(tmp_path / f"first_step_{backend}.csv") as file:
            rows = list(csv.DictReader(file))
        assert [row["variant"] for row in rows] == ["R", "BertBackbone"]
        assert all(float(row["first"]) > float(row["second"]) for row in rows)

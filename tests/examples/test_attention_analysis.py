"""The example that looks inside trained models."""

import os
import subprocess
import sys

import keras
import pytest
from places import ROOT

SCRIPT = ROOT / "examples" / "attention_analysis.py"


def run(*arguments):
    return subprocess.run(
        [sys.executable, SCRIPT, *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "KERAS_BACKEND": keras.backend.backend()},
    )


@pytest.mark.once
def test_it_says_what_it_needs():
    done = run()
    assert done.returncode == 2
    assert "name --multi30k, --wikitext2 or --encoder" in done.stderr


@pytest.mark.slow
def test_the_papers_figures(data, tmp_path):
    done = run(
        *("--multi30k", data / "multi30k"),
        *("--wikitext2", data / "wikitext-2"),
        *("--steps", 3, "--output", tmp_path),
    )
    assert done.returncode == 0, done.stderr
    assert "input" in done.stdout
    assert {path.name for path in tmp_path.glob("*.png")} == {
        "figure_2_before_training.png",
        "figure_3_after_training.png",
        *(f"figures_4_5_translator_{name}.png" for name in "VRD"),
        *(f"figures_6_7_averages_{name}.png" for name in "VR"),
        "figures_6_7_distance_profile.png",
    }

"""Comparisons of two checkouts find differences, except rounding."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import two_trees
from places import ROOT

pytestmark = pytest.mark.once

CASE = {"layer": "R", "how": "gradients"}


def answer(**found):
    x = np.linspace(-1.0, 1.0, 6, dtype="float32").reshape(2, 3)
    return {"weights": [], "output 0": x, "config": {"num_heads": 2}, **found}


def test_a_case_is_the_same_after_json():
    cases = [two_trees.draw(0, number) for number in range(300)]
    assert json.loads(json.dumps(cases)) == cases
    assert cases == [two_trees.draw(0, number) for number in range(300)]


def test_calls_that_are_easily_forgotten_are_drawn():
    cases = [two_trees.draw(0, number) for number in range(300)]
    padded = [c for c in cases if "value_mask" in c or "key_mask" in c]
    assert any(c.get("normalizer") == "softmax1" for c in padded)
    assert any(" | " in c.get("pattern", "") for c in cases)
    windows = [c for c in cases if c["layer"].startswith("local(")]
    assert any(len(c.get("chunks", [])) > 1 for c in windows)


def test_rounding_is_not_a_difference():
    old, new = answer(), answer()
    new["output 0"] = new["output 0"] * (1 + 1e-6)
    assert two_trees.differences(CASE, old, new) == []


@pytest.mark.parametrize(
    "name, new",
    [
        ("output 0", answer(**{"output 0": np.zeros((2, 3), "float32")})),
        ("output 0", answer(**{"output 0": np.zeros((3, 2), "float32")})),
        ("output 0", answer(**{"output 0": answer()["output 0"] * np.nan})),
        ("config", answer(config={"num_heads": 3})),
        ("weights", answer(weights=[((2, 3), "float32", True)])),
        ("scores", answer(scores=np.ones(2, "float32"))),
        ("refusal", {"refusal": "ValueError", "words": "No."}),
    ],
)
def test_each_difference_has_its_name(name, new):
    for pair in ((answer(), new), (new, answer())):
        (found,) = two_trees.differences(CASE, *pair)
        assert found[0] == name


@pytest.mark.slow
def test_a_fault_in_one_checkout_is_found(tmp_path):
    shutil.copytree(ROOT / "keras_synth", tmp_path / "keras_synth")
    command = [sys.executable, ROOT / "benchmarks" / "two_trees.py", ROOT]
    command += [tmp_path, "--calls", "40", "--only", "use_causal_mask"]
    same = subprocess.run(command, capture_output=True, text=True)
    assert same.returncode == 0, same.stdout + same.stderr
    path = tmp_path / "keras_synth" / "mixers" / "mixer.py"
    text = path.read_text()
    assert "causal=use_causal_mask," in text
    text = text.replace("causal=use_causal_mask,", "causal=False,")
    path.write_text(text)
    other = subprocess.run(command, capture_output=True, text=True)
    assert other.returncode == 1, other.stdout + other.stderr
    assert "--case '{" in other.stdout

"""Two checkouts are compared: what differs is seen, rounding is not."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
from places import ROOT

sys.path.append(str(ROOT / "benchmarks"))

import two_trees
import two_trees_cases

CASE = {"layer": "R", "how": "gradients"}


def answer(**found):
    x = np.linspace(-1.0, 1.0, 6, dtype="float32").reshape(2, 3)
    return {"weights": [], "output 0": x, "config": {"num_heads": 2}, **found}


@pytest.mark.once
def test_a_case_is_the_same_after_json():
    for number in range(300):
        case = two_trees_cases.draw(0, number)
        assert json.loads(json.dumps(case)) == case
        assert case == two_trees_cases.draw(0, number)


@pytest.mark.once
def test_rounding_is_no_difference():
    old, new = answer(), answer()
    new["output 0"] = new["output 0"] * (1 + 1e-6)
    assert two_trees.differences(CASE, old, new) == []


@pytest.mark.once
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
    command += [tmp_path, "--calls", "20", "--only", "use_causal_mask"]
    same = subprocess.run(command, capture_output=True, text=True)
    assert same.returncode == 0, same.stdout + same.stderr
    path = tmp_path / "keras_synth" / "mixers" / "mixer.py"
    text = path.read_text().replace("bool(use_causal_mask)", "False")
    path.write_text(text)
    other = subprocess.run(command, capture_output=True, text=True)
    assert other.returncode == 1, other.stdout + other.stderr
    assert "--case '{" in other.stdout

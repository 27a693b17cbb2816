"""What `make demo` runs, made small."""

import pytest
from places import ROOT
from scripts import run_script

from keras_synth import models

SCRIPT = ROOT / "examples" / "demo.py"


def run(*arguments):
    done = run_script(SCRIPT, *arguments)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_the_demo_ends_in_a_table_a_picture_and_presets_for_strings(tmp_path):
    sizes = "--examples 64 --epochs 2".split()
    status, out = run("--variants", "V", "R+V", *sizes, "--output", tmp_path)
    assert status == 0, out
    table = out[out.index("demo.py, ") :]
    for words in ("easy reviews", "hard reviews", "parameters", "R+V"):
        assert words in table
    assert "…" not in table
    assert (tmp_path / "learning_curves.png").stat().st_size > 10_000
    folder = tmp_path / "R+V"
    assert "license: apache-2.0" in (folder / "README.md").read_text()
    classifier = models.SynthesizerTextClassifier.from_preset(folder)
    scores = classifier.predict(["The plot was not dull but moving."])
    assert scores.shape == (1, 2)


@pytest.mark.once
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--epochs", "0"], "--epochs must be at least 1. Received: 0"),
        (["--variants", "Q"], "'Q'"),
    ],
)
def test_wrong_arguments_of_the_demo_are_one_line(arguments, words):
    status, out = run(*arguments)
    assert status == 2
    assert words in out
    assert "Traceback" not in out

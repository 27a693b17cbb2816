"""The scripts that write, as their users run them, killed and resumed."""

import json
import os
import signal
import subprocess
import sys
import time

import keras
import pytest
from places import ROOT

FOLDER = ROOT / "examples"
SMALL = (
    "--variants R+V --epochs 3 --num-layers 1 --num-heads 2 "
    "--hidden-dim 16 --batch-size 16"
).split()
TRANSLATION = [
    "translation.py",
    *SMALL,
    *"--examples 900 --vocabulary-size 400 --intermediate-dim 32".split(),
    *"--test-examples 20 --beams 2 --sequence-length 40".split(),
]
LANGUAGE_MODEL = [
    "language_model.py",
    *SMALL,
    *"--tokens 20000 --sequence-length 32".split(),
]
PRETRAINING = [
    "pretraining.py",
    *"--synthesizer R+V --steps 30 --steps-per-epoch 10 --batch-size 8".split(),
    *"--num-layers 1 --num-heads 2 --hidden-dim 16".split(),
    *"--sequence-length 32 --vocabulary-size 500".split(),
]
SEQUENCE_LABELLING = [
    "sequence_labelling.py",
    *SMALL,
    *"--examples 400 --vocabulary-size 400".split(),
]


def start(script, *arguments):
    return subprocess.Popen(
        [sys.executable, FOLDER / script, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "KERAS_BACKEND": keras.backend.backend()},
    )


def run(*command):
    process = start(*command)
    out, _ = process.communicate()
    return process.returncode, out


def result(folder):
    (*_, last) = json.loads((folder / "results.json").read_text())
    return last


def killed_after_an_epoch(command, folder, checkpoint="R+V.npz"):
    """Starts a script and kills it when its first epoch is on disk."""
    process = start(*command, "--output", folder)
    deadline = time.time() + 300
    while not (folder / checkpoint).exists() and time.time() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert (folder / checkpoint).exists()
    assert not (folder / "results.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [TRANSLATION, LANGUAGE_MODEL, SEQUENCE_LABELLING]
)
def test_a_script_that_was_killed_goes_on_along_the_same_curve(
    command, tmp_path
):
    status, out = run(*command, "--output", tmp_path / "whole")
    assert status == 0, out
    folder = tmp_path / "killed"
    killed_after_an_epoch(command, folder)
    status, out = run(*command, "--output", folder)
    assert status == 2
    assert "Pass --resume" in out
    status, out = run(*command, "--output", folder, "--resume")
    assert status == 0, out
    assert "Going on after epoch" in out
    histories = [result(x)["history"] for x in (tmp_path / "whole", folder)]
    for name in ("loss", "val_loss"):
        assert histories[0][name] == pytest.approx(histories[1][name])
    assert (folder / "learning_curves.png").stat().st_size > 10_000


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["mlm", "span_corruption"])
def test_pretraining_goes_on_and_its_preset_is_fine_tuned(objective, tmp_path):
    command = [*PRETRAINING, "--objective", objective]
    status, out = run(*command, "--output", tmp_path / "whole")
    assert status == 0, out
    folder = tmp_path / "killed"
    killed_after_an_epoch(command, folder, "checkpoint.npz")
    status, out = run(*command, "--output", folder, "--resume")
    assert status == 0, out
    assert "Going on after step" in out
    losses = [
        json.loads((x / "results.json").read_text())["history"]["losses"]
        for x in (tmp_path / "whole", folder)
    ]
    assert len(losses[0]) == 30
    assert losses[0] == pytest.approx(losses[1], abs=1e-4)
    assert "log-perplexity" in (folder / "README.md").read_text()
    if objective == "mlm":
        fine_tuned_twice(folder, tmp_path / "fine_tuned")


def fine_tuned_twice(init, folder):
    command = [
        *("fine_tuning.py", "--init", init, "--output", folder),
        *"--examples 120 --epochs 2".split(),
    ]
    status, out = run(*command)
    assert status == 0, out
    assert [
        x["start"] for x in json.loads((folder / "results.json").read_text())
    ] == [
        "pretrained",
        "random",
    ]
    for start in ("pretrained", "random"):
        assert "accuracy, test" in (folder / start / "README.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["translation.py", "--task", "multi30k"], "needs --data"),
        (["translation.py", "--data", "somewhere"], "generated takes none"),
        (
            ["translation.py", "--task", "files", "--data", "none.tsv"],
            "no file or folder none.tsv",
        ),
        (
            ["translation.py", "--task", "text_pairs", "--data", "none.tsv"],
            "no file or folder none.tsv",
        ),
        (["translation.py", "--variants", "Q"], "'Q'"),
        (["translation.py", "--languages", "en", "fr"], "no --languages"),
        (["language_model.py", "--epochs", "0"], "--epochs must be"),
        (["language_model.py", "--num-heads", "3"], "divisible"),
        (["language_model.py", "--task", "text"], "needs --data"),
        (
            ["language_model.py", "--task", "wikitext2", "--data", "none"],
            "none",
        ),
        (["language_model.py", "--sample-length", "65"], "at most"),
        (
            ["text_classification.py", "--data", "none.csv"],
            "no file or folder none.csv",
        ),
        (
            ["language_model.py", "--sequence-length", "20000"],
            "longer text",
        ),
        (
            ["sequence_labelling.py", "--data", "none"],
            "no file or folder none",
        ),
        (
            ["sequence_labelling.py", "--init", "a", "--variants", "V"],
            "Leave out --variants",
        ),
        (["sequence_labelling.py", "--variants", "Q"], "'Q'"),
        (["sequence_labelling.py", "--init", "none"], "no preset in none"),
        (["pretraining.py", "--data", "none"], "no file or folder none"),
        (["pretraining.py", "--synthesizer", "Q"], "'Q'"),
        (["pretraining.py", "--steps", "0"], "--steps must be at least 1"),
        (["fine_tuning.py", "--init", "none"], "no preset in none"),
        (["fine_tuning.py", "--task", "CoLA"], "'CoLA' needs --data"),
        (["fine_tuning.py", "--data", "a"], "'reviews' takes no --data"),
    ],
)
def test_wrong_arguments_are_one_line(arguments, words):
    status, out = run(*arguments)
    assert status == 2
    assert words in out
    assert "Traceback" not in out

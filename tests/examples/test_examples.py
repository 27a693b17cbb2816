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
from scripts import run_script

from keras_synth import datasets, models

FOLDER = ROOT / "examples"
TRANSLATION = "translation.py --examples 300 --epochs 3".split()
LANGUAGE_MODEL = "language_model.py --examples 600 --epochs 3".split()
SEQUENCE_LABELLING = "sequence_labelling.py --examples 400 --epochs 3".split()


def start(script, *arguments):
    return subprocess.Popen(
        [sys.executable, FOLDER / script, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "KERAS_BACKEND": keras.backend.backend()},
    )


def run(script, *arguments):
    done = run_script(FOLDER / script, *arguments)
    return done.returncode, done.stdout + done.stderr


def result(folder):
    (*_, last) = json.loads((folder / "results.json").read_text())
    return last


def killed_after_an_epoch(command, folder):
    """Starts a script and kills it when its first epoch is on disk."""
    process = start(*command, "--output", folder)
    deadline = time.time() + 900  # other work may be in the way
    checkpoint = folder / "checkpoints" / "R+V.npz"
    while not checkpoint.exists() and time.time() < deadline:
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert checkpoint.exists()
    assert not (folder / "results.json").exists()


def goes_on(command, folder):
    """Runs a script, and again until it is killed: both end alike."""
    status, out = run(*command, "--output", folder / "whole")
    assert status == 0, out
    killed = folder / "killed"
    killed_after_an_epoch(command, killed)
    status, out = run(*command, "--output", killed)
    assert status == 2
    assert "Pass --resume" in out
    status, out = run(*command, "--output", killed, "--resume")
    assert status == 0, out
    assert "Going on after epoch" in out
    whole, resumed = (result(x)["history"] for x in (folder / "whole", killed))
    assert {*whole} == {*resumed} >= {"loss", "val_loss", "seconds"}
    for name in {*whole} - {"seconds"}:
        assert whole[name] == pytest.approx(resumed[name], abs=1e-4), name
    assert not [*killed.glob("checkpoints/*")]
    assert (killed / "learning_curves.png").stat().st_size > 10_000
    return killed


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [TRANSLATION, LANGUAGE_MODEL, SEQUENCE_LABELLING]
)
def test_a_script_that_was_killed_goes_on_along_the_same_curve(
    command, tmp_path
):
    preset = goes_on(command, tmp_path) / "R+V"
    assert "license: apache-2.0" in (preset / "README.md").read_text()


@pytest.mark.slow
def test_pretraining_goes_on_and_its_preset_is_fine_tuned(tmp_path):
    reviews, _ = datasets.generated_reviews(1_000)
    (tmp_path / "reviews.txt").write_text("\n".join(reviews))
    command = ["pretraining.py", "--data", tmp_path / "reviews.txt"]
    folder = goes_on([*command, "--epochs", "3"], tmp_path)
    preset = folder / "R+V"
    card = (preset / "README.md").read_text()
    assert "log-perplexity, test" in card
    assert "license" not in card  # of what it was given nothing is known
    fine_tuned_twice(preset, tmp_path / "fine_tuned")


def fine_tuned_twice(init, folder):
    command = [
        *("fine_tuning.py", "--init", init, "--output", folder),
        *"--examples 120 --epochs 2".split(),
    ]
    status, out = run(*command)
    assert status == 0, out
    results = json.loads((folder / "results.json").read_text())
    assert [x["variant"] for x in results] == ["pretrained", "random"]
    for start in ("pretrained", "random"):
        assert "accuracy, test" in (folder / start / "README.md").read_text()


@pytest.mark.once
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["translation.py", "--task", "multi30k"], "needs --data"),
        (["translation.py", "--data", "somewhere"], "takes no --data"),
        (
            ["translation.py", "--task", "text_pairs", "--data", "none.tsv"],
            "no file or folder none.tsv",
        ),
        (["translation.py", "--variants", "Q"], "'Q'"),
        (["translation.py", "--variants", "linformer"], "causal"),
        (["translation.py", "--text", "a"], "unrecognized arguments: --text"),
        (["translation.py", "--examples", "20"], "too few examples"),
        (["language_model.py", "--epochs", "0"], "--epochs must be"),
        (["language_model.py", "--task", "text"], "needs --data"),
        (
            ["language_model.py", "--task", "wikitext2", "--data", "none"],
            "none",
        ),
        (["language_model.py", "--variants", "heads(3 * V)"], "heads"),
        (
            ["text_classification.py", "--task", "csv", "--data", "none.csv"],
            "no file or folder none.csv",
        ),
        (["text_classification.py", "--text", "a"], "takes no --text"),
        (
            ["sequence_labelling.py", "--task", "ud_ewt", "--data", "none"],
            "no file or folder none",
        ),
        (["sequence_labelling.py", "--variants", "Q"], "'Q'"),
        (["pretraining.py", "--data", "none"], "no file or folder none"),
        (["pretraining.py", "--variants", "Q"], "'Q'"),
        (["fine_tuning.py", "--init", "none"], "--init must name a preset"),
        (["fine_tuning.py", "--task", "cola"], "'cola' needs --data"),
        (["fine_tuning.py", "--data", "a"], "'reviews' is generated"),
    ],
)
def test_wrong_arguments_are_one_line(arguments, words):
    status, out = run(*arguments)
    assert status == 2
    assert words in out
    assert "Traceback" not in out


@pytest.mark.once
def test_a_text_that_is_too_short_is_one_line(tmp_path):
    path = tmp_path / "short.txt"
    path.write_text("to be or not to be")
    for script in ("language_model.py --task text", "pretraining.py"):
        status, out = run(*script.split(), "--data", path)
        assert status == 2
        assert "longer text" in out
        assert "Traceback" not in out


@pytest.mark.slow
def test_a_classifier_learns_pairs_of_a_file(tmp_path):
    rows = [f"a {i},a {i},same\na {i},b {i},other\n" for i in range(40)]
    path = tmp_path / "pairs.csv"
    path.write_text("one,two,kind\n" + "".join(rows))
    status, out = run(
        *"text_classification.py --task csv --text one two".split(),
        *("--label", "kind", "--data", path, "--epochs", "1"),
        *("--variants", "FR(rank=2)", "--output", tmp_path / "pairs"),
    )
    assert status == 0, out
    preset = tmp_path / "pairs" / "FR_rank_2"
    model = models.SynthesizerTextClassifier.from_preset(str(preset))
    ranks = {x.shape[-1] for x in model.weights if x.name in ("R1", "R2")}
    assert ranks == {2}
    card = (preset / "README.md").read_text()
    assert 'predict((["a text"], ["another"]))' in card
    assert "license" not in card

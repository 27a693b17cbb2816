"""What `examples/` have in common: command line, files, errors."""

import json
import sys

import keras
import pytest
from backend import slow_but_on

import keras_synth_command
from keras_synth.compare import tasks

pytestmark = slow_but_on("torch")

pytest.importorskip("keras_hub")

TEXT = """
Title: A script
Description: Train something.
"""


@pytest.fixture
def script(tmp_path, monkeypatch):
    """A function of a command line that makes a script."""

    def make(line="", *arguments, **options):
        given = ["train.py", "--output", str(tmp_path), *line.split()]
        monkeypatch.setattr(sys, "argv", given)
        made = keras_synth_command.script(TEXT, *arguments, **options)
        made.parse()
        return made

    return make


def tiny_classifier():
    from keras_synth import models

    backbone = models.SynthesizerBackbone(
        vocabulary_size=20,
        num_layers=1,
        num_heads=2,
        hidden_dim=8,
        intermediate_dim=8,
        synthesizer="R",
        max_sequence_length=8,
    )
    return models.SynthesizerTextClassifier(backbone, num_classes=2)


def test_tasks_are_those_of_the_objectives(script, capsys):
    made = script("", ["bleu", "rouge_l"], ["R"])
    assert [*made.tasks] == [
        name
        for name, task in tasks.TASKS.items()
        if task.objective.score.name in ("BLEU", "ROUGE-L")
    ]
    assert made.settings.task == "translations"
    assert made.objective is tasks.TASKS["translations"].objective
    assert "Train something." in made.parser.format_help()
    with pytest.raises(SystemExit):
        script("--task reviews", ["bleu"])
    assert "invalid choice: 'reviews'" in capsys.readouterr().err


def test_a_script_without_tasks_has_no_options_for_data(script, capsys):
    made = script("", variants=["R"], resumes=False)
    assert {*vars(made.settings)} == {"variants", "epochs", "seed", "output"}
    with pytest.raises(SystemExit):
        script("--data x", variants=["R"])
    assert "--data" in capsys.readouterr().err


def test_a_script_that_trains_nothing_has_no_options_for_training(
    script, capsys
):
    made = script("", epochs=0)
    assert {*vars(made.settings)} == {"output"}
    with pytest.raises(SystemExit):
        script("--seed 1", epochs=0)
    assert "--seed" in capsys.readouterr().err


def test_presets_are_named_by_their_folders(script, capsys):
    made = script("", epochs=0)
    given = ["a/V", "train/R/preset", "hf://me/mine"]
    assert made.named(given) == dict(
        zip(["V", "R", "mine"], given, strict=True)
    )
    with pytest.raises(SystemExit):
        made.named(["a/V", "b/V/preset"])
    assert "called 'V': a/V and b/V/preset" in capsys.readouterr().err


def test_a_figure_is_drawn_into_the_output(script, tmp_path, capsys):
    figure = pytest.importorskip("matplotlib.figure").Figure()
    made = script("", epochs=0)
    made.draw(figure, "heads of R")
    assert (tmp_path / "heads of R.png").read_bytes().startswith(b"\x89PNG")
    (tmp_path / "taken").write_text("a file where a folder should be")
    with pytest.raises(SystemExit):
        made.draw(figure, "taken/heads")
    assert "taken" in capsys.readouterr().err


def test_texts_are_those_of_the_task(script, tmp_path):
    train, _, _, names = script("--examples 70", ["accuracy"]).load()
    assert len(train[0]) == len(train[1]) == 70
    assert names == ("negative", "positive")
    path = tmp_path / "mine.csv"
    path.write_text(
        "body,topic\n" + "one,a\ntwo,b\n" * 1 + "three,a\nfour,b\n"
        "five,a\nsix,b\nseven,a\neight,b\n"
    )
    line = f"--task csv --data {path} --text body --label topic"
    *_, names = script(line, ["accuracy"]).load()
    assert [*names] == ["a", "b"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--epochs 0", "--epochs must be at least 1. Received: 0"),
        ("--seed -1", "--seed must be at least 0. Received: -1"),
        ("--examples -1", "--examples must be at least 0. Received: -1"),
        ("--task csv", "The task 'csv' needs --data"),
        ("--data x", "'reviews' is generated and takes no --data"),
        ("--skip-empty", "takes no --skip-empty"),
    ],
)
def test_wrong_options_are_one_line(script, capsys, line, words):
    with pytest.raises(SystemExit) as stop:
        script(line, ["accuracy"], ["R"])
    assert stop.value.code == 2
    assert words in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    ("objectives", "variant", "words"),
    [
        (["accuracy"], "Q", "'Q'"),
        (["accuracy"], "heads(3 * V)", "3 heads"),
        (["bleu"], "linformer", "no causal form"),
    ],
)
def test_variants_that_cannot_be_made_are_one_line(
    script, capsys, objectives, variant, words
):
    made = script("", objectives, [variant])
    with pytest.raises(SystemExit) as stop:
        made.check_variants(4, 64, 32)
    assert stop.value.code == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert words in said
    script("", objectives, ["R", "FR(rank=2) + V"]).check_variants(4, 64, 32)


def test_errors_name_options(script, capsys):
    made = script("", ["accuracy"], ["R"])
    words = (
        "The argument `epochs` is odd. Received: epochs=0; or pass "
        "header=False and skip_empty=True, or the name FR(epochs=2)"
    )
    with pytest.raises(SystemExit), made.errors():
        raise ValueError(words)
    (said,) = capsys.readouterr().err.splitlines()
    assert said.endswith(
        "The argument --epochs is odd. Received: --epochs 0; or pass "
        "--no-header and --skip-empty, or the name FR(epochs=2)"
    )


def test_steps_are_those_of_all_epochs_and_there_must_be_one(script, capsys):
    made = script("--epochs 4", [], ["R"])
    assert made.steps(range(3)) == 12
    with pytest.raises(SystemExit):
        made.steps([])
    assert "too few examples to train on" in capsys.readouterr().err


def test_a_run_that_has_not_ended_is_not_overwritten(script, tmp_path, capsys):
    path = script("", [], ["R + V"]).checkpoint("R + V")
    assert path == tmp_path / "checkpoints" / "R_+_V.npz"
    path.parent.mkdir()
    path.write_bytes(b"")
    with pytest.raises(SystemExit):
        script("", [], ["R + V"])
    assert "Pass --resume" in capsys.readouterr().err
    script("--resume", [], ["R + V"])
    script("", [], ["R + V"], resumes=False)


def test_a_report_has_a_table_a_picture_results_and_no_checkpoints(
    script, tmp_path, capsys
):
    made = script("", ["accuracy"], ["R"])
    path = made.checkpoint("R")
    path.parent.mkdir()
    path.write_bytes(b"")
    history = {"loss": [2.0, 1.0], "seconds": [30.0, 31.0]}
    model = tiny_classifier()
    made.save(model, "R", history, {"accuracy": 0.5}, "90 texts", note="odd")
    card = (tmp_path / "R" / "README.md").read_text()
    for words in ("`reviews`: 90 texts.", "accuracy, test | 0.5000", "apache"):
        assert words in card
    made.report()
    out = capsys.readouterr().out
    for words in ("R, test: accuracy 0.5000", keras.backend.backend(), "61"):
        assert words in out
    assert (tmp_path / "learning_curves.png").exists()
    (row,) = json.loads((tmp_path / "results.json").read_text())
    assert row == {
        "variant": "R",
        "figures": {"accuracy": 0.5},
        "history": history,
        "parameters": model.count_params(),
        "note": "odd",
    }
    assert not path.exists()


def test_of_files_the_licence_is_not_known(script, tmp_path):
    made = script("--task imdb --data aclImdb", ["accuracy"], ["R"])
    made.save(tiny_classifier(), "R", {}, {}, "Reviews")
    assert "license" not in (tmp_path / "R" / "README.md").read_text()

"""The command `keras-synth`: its words, and what `train` and `report` leave."""

import json
import os
import subprocess
import sys
import tomllib

import keras
import numpy as np
import pytest
from backend import slow_but_on
from places import ROOT

import keras_synth_command as command
from keras_synth.commands import report
from keras_synth.compare import initial, packages

BACKEND = keras.backend.backend()
# Workers are processes of one backend, whichever it is.
pytestmark = slow_but_on("torch")

pytest.importorskip("keras_hub")

SMALL = (
    "--task reviews --examples 200 --epochs 1 --num-layers 1 --hidden-dim 16 "
    "--sequence-length 32 --vocabulary-size 300 --variant R --num-heads 2"
).split()


def test_the_console_script_is_declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["scripts"] == {"keras-synth": "keras_synth_command:run"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "keras-synth COMMAND --help"),
        (["--help"], "report    show the results"),
        (["--version"], "keras-synth 0."),
        (["compare", "--help"], "--variants X"),
        (["train", "-h"], "--variant X"),
        (["report", "-h"], "--task TASK"),
    ],
)
def test_help_is_printed(arguments, words):
    code = "import keras_synth_command; keras_synth_command.run()"
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "80"},
    )
    assert words in done.stdout
    assert all(len(line) <= 80 for line in done.stdout.splitlines())


def test_the_list_of_commands_does_not_wait_for_keras():
    code = (
        "import sys; sys.modules['keras'] = None\n"
        "import keras_synth_command as c; print(c.main(['--help']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True)
    assert done.stdout.endswith(b"\n0\n")


@pytest.mark.parametrize("name", command.COMMANDS)
def test_every_option_has_help_and_a_default(name):
    module = __import__(f"keras_synth.commands.{name}", fromlist=["parser"])
    for action in module.parser()._actions:
        assert action.help, action.option_strings
        takes_value = action.nargs != 0
        if takes_value and action.dest not in ("data", "test_data"):
            assert "(default: " in action.help, action.option_strings


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("comapre", "Did you mean 'compare'?"),
        ("reports", "Did you mean 'report'?"),
        ("--task", "There is no command '--task'."),
    ],
)
def test_unknown_commands_are_refused_in_a_line(name, words, capsys):
    assert command.main([name]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert words in said.err
    assert "`keras-synth --help`" in said.err


@pytest.mark.parametrize("name", ["compare", "train"])
def test_a_missing_extra_is_one_line(name, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(packages, "missing", lambda packages: ["keras_hub"])
    folder = tmp_path / "out"
    with pytest.raises(SystemExit) as stop:
        command.main([name, "--output", str(folder)])
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert 'keras_hub: pip install "keras-synth[compare]"' in said
    assert not folder.exists()


def test_a_report_without_rich_is_one_line(trained, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "rich.console", None)
    with pytest.raises(SystemExit) as stop:
        command.main(["report", str(trained[0])])
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert "'rich.console'" in said
    assert 'pip install "keras-synth[compare]"' in said


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder in which a model has been trained, and what was printed."""
    folder = tmp_path_factory.mktemp("train")
    code = "import keras_synth_command; keras_synth_command.run()"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "80"}
    environment.pop("TF_CPP_MIN_LOG_LEVEL", None)
    environment.pop("KERAS_BACKEND", None)
    done = subprocess.run(
        [sys.executable, "-c", code, "train", *SMALL]
        + ["--backend", BACKEND, "--output", str(folder)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    return folder, done.stdout, done.stderr


def test_train_leaves_a_preset_with_a_model_card(trained, monkeypatch):
    from keras_synth import models

    folder, out, err = trained
    assert f"The model is in {folder / 'preset'}" in out
    # Progress and the score, among what TensorFlow says when it starts.
    firsts = [line.split(" ")[0] for line in err.splitlines()]
    assert [x for x in firsts if x in ("R,", "all")] == ["R,", "all"]
    card = (folder / "preset" / "README.md").read_text()
    assert "SynthesizerTextClassifier, reviews, R" in card
    assert "200 examples" in card
    assert "license: apache-2.0" in card
    row = json.loads((folder / "results.jsonl").read_text())
    assert f"| accuracy, test | {100 * row['score']:.2f}% |" in card
    monkeypatch.chdir(folder)
    (code,) = card.split("```python\n")[1].split("```")[:1]
    namespace = {}
    exec(code, namespace)
    model = namespace["model"]
    assert isinstance(model, models.SynthesizerTextClassifier)
    assert model.class_names == ["negative", "positive"]
    texts = ["a good film", "a bad film"]
    assert np.shape(model.predict(texts, verbose=0)) == (2, 2)
    assert initial.presets(folder) == [folder / "preset"]


def test_train_does_not_overwrite(trained, capsys):
    folder, *_ = trained
    arguments = ["train", *SMALL, "--backend", BACKEND]
    with pytest.raises(SystemExit):
        command.main([*arguments, "--output", str(folder)])
    assert "Pass --resume" in capsys.readouterr().err
    given = [*arguments, "--output", str(folder), "--resume"]
    assert command.main(given) == 0
    assert "1 of 1 are done" in capsys.readouterr().err


def test_a_report_shows_what_the_command_did(trained, capsys):
    folder, out, _ = trained
    files = [folder / x for x in ("results.csv", "results.md", "curves.png")]
    before = [file.read_bytes() for file in files]
    for file in files:
        file.unlink()
    assert command.main(["report", str(folder)]) == 0
    table = out[out.index(" reviews: ") : out.index("results.jsonl,")]
    assert table.strip() in capsys.readouterr().out
    assert [file.read_bytes() for file in files[:2]] == before[:2]
    assert files[2].exists()


def test_results_of_other_settings_have_a_report_each(
    trained, tmp_path, capsys
):
    line = (trained[0] / "results.jsonl").read_text()
    row = json.loads(line)
    row["key"]["settings"]["hidden_dim"] = 99
    (tmp_path / "results.jsonl").write_text(f"{line}{json.dumps(row)}\n")
    assert command.main(["report", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "2. reviews: " in out
    assert "hidden_dim 99" in out
    for name in ("1", "2"):
        assert (tmp_path / "reports" / name / "results.csv").exists()


def test_a_report_of_nothing_says_what_there_is(trained, tmp_path, capsys):
    for arguments, words in [
        ([str(tmp_path / "none")], "Received: none"),
        ([str(trained[0]), "--task", "imdb"], "Received: results of reviews"),
    ]:
        with pytest.raises(SystemExit) as stop:
            command.main(["report", *arguments])
        assert stop.value.code == 2
        assert words in capsys.readouterr().err


def test_comparable_rows_keep_their_order():
    rows = [
        {"key": {"settings": {"task": task}, "data": "x"}, "score": number}
        for number, task in enumerate("aba")
    ]
    scores = [[x["score"] for x in group] for group in report.comparable(rows)]
    assert scores == [[0, 2], [1]]

"""The command, and what it leaves: a folder, a results file, a table."""

import csv
import dataclasses
import io
import itertools
import pathlib
import signal
import sys
import tomllib

import command_line
import keras
import numpy as np
import pytest
from backend import slow_but_on
from command_line import BACKEND, rows
from rich.console import Console

from keras_synth import models
from keras_synth._system import memory
from keras_synth.commands import compare
from keras_synth.compare import __main__ as command
from keras_synth.compare import (
    grid,
    jobs,
    launchers,
    objectives,
    options,
    report,
    running,
    tasks,
    worker,
)
from keras_synth.compare.settings import RATE, setting

# Workers are processes of one backend, whichever it is.
pytestmark = slow_but_on("torch")

SMALL = (
    "--task reviews --examples 400 --epochs 3 --num-layers 1 --num-heads 2 "
    "--hidden-dim 16 --sequence-length 48 --lengths 32 --vocabulary-size 300 "
    "--batch-size 16"
).split()


def run_here(folder, *arguments):
    return command_line.run_here(folder, *SMALL, *arguments)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A folder in which R and V have been compared without interruption."""
    folder = tmp_path_factory.mktemp("whole")
    status, out, err = run_here(folder, "--variants", "R", "V")
    assert status == 0, err
    return folder, out


def test_a_grid_ends_in_a_table_a_csv_file_and_a_picture(whole):
    folder, out = whole
    assert "reviews: test accuracy" in out
    assert "…" not in out
    assert [r["key"]["variant"] for r in rows(folder)] == ["R", "V"]
    for row in rows(folder):
        assert len(row["validation_scores"]) == 3
        assert len(row["validation_losses"]) == 3
        assert 0 <= row["score"] <= 1
        assert row["test_loss"] > 0
        assert len(row["losses"]) == 3 * (400 // 16)
        assert np.mean(row["losses"][-20:]) < np.mean(row["losses"][:5])
        assert row["steps_per_second"] > 0
        assert 0 <= row["data_share"] < 0.5
        assert row["parameters"] > 1000
        assert row["peak_memory_bytes"] > 2**20
        assert row["versions"]["keras"] == keras.__version__
        assert BACKEND in row["versions"]
    with open(folder / "results.csv", newline="") as file:
        table = list(csv.DictReader(file))
    assert [r["variant"] for r in table] == ["R", "V"]
    assert [float(r["validation_score"]) for r in table] == [
        row["validation_scores"][-1] for row in rows(folder)
    ]
    markdown = (folder / "results.md").read_text().splitlines()
    assert [line.split(" | ")[0] for line in markdown[2:]] == ["| R", "| V"]
    assert len({line.count("|") for line in markdown}) == 1
    assert (folder / "curves.png").stat().st_size > 10_000


def test_a_grid_that_is_there_is_not_run_again(whole):
    folder, *_ = whole
    before = (folder / "results.jsonl").read_bytes()
    status, _, err = run_here(folder, "--variants", "R", "V")
    assert status == 2
    assert "--resume" in err
    status, out, err = run_here(folder, "--variants", "R", "V", "--resume")
    assert status == 0
    assert "2 of 2 are done" in err
    assert "reviews: test accuracy" in out
    assert (folder / "results.jsonl").read_bytes() == before


@pytest.mark.skipif(
    BACKEND != "torch", reason="of processes alone: where they start fastest"
)
@pytest.mark.parametrize(
    "how",
    [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.slow)],
)
def test_a_killed_run_goes_on_from_its_last_complete_epoch(
    whole, tmp_path, how
):
    """A signal to the command and its worker, once an epoch is on disk."""
    folder = tmp_path / "killed"
    status, err = command_line.kill_after_an_epoch(
        folder, *SMALL, "--variants", "R", how=how
    )
    if how == signal.SIGINT:
        assert status == 130
        assert "--resume goes on" in err
    assert not (folder / "results.jsonl").exists()
    # The same folder without --resume would lose what is there.
    assert run_here(folder, "--variants", "R")[0] == 2
    status, _, err = run_here(folder, "--variants", "R", "--resume")
    assert status == 0, err
    (resumed,) = rows(folder)
    expected = rows(whole[0])[0]
    assert resumed["data"] == expected["data"]
    assert len(resumed["losses"]) == len(expected["losses"])
    # Backends may add in another order, and only the first epoch is surely
    # from before the kill; the curves agree to what five digits show.
    np.testing.assert_allclose(resumed["losses"], expected["losses"], atol=2e-4)
    assert not any((folder / "checkpoints").glob("*"))


def test_a_batch_larger_than_the_data_is_refused(whole):
    (data,) = (whole[0] / "data").glob("*.npz")
    settings = tasks.TASKS["reviews"].settings(
        "reviews", lengths=(32,), batch_size=400
    )
    assert running.digest_of(data, settings) == rows(whole[0])[0]["data"]
    more = dataclasses.replace(settings, batch_size=401)
    with pytest.raises(ValueError, match="smaller --batch-size"):
        running.digest_of(data, more)


def test_a_missing_backend_is_reported_and_skipped(whole, monkeypatch, capsys):
    folder, *_ = whole
    absent = {"tensorflow"}
    monkeypatch.setattr(
        launchers.local, "missing", lambda x: [*absent.intersection(x)]
    )
    monkeypatch.setattr(
        sys,
        "argv",
        ["compare", *SMALL, "--output", str(folder), "--resume"]
        + ["--variants", "R", "--backends", "tensorflow"],
    )
    assert command.main() == 0
    said = capsys.readouterr()
    assert "Not installed and skipped: tensorflow" in said.err


def test_a_run_that_fails_leaves_the_others_alone(
    whole, tmp_path, monkeypatch, capsys
):
    folder, *_ = whole
    original = launchers.Local.__call__

    def fail(self, runs, jobs):
        for run in runs:
            if run.seed == 7:
                yield run, {"failed": f"{run} failed"}
            else:
                yield from original(self, [run], jobs)

    monkeypatch.setattr(launchers.Local, "__call__", fail)
    before = (folder / "results.jsonl").read_bytes()
    monkeypatch.setattr(
        sys,
        "argv",
        ["compare", *SMALL, "--output", str(folder), "--resume"]
        + ["--variants", "R", "--seeds", "7", "0", "--backends", BACKEND],
    )
    assert command.main() == 1
    assert "seed 7" in capsys.readouterr().err
    assert (folder / "results.jsonl").read_bytes() == before


def test_a_failing_worker_shows_the_end_of_its_log(tmp_path):
    settings = tasks.TASKS["reviews"].settings("reviews")
    found = jobs.Jobs(settings, "/nowhere.npz", "0", tmp_path)
    wanted = grid.Run("R", 2, 0, BACKEND)
    *_, (run, event) = launchers.Local()([wanted], found)
    assert run == wanted
    assert "/nowhere" in event["failed"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--variants", "Q"], "dot_product"),
        (["--variants", "R+"], "dot_product"),
        (["--task", "poems"], "invalid choice: 'poems'"),
        (["--backends", "mxnet"], "invalid choice: 'mxnet'"),
        (["--task", "imdb"], "--data"),
        (["--data", "x.csv"], "takes no --data"),
        (["--task", "imdb", "--data", "/nowhere"], "/nowhere"),
        (["--num-heads", "3"], "divisible"),
        (["--lengths", "99"], "--sequence-length"),
        (["--dropout", "1.5"], "--dropout must be a number from 0 up to"),
        (["--label-smoothing", "0.1"], "--label-smoothing means nothing"),
        (["--test-data", "x.csv"], "takes no --test-data"),
        (["--no-header"], "takes no --no-header"),
        (["--dtype-policy", "int4"], "invalid choice: 'int4'"),
        (["--warmup-steps", "-1"], "--warmup-steps must be an integer"),
        (["--learning-rate", "-1"], "--learning-rate must be a number above 0"),
        (["--learning-rate", "nan"], "--learning-rate must be a number above"),
        (["--weight-decay", "-0.1"], "--weight-decay must be a number of at"),
        (["--rank", "0"], "--rank must be an integer of at least 1"),
        (["--epochs", "0"], "--epochs must be"),
        (["--num-heads", "0"], "--num-heads must be"),
        (["--seeds", "-1"], "--seeds must be"),
        (["--lengths", "0"], "--lengths must be"),
        (["--skip-empty"], "takes no --skip-empty"),
        (["--delimiter", ";"], "takes no --delimiter"),
        (["--launcher", "slurm"], "invalid choice: 'slurm'"),
        (["--gpus-per-run", "1"], "nothing to --launcher local"),
        (["--launcher", "ray", "--cpus-per-run", "0"], "--cpus-per-run must"),
        (["--launcher", "ray", "--gpus-per-run", "-1"], "--gpus-per-run must"),
    ],
)
def test_wrong_arguments_are_refused(
    tmp_path, monkeypatch, capsys, arguments, words
):
    monkeypatch.setattr(
        sys,
        "argv",
        ["compare", *SMALL, "--output", str(tmp_path), *arguments],
    )
    with pytest.raises(SystemExit) as stop:
        command.main()
    assert stop.value.code == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "results.jsonl").exists()


@pytest.mark.parametrize(
    ("task", "option"),
    [
        ("translations", "--keep end"),
        ("multi30k", "--pooling first"),
        ("tatoeba", "--weight-decay 0.1"),
        ("wikitext2", "--lengths 8 16"),
        ("text", "--vocabulary-size 500"),
        ("tinyshakespeare", "--label-smoothing 0.1"),
        ("personachat", "--text body"),
        ("text_pairs", "--label topic"),
        ("multi30k", "--test-data x"),
    ],
)
def test_options_without_effect_are_refused(
    tmp_path, monkeypatch, capsys, task, option
):
    arguments = ["--task", task, "--output", str(tmp_path), *option.split()]
    if task != "translations":
        arguments += ["--data", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["compare", *arguments])
    with pytest.raises(SystemExit):
        command.main()
    assert option.split()[0] in capsys.readouterr().err


def test_errors_name_options_that_there_are(tmp_path, monkeypatch, capsys):
    path = tmp_path / "label=1.csv"
    lines = "text;label\nfine,a;good\n;bad\n" + "bad;bad\nnice;good\n" * 3
    path.write_text(lines)

    def said(*more):
        arguments = ["--task", "csv", "--data", str(path), *more]
        arguments += ["--output", str(tmp_path)]
        monkeypatch.setattr(sys, "argv", ["compare", *arguments])
        with pytest.raises(SystemExit) as stop:
            command.main()
        assert stop.value.code == 2
        return capsys.readouterr()

    words = said().err
    assert "separated by another character, pass --delimiter" in words
    words = said("--delimiter", ";", "--text", "body").err
    assert str(path) in words  # a path is no argument
    assert "Pass --text with the name" in words
    assert "with --no-header, with the index" in words
    words = said("--delimiter", ";").err
    assert "line 3" in words
    assert "pass --skip-empty to leave out" in words
    done = said("--delimiter", ";", "--skip-empty")
    assert "left out 1 of 8 rows" in done.out
    assert "Class 0 has" in done.err
    for name in ("text=", "delimiter=", "skip_empty", "header="):
        assert name not in words


@pytest.mark.parametrize(
    ("task", "content", "words"),
    [
        ("text_pairs", "one\tuno\ntwo\n", "line 2: expected a sentence, a tab"),
        ("text_pairs", "one\tuno\n", "more distinct sources"),
        ("text", "too short for a batch", "longer text"),
        ("text", " ", "white space"),
    ],
)
def test_files_that_do_not_do_are_refused(
    tmp_path, monkeypatch, capsys, task, content, words
):
    path = tmp_path / "data.tsv"
    path.write_text(content)
    arguments = ["--task", task, "--data", str(path)]
    arguments += ["--output", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["compare", *arguments])
    with pytest.raises(SystemExit) as stop:
        command.main()
    assert stop.value.code == 2
    assert words in capsys.readouterr().err


def test_the_test_is_looked_at_once_and_never_in_training(
    tmp_path, monkeypatch
):
    """Neither scores nor losses of epochs depend on what is tested on."""
    settings = objectives.Classification.Settings(
        "reviews", examples=64, epochs=2, num_layers=1
    )
    rng = np.random.default_rng(0)

    def split(count):
        ids = rng.integers(1, 9, (count, 64))
        return {
            "token_ids": ids,
            "padding_mask": np.ones_like(ids),
            "labels": rng.integers(0, 2, count),
        }

    notes = {"class_names": ["a", "b"], "vocabulary_size": 9}
    train, validation, *tests = map(split, (64, 30, 40, 50))
    task = models.SynthesizerTextClassifier
    found, evaluated, evaluate = [], [], task.evaluate

    def noted(self, x=None, *arguments, **options):
        evaluated.append(x)
        return evaluate(self, x, *arguments, **options)

    monkeypatch.setattr(task, "evaluate", noted)
    for test in tests:
        prepared = objectives.Prepared(train, validation, test, notes)
        monkeypatch.setattr(worker.prepare, "read", lambda path, x=prepared: x)
        run = grid.Run("R", 2, 0, BACKEND)
        paths = jobs.Jobs(settings, "x", "0", tmp_path).paths(run)
        found.append(worker.train(settings, run, paths, lambda event: None))
        pathlib.Path(paths["checkpoint"]).unlink()
    sizes = [len(x.labels) for x in evaluated if hasattr(x, "labels")]
    assert sizes.count(40) == sizes.count(50) == 1
    for name in ("losses", "validation_scores", "validation_losses"):
        assert found[0][name] == found[1][name]
    assert found[0]["test_loss"] != found[1]["test_loss"]


@pytest.mark.parametrize(
    ("objective", "name"),
    [
        (objective, field.name)
        for objective in dict.fromkeys(
            map(type, objectives.OBJECTIVES.values())
        )
        for field in dataclasses.fields(objective.Settings)
    ],
)
def test_each_setting_is_part_of_what_a_result_is_found_by(objective, name):
    settings = objective.Settings("reviews")
    value = getattr(settings, name)
    others = {int: 7, float: 0.5, tuple: (16, 32)}
    field = objective.Settings.__dataclass_fields__[name]
    choices = field.metadata.get("allowed")
    choices = choices if isinstance(choices, tuple) else ("other",)
    other = others[type(value)] if type(value) in others else choices[-1]
    if other == value:
        other = choices[0]
    other = dataclasses.replace(settings, **{name: other})
    assert other.digest() != settings.digest()
    assert objective.Settings.from_json(other.to_json()) == other


def test_a_result_is_found_by_the_settings_of_its_objective_alone():
    names = {
        name: {*vars(tasks.TASKS[name].settings(name))}
        for name in ("reviews", "multi30k", "text")
    }
    shared = set.intersection(*names.values())
    assert {"task", "dropout", "rank", "dtype_policy"} <= shared
    own = {name: fields - shared for name, fields in names.items()}
    assert own == {
        "reviews": {
            "lengths",
            "keep",
            "vocabulary_size",
            "pooling",
            "weight_decay",
            "init",
            "init_weights",
        },
        "multi30k": {
            "lengths",
            "vocabulary_size",
            "label_smoothing",
            "init",
            "init_weights",
        },
        "text": {"weight_decay"},
    }


def test_a_new_objective_with_a_setting_changes_no_other_key(monkeypatch):
    @dataclasses.dataclass(frozen=True)
    class Own(objectives.Objective.Settings):
        margin: float = setting(0.5, "between pairs", RATE)

    class Contrast(objectives.Objective):
        Settings = Own
        score = objectives.Score("recall", "recall")

    before = tasks.TASKS["reviews"].settings("reviews").digest()
    task = tasks.Task(Contrast(), None, "", {"epochs": 2})
    monkeypatch.setitem(objectives.OBJECTIVES, "recall", task.objective)
    monkeypatch.setitem(tasks.TASKS, "contrast", task)
    assert "--margin X" in compare.parser().format_help()
    parse = compare.parser().parse_args
    found = options.settings_of(parse("--task contrast --margin 0.2".split()))
    assert (found.margin, found.epochs) == (0.2, 2)
    with pytest.raises(ValueError, match="--margin must be a number from 0"):
        options.settings_of(parse("--task contrast --margin 1".split()))
    with pytest.raises(ValueError, match="--margin means nothing to the task"):
        options.settings_of(parse("--task reviews --margin 0.2".split()))
    assert options.settings_of(parse([])).digest() == before


def test_given_settings_come_before_the_task_s_own():
    parse = compare.parser().parse_args
    given = parse("--task imdb --epochs 2 --data x".split())
    settings = options.settings_of(given)
    assert (settings.epochs, settings.sequence_length) == (2, 256)
    assert settings.lengths == (128, 192)
    given = parse("--task imdb --sequence-length 128 --data x".split())
    assert options.settings_of(given).lengths == ()


@pytest.mark.parametrize("name", tasks.TASKS)
def test_each_task_s_defaults_are_settings(name):
    given = compare.parser().parse_args(["--task", name])
    settings = options.settings_of(given)
    assert settings.task == name
    assert set(tasks.TASKS[name].defaults) <= set(vars(settings))


def test_the_table_of_tasks_says_nothing_that_nobody_reads():
    text = pathlib.Path(tasks.__file__).with_name("tasks.toml").read_text()
    keys = {"objective", "texts", "needs", "options", "paper", "like"}
    for name, row in tomllib.loads(text).items():
        own = {*vars(tasks.TASKS[name].settings(name))}
        more = {"target"} if row["texts"] == "multi30k" else set()
        assert {*row} <= keys | own | more, name


def test_a_csv_file_may_have_pairs_and_a_test_file(tmp_path):
    lines = ["a,b,same"]
    lines += [f"one {i},one {i},yes\none {i},two {i},no" for i in range(30)]
    path = tmp_path / "train.csv"
    path.write_text("\n".join(lines))
    test = tmp_path / "test.csv"
    test.write_text("a,b,same\none x,two x,no\n")
    source = tasks.Source(str(path), str(test), ("a", "b"), "same")
    train, validation, held_out, names = tasks.load(
        "csv", source, grid.Settings("csv")
    )
    assert names == ["no", "yes"]
    assert len(train[0]) == len(validation[0]) == 2
    assert [len(train[1]), len(validation[1])] == [54, 6]
    pairs = [*zip(*train[0], strict=True)], [*zip(*validation[0], strict=True)]
    assert len({*pairs[0], *pairs[1]}) == 60
    assert held_out[1].tolist() == [0]


def test_a_task_may_be_cut_to_fewer_examples(tmp_path):
    path = tmp_path / "all.csv"
    lines = [f"text {i},{'ab'[i % 2]}" for i in range(50)]
    path.write_text("\n".join(["text,label", *lines]))
    source = tasks.Source(str(path))
    some = grid.Settings("csv", examples=20)
    (texts, labels), *others, _ = tasks.load("csv", source, some)
    assert len(texts) == len(labels) == 20
    assert [int(t.split()[1]) % 2 for t in texts] == labels.tolist()
    _, *every, _ = tasks.load("csv", source, grid.Settings("csv"))
    assert [x for x, _ in others] == [x for x, _ in every]
    assert [len(x) for x, _ in every] == [4, 4]
    with pytest.raises(ValueError, match="at most 42"):
        tasks.load("csv", source, grid.Settings("csv", examples=43))


@pytest.mark.parametrize(
    ("platform", "files", "expected"),
    [
        ("linux", "VmRSS:\t1 kB\nVmHWM:\t   7 kB\n", 7 * 1024),
        ("freebsd", None, 5 * 1024),
        ("darwin", None, 5),
        ("win32", None, None),
    ],
)
def test_memory_is_in_bytes_everywhere(
    tmp_path, monkeypatch, platform, files, expected
):
    """`getrusage` counts KiB, on macOS bytes, and is not on Windows."""

    class Resource:
        RUSAGE_SELF = 0

        @staticmethod
        def getrusage(who):
            return type("Usage", (), {"ru_maxrss": 5})

    monkeypatch.setattr(memory, "STATUS", str(tmp_path / "status"))
    if files:
        (tmp_path / "status").write_text(files)
    monkeypatch.setattr(sys, "platform", platform)
    found = None if platform == "win32" else Resource
    monkeypatch.setattr(memory, "resource", found)
    assert memory.peak_memory() == expected


def test_memory_of_this_process_grows():
    before = memory.peak_memory()
    kept = np.ones(2**24)  # 128 MiB
    assert memory.peak_memory() >= before
    assert memory.peak_memory() > kept.nbytes


def example_row(variant, heads, backend, seed, settings):
    return {
        "key": {
            "variant": variant,
            "num_heads": heads,
            "backend": backend,
            "seed": seed,
            "settings": settings,
        },
        "score": 0.87551 + seed / 100,
        "validation_scores": [0.5, 0.8812],
        "steps_per_second": 104.44,
        "parameters": 254_360_064,
        "peak_memory_bytes": None if variant == "V" else 67_545 * 2**20,
    }


@pytest.mark.parametrize(
    "task", ["imdb", "cola", "mrpc", "stsb", "multi30k", "wikitext2"]
)
@pytest.mark.parametrize("backends", [["tensorflow"], ["tensorflow", "jax"]])
@pytest.mark.parametrize("heads", [[4], [4, 16]])
def test_the_table_is_whole_at_80_columns(task, backends, heads):
    variants = ["V", "R", "FR+V", "factorized_random(rank=32) + dot_product"]
    settings = {"task": task, "epochs": 2}
    found = [
        example_row(*run, settings)
        for run in itertools.product(variants, heads, backends, [0, 1])
    ]
    console = Console(width=80, file=io.StringIO())
    console.print(report.table(found, tasks.TASKS[task]))
    out = console.file.getvalue()
    assert "…" not in out
    assert "..." not in out
    lines = [line for line in out.splitlines() if "104.44" in line]
    assert len(lines) == len(found) // 2
    for line in lines:
        assert "254.36" in line
        assert len(line) <= 80
    assert sum(" 67545" in line for line in lines) == len(found) // 2 * 3 // 4
    assert all(name in out for name in backends)
    assert "seeds 0 1" in out
    if heads == [4]:
        assert "4 heads" in out


def test_initial_weights_are_the_same_on_all_backends(tmp_path):
    """The first run draws them, whichever backend it is on."""
    settings = tasks.TASKS["reviews"].settings("reviews")
    found = jobs.Jobs(settings, "data.npz", "0", tmp_path)
    paths = [
        found.paths(grid.Run("R", 2, seed, backend))["weights"]
        for seed, backend in [(0, "jax"), (0, "torch"), (1, "jax")]
    ]
    assert paths[0] == paths[1] != paths[2]
    assert not pathlib.Path(paths[0]).exists()

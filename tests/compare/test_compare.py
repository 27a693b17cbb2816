"""The grid of runs: shared data, existing results, errors."""

import csv
import functools
import importlib
import json
import os
import subprocess
import sys
import types

import keras
import numpy as np
import pytest
from assertions import equal
from commands import BACKEND, SMALL, card, execute_here, results, run, start

from keras_synth import compare
from keras_synth.compare import own, report, runs, worker
from keras_synth.compare.data import read_arrays
from keras_synth.synthesizers.registry import SYNTHESIZERS

SIZES = ["--examples", "48", "--sequence-length", "16", "--lengths", *SMALL]
PAIRS = ["compare", "--task", "pairs", *SIZES]


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compared")
    words = [*PAIRS, "--variants", "V", "R", "--seeds", "0", "1"]
    status, out, err = run(*words, "--output", folder)
    assert status == 0, err
    return folder, out, err


def test_there_is_a_result_for_each_run(compared):
    folder, out, err = compared
    found = {(x["variant"], x["seed"], x["backend"]) for x in results(folder)}
    assert found == {(v, s, BACKEND) for v in "VR" for s in (0, 1)}
    assert "3 more to run: about" in err
    assert "(the majority)" in out
    for name in ("results.csv", "results.md", "report.html"):
        assert (folder / name).stat().st_size > 100
    assert not [*folder.rglob("*-partial")]
    for result in results(folder):
        assert {*result["versions"]} == {"keras_synth", "keras", BACKEND}
        assert result["command"].startswith("keras-synth")
        assert result["settings"]["epochs"] == 2
    # The initial weights of a variant and a seed, for all backends.
    assert len([*folder.glob("initial/*.npz")]) == 4


def test_results_are_used_again_only_with_resume(compared):
    folder, *_ = compared
    words = [*PAIRS, "--variants", "V", "R", "--seeds", "0", "1"]
    status, _, err = run(*words, "--output", folder)
    assert status == 2
    assert "Pass --resume" in err
    assert "4 of 4" in err

    def never(*_):
        raise AssertionError

    status, _, err = run(*words, "--output", folder, "--resume", execute=never)
    assert status == 0
    assert "4 of 4 are done" in err


def test_a_trained_model_is_a_run_of_a_comparison(tmp_path):
    words = [*SIZES, "--output", tmp_path]
    pairs = ["--task", "pairs"]
    name = " + ".join(f"R(gain={i})" for i in range(1, 26))  # a long one
    status, _, err = run("train", *pairs, "--variant", name, *words)
    assert status == 0, err
    words += ["--variants", name, "--resume"]
    status, _, err = run("compare", *pairs, *words, execute=None)
    assert status == 0, err
    assert "1 of 1 are done" in err


@pytest.mark.once
def test_results_of_other_versions_do_not_count(compared, monkeypatch):
    folder, *_ = compared
    monkeypatch.setattr(runs, "__version__", "99")
    done = []

    def count(spec, *_):
        done.append(spec)
        raise RuntimeError("stopped")

    words = [*PAIRS, "--variants", "V", "--seeds", "0", "--resume"]
    status, _, _ = run(*words, "--output", folder, execute=count)
    assert status == 1
    assert [x["record"]["versions"]["keras_synth"] for x in done] == ["99"]


@pytest.mark.once
def test_a_run_that_fails_leaves_the_others(tmp_path):
    def fail(spec, *rest):
        if spec["variant"] == "V":
            raise RuntimeError("failed; its log is there")
        return execute_here(spec, *rest)

    words = [*PAIRS, "--variants", "V", "R", "--output", tmp_path]
    status, _out, err = run(*words, execute=fail)
    assert status == 1
    assert "V, seed 0" in err
    assert "its log is there" in err
    assert [x["variant"] for x in results(tmp_path)] == ["R"]


ERRORS = {
    "report nowhere": "There are no results in nowhere",
    "unknown": "invalid choice: 'unknown'",
    "compare --seeds one": "keras-synth compare --help lists",
    "compare --variants Q": "'Q'",
    "compare --keep end --task translation": "--keep has no effect",
    "compare --epochs 0": "--epochs: must be at least 1",
    "compare --jobs 0": "--jobs: must be at least 1",
    "compare --dropout 1": "--dropout: must be at least 0 and below 1",
    "compare --lengths 99": "--lengths must be at most --sequence-length",
    "compare --num-heads 3": "must be divisible",
    "compare --task scores": "The task scores needs --data",
    "compare --task language_model --vocabulary-size 9": "--tokens subwords",
    "compare --data none.csv": "There is no file or folder none.csv",
    "compare --task translation --variants linformer": "causal",
    "compare --init nowhere": "--init must be a preset",
    "compare --examples 64 --batch-size 999": "train examples are too few",
    "compare --backends theano": "invalid choice",
    "compare --examples 64 --callbacks nothing": "--callbacks must be MODULE",
    "compare --variants nowhere:Mine": "No module named 'nowhere'",
    "compare --variants nowhere:A": "--variants must be MODULE:NAME of a "
    "function or class, installed or in the current folder",
    "train --variant nowhere:A": "train: --variant must be MODULE:NAME",
    "train --variants R": "unrecognized arguments: --variants R (did you mean "
    "--variant?). keras-synth train --help lists",
    "compare --seeds -1": "--seeds: must be at least 0",
    "compare --data one.csv": "must have at least two classes",
    "compare --data floats.csv": "pass --task scores",
    "compare --task pairs --data one.csv --text text": "need two columns",
    "compare --task tagging --data one.csv": "needs sentences of words",
    "compare --task tagging --data floats.csv": "needs sentences of words",
    "compare --examples 64 --output one.txt": "--output must be a folder",
    "compare --text body": "--text needs --data",
    "compare --task masked_lm --data one.csv --text text": "plain text. Leave "
    "out the options of tables. Received: {'text': 'text'}",
    "compare --data one.txt --delimiter ;": "does not use delimiter",
    "compare --test-data one.csv": "--test-data needs --data",
    "compare --task masked_lm --data .": "--output must be outside",
    "compare --data one.txt": "a table with another suffix, pass --format.",
    "compare --data one.csv --label text label": "several --label columns",
    "compare --init-weights random": "--init-weights needs --init",
    "compare --examples 64 --gpus-per-run 1": "Only runs on Ray",
    "compare --examples 64 --jobs 2 --ray local": "Leave out --jobs",
    "compare --init others": "must have backbones of keras_synth",
    "compare --examples 64 --callbacks own_parts:nothing": "must return a "
    "keras.callbacks.Callback",
    "compare --variants own_parts:CosineSynthesizer+others:CosineSynthesizer": (
        "different names for different classes"
    ),
}


@pytest.mark.once
@pytest.mark.parametrize("words", ERRORS)
def test_a_wrong_argument_is_one_line_before_a_run(words, tmp_path, own_module):
    rows = "".join(f"text {i},{i}.5\n" for i in range(40))
    one = "".join(f"text {i},b\n" for i in range(40))
    (tmp_path / "one.csv").write_text(f"text,label\n{one}")
    (tmp_path / "one.txt").write_text(one)
    (tmp_path / "floats.csv").write_text(f"text,label\n{rows}")
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "config.json").write_text('{"config": {}}')
    status, _, err = run(*words.split(), execute=None)
    assert status == 2
    assert ERRORS[words] in err
    assert len(err.strip().splitlines()) == 1
    assert "pip install" not in err


@pytest.mark.once
@pytest.mark.parametrize(
    "name, extra", {"filelock": "compare", "ray": "ray"}.items()
)
def test_a_missing_package_of_an_extra_is_named(
    name, extra, monkeypatch, tmp_path
):
    monkeypatch.setitem(sys.modules, name, None)
    words = ["--variants", "V", "--ray", "none:1", "--output", tmp_path]
    status, _, err = run(*PAIRS, *words)
    assert status == 2
    assert f'pip install "keras-synth[{extra}]"' in err


OWN = """
import keras
import keras_synth


@keras.saving.register_keras_serializable("mine")
class CosineSynthesizer(keras_synth.synthesizers.DotProductSynthesizer):
    pass


def callbacks(run):
    class Note(keras.callbacks.Callback):
        def on_train_end(self, logs=None):
            run.folder.mkdir(parents=True)
            (run.folder / "note").write_text(run.variant)

    return Note()


def nothing(run):
    return 1
"""


OWN_NAMES = "own_parts", "others"


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    for name in OWN_NAMES:
        (tmp_path / f"{name}.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name in OWN_NAMES:
        sys.modules.pop(name, None)


def test_variants_callbacks_and_presets_can_be_custom(own_module):
    name = "own_parts:CosineSynthesizer"
    (own_module / "a.txt").write_text("to be or not to be\n" * 400)
    sizes = ["--examples", "48", "--sequence-length", "16", *SMALL]
    status, _, err = run(
        *("compare", "--task", "masked_lm", "--data", "a.txt", *sizes),
        *("--vocabulary-size", "200", "--variants", name, f"{name} + R"),
        *("--callbacks", "own_parts:callbacks", "--output", "first"),
    )
    assert status == 0, err
    names = {x["variant"] for x in results(own_module / "first")}
    assert names == {name, f"{name} + R"}
    notes = own_module.glob("first/callbacks/*/note")
    assert {x.read_text() for x in notes} == names
    for preset in own_module.glob("first/presets/*"):
        SYNTHESIZERS.entries.pop("cosine_synthesizer")
        card(preset)  # it registers the class again
    status, _, err = run(
        *("compare", "--task", "classification", *sizes, "--init", "first"),
        *("--variants", name, "--output", "out"),
    )
    assert status == 0, err
    assert [x["variant"] for x in results(own_module / "out")] == [name]


@pytest.mark.once
def test_results_of_edited_code_do_not_count(own_module):
    name = "own_parts:CosineSynthesizer"
    words = [*PAIRS, "--variants", "V", name, "--seeds", "0", "--output", "out"]
    assert run(*words)[0] == 0
    with open("own_parts.py", "a") as file:
        file.write("# edited")
    status, _, err = run(*words, "--resume")
    assert status == 0, err
    assert "1 of 2 are done" in err
    with open("out/results.csv", encoding="utf-8") as file:
        found = [row["variant"] for row in csv.DictReader(file)]
    assert found[0] == "V"
    assert len({*found}) == 3
    assert all(x.startswith(f"{name}, code ") for x in found[1:])


SCRIPT = """
import keras
import numpy as np
import keras_synth


def build_model(variant):
    x = keras.Input((8, 4))
    y = keras_synth.layers.SyntheticAttention(
        1, 4, synthesizer=variant, max_length=8
    )(x)
    y = keras.layers.GlobalAveragePooling1D()(y)
    model = keras.Model(x, keras.layers.Dense(1, "sigmoid")(y))
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    return model


def examples(count, seed):
    x = np.random.default_rng(seed).normal(size=(count, 8, 4))
    return x.astype("float32"), (x.mean((1, 2)) > 0).astype("int32")


if __name__ == "__main__":
    table = keras_synth.compare.run(
        build_model,
        ["V", "R"],
        train=examples(64, 0),
        validation=examples(32, 1),
        test=examples(32, 2),
        score="accuracy",
        folder="out",
    )
    print(len(table), sorted(table["variant"]))
"""


def run_script(script, folder):
    (folder / "mine.py").write_text(script)
    return subprocess.run(
        [sys.executable, "mine.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "KERAS_BACKEND": BACKEND},
    )


@pytest.mark.slow
def test_the_models_of_a_script_are_compared(tmp_path):
    """In processes, as its users run it."""
    done = run_script(SCRIPT, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "2 ['R', 'V']" in done.stdout
    found = results(tmp_path / "out")
    assert {x["score"]["name"] for x in found} == {"accuracy"}
    assert all(len(x["result"]["history"]["loss"]) == 3 for x in found)


UNUSUAL = """
import keras


def build_model(variant):
    head = keras.layers.Dense(2, "softmax", dtype="bfloat16")
    model = keras.Sequential([head])
    score = keras.metrics.F1Score()
    model.compile("sgd", "categorical_crossentropy", metrics=[score])
    return model
"""


def test_models_can_be_unbuilt_and_have_scores_of_several_numbers(
    monkeypatch, tmp_path
):
    path = tmp_path / "unusual.py"
    path.write_text(UNUSUAL)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(runs, "execute", execute_here)
    made = importlib.import_module("unusual").build_model
    data = np.eye(4, dtype="float32"), np.eye(2)[[0, 1, 0, 1]]
    given = {
        **dict.fromkeys(("train", "validation", "test"), data),
        "batch_size": 2,
        "score": "f1_score",
        "folder": tmp_path / "out",
    }
    first = compare.run(made, ["V"], **given)
    (weights,) = tmp_path.glob("out/initial/*.npz")
    with np.load(weights) as file:
        assert [(x.shape, x.dtype.name) for x in file.values()] == [
            ((4, 2), "float32"),
            ((2,), "float32"),
        ]
    (result,) = tmp_path.glob("out/runs/*.json")
    result.unlink()
    again = compare.run(made, ["V"], **given, resume=True)
    assert again["score"].tolist() == first["score"].tolist()
    # Code that no run executes can change.
    path.write_text(f'{UNUSUAL}\n\nif __name__ == "__main__":\n    1 / 0\n')
    monkeypatch.setattr(runs, "execute", None)
    assert len(compare.run(made, ["V"], **given, resume=True)) == 1
    known = own.digest_of_script(path)
    path.write_text(f"{path.read_text()}else:\n    UNITS = 4\n")
    assert own.digest_of_script(path) != known


@pytest.mark.once
def test_speed_and_losses_count_all_steps_of_an_execution(monkeypatch):
    log = worker.Log(types.SimpleNamespace(), lambda event: None, "loss")
    times = iter([0.0, 8.0, 8.0, 10.0])
    monkeypatch.setattr(worker.time, "perf_counter", lambda: next(times))
    log.set_params({"steps": 10})
    for first, last in ((0, 7), (8, 15)):
        log.on_train_batch_begin(first)
        log.on_train_batch_end(last, {"loss": 1.0 + first})
    assert log.seconds == [1.0, 1.0]
    assert log.curve() == [[8, 1.0], [10, 9.0]]


ARRAYS = np.ones((4, 2), "float32"), np.ones(4)
KNOWN = dict.fromkeys(("train", "validation", "test"), ARRAYS)


@pytest.mark.once
def test_models_need_a_file_and_arrays_numbers(monkeypatch, tmp_path):
    for wrong in (
        lambda variant: None,
        functools.partial(run, 1),
        eval("lambda variant: None", vars(own)),  # of a module
    ):
        with pytest.raises(ValueError, match="%%writefile"):
            compare.run(wrong, ["V"], **KNOWN)
    monkeypatch.setenv(own.IN_WORKER, "1")
    with pytest.raises(RuntimeError, match="__main__"):
        compare.run(run, ["V"], **KNOWN)


@pytest.mark.once
@pytest.mark.parametrize(
    "x",
    [
        ARRAYS[0],
        (ARRAYS[0], 2 * ARRAYS[0]),
        {"b": ARRAYS[0], "a": 2 * ARRAYS[0]},
        {"1": ARRAYS[0], "0": 2 * ARRAYS[0]},
    ],
)
def test_batches_have_the_structure_of_the_arrays(x, tmp_path):
    path = own.write(tmp_path, "a", [(x, ARRAYS[1])] * 3)
    task = own.ScriptTask("a.py", "build_model")
    settings = {"batch_size": 4}
    for batches in task.batches(read_arrays(path), settings, 0):
        found, labels = batches[0]
        assert type(found) is type(x)
        keras.tree.map_structure(equal, found, x)
        equal(labels, ARRAYS[1])


BAD_RUNS = {
    "epochs.*positive.*Received: epochs=0": {"epochs": 0},
    "jobs.*positive.*Received: jobs=0": {"jobs": 0},
    "train examples are too few .*Received: no batch.* 5": {"batch_size": 5},
    "validation must be (x, y).*ndarray": {"validation": np.ones(3)},
    "Tokenize.*x of train .*dtype <U1": {"train": (np.array([*"ab"]), [1, 2])},
    "numbers.*y of test .*dtype <U1": {"test": (np.ones(2), [*"ab"])},
    "y of test .*dtype object": {"test": (np.ones(2), None)},
    "unequal lengths": {"train": ([[1, 2], [3]], [0, 1])},
    "`variants` must be.*Received: variants='V'": {"variants": "V"},
    "`variants` must be.*Received: variants=.'R', 1.": {"variants": ["R", 1]},
    "`seeds` must be.*Received: seeds=0": {"seeds": 0},
    "`seeds` must be.*Received: seeds=.-1.": {"seeds": [-1]},
    "`seeds` must be.*Received: seeds=.4294967296.": {"seeds": [2**32]},
    "`seeds` must be.*Received: seeds=..$": {"seeds": []},
    "`backends` must be.*Received: backends='jax'": {"backends": "jax"},
    "Only runs on Ray have a number of GPUs. .*Received: 2": {"gpus": 2},
}


@pytest.mark.once
@pytest.mark.parametrize("words", BAD_RUNS)
def test_a_wrong_argument_of_run_is_an_error_before_the_first(words, tmp_path):
    given = {**KNOWN, "variants": ["V"], "batch_size": 2, **BAD_RUNS[words]}
    pattern = words.replace("(x, y)", r"\(x, y\)")
    with pytest.raises(ValueError, match=pattern):
        compare.run(result, **given, folder=tmp_path / "out")
    assert not [*tmp_path.glob("out/runs/*")]


WRONG_SCRIPTS = {
    "model must return a compiled keras.Model. Received: None": (
        "return model",
        "return None",
    ),
    "one of ['accuracy', 'loss'], the loss and metrics of the model. Received: "
    "score='f1'": ('score="accuracy"', 'score="f1"'),
    # Of a Keras layer, whose errors end in its arguments.
    "8 tokens is longer than max_length=4.": (
        "synthesizer=variant, max_length=8",
        'synthesizer="R", max_length=4',
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("words", WRONG_SCRIPTS)
def test_the_error_of_a_wrong_script_says_what_to_do(words, tmp_path):
    done = run_script(SCRIPT.replace(*WRONG_SCRIPTS[words]), tmp_path)
    assert words in done.stderr.splitlines()[-1]
    (log,) = tmp_path.glob("out/logs/V-*")
    assert "Traceback" in log.read_text()


@pytest.mark.once
@pytest.mark.parametrize(
    ("score", "given", "expected"),
    [
        ("accuracy", None, True),
        ("mae", None, False),
        ("MSE", None, False),
        ("bce", None, False),
        (None, None, False),
        ("mae", True, True),
        ("regret", False, False),
    ],
)
def test_of_a_loss_or_an_error_less_is_better(score, given, expected):
    task = own.ScriptTask("mine.py", "build_model", score, given)
    assert task.score({}).higher_is_better == expected


@pytest.mark.once
def test_the_error_after_all_runs_failed_has_the_cause(monkeypatch, tmp_path):
    def execute(*_):
        raise RuntimeError("failed; its log is x:\nTraceback\nKeyError: 'a'")

    monkeypatch.setattr(runs, "execute", execute)
    with pytest.raises(RuntimeError, match=r"runs failed.*: KeyError: 'a'$"):
        compare.run(result, ["V"], **KNOWN, folder=tmp_path, batch_size=2)


# Reports


def result(variant, seed, score, **changes):
    made = {
        "task": "pairs",
        "variant": variant,
        "seed": seed,
        "backend": "jax",
        "settings": {"epochs": 2},
        "data": "d",
        "start": "",
        "code": "",
        "order": 0,
        "versions": {"keras": "3.15.1", "jax": "0.10"},
        "preset": False,
        "score": {
            "name": "accuracy",
            "scale": 100,
            "digits": 2,
            "unit": "%",
            "higher_is_better": True,
        },
        "validation": "loss",
        "baseline": {"name": "the majority", "score": 0.5},
        "command": "keras-synth compare --variants '<b>'",
        "result": {
            "score": score,
            "history": {"loss": [1, 0.5], "val_loss": [1, 0.6]},
            "losses": [[1, 1.0], [2, 0.5]],
            "train_seconds": 1.0,
            "steps_per_second": 2.0,
            "parameters": 1000,
        },
    }
    return {**made, **changes}


@pytest.mark.once
def test_the_error_is_that_of_the_mean():
    found = [result("V", i, x) for i, x in enumerate((0.80, 0.82, 0.87))]
    table = report.summary(found)
    error = 100 * np.std([0.80, 0.82, 0.87], ddof=1) / np.sqrt(3)
    assert table["accuracy, %"][0] == f"83.00 ±{error:.2f}"
    assert table["variant"].tolist() == ["V", "(the majority)"]
    assert table["accuracy, %"][1] == "50.00"


@pytest.mark.once
@pytest.mark.parametrize(
    "name, heading, value",
    [
        ("accuracy", "validation accuracy, %", "67.65"),
        ("Matthews correlation", "validation accuracy", "0.6765"),
    ],
)
def test_the_validation_has_the_scale_of_the_same_metric(name, heading, value):
    content = result("V", 0, 0.8, validation="accuracy")
    history = {"val_auc": [0.5, 0.7], "val_accuracy": [0.5, 0.6765]}
    content["result"]["history"] = history
    unit = "%" if name == "accuracy" else ""
    content["score"] |= {"name": name, "unit": unit}
    assert report.summary([content])[heading][0] == value


@pytest.mark.once
def test_results_of_two_versions_have_separate_lines():
    old = {"keras": "3.14.0", "jax": "0.10"}
    found = [result("V", 0, 0.8), result("V", 1, 0.9, versions=old)]
    table = report.summary(found)
    assert table["versions"].tolist()[:2] == [
        "keras 3.15.1, jax 0.10",
        "keras 3.14.0, jax 0.10",
    ]
    assert table["accuracy, %"].tolist()[:2] == ["80.00", "90.00"]


@pytest.mark.once
def test_differences_are_judged_by_their_seeds():
    from scipy import stats

    one, two = [0.90, 0.92, 0.95], [0.80, 0.83, 0.84]
    found = [result("V", i, x) for i, x in enumerate(one)]
    found += [result("R", i, x) for i, x in enumerate(two)]
    (line,) = report.differences(found).to_dict("records")
    low, high = stats.ttest_rel(one, two).confidence_interval(0.95)
    assert line["variants"] == "V against R"
    assert line["low"] == pytest.approx(100 * low)
    assert line["high"] == pytest.approx(100 * high)
    assert line["verdict"] == "V is better"
    other = [result("D", 5 + i, x) for i, x in enumerate(two)]
    gap = report.differences([*found[:3], *other]).to_dict("records")[0]
    low, _ = stats.ttest_ind(one, two, equal_var=False).confidence_interval(
        0.95
    )
    assert gap["low"] == pytest.approx(100 * low)
    (single,) = report.differences([found[0], found[3]]).to_dict("records")
    assert single["verdict"] == "too few seeds to say"
    alike = [result("D", i, x - 0.1) for i, x in enumerate(one)]
    (equal,) = report.differences([*found[:3], *alike]).to_dict("records")
    assert equal["verdict"] == "no interval: equal differences"


@pytest.mark.once
def test_each_variant_and_seed_starts_from_its_own_preset():
    found = [
        result(name, seed, 0.8, start=f"{name}{seed}")
        for name in ("V", "R")
        for seed in (0, 1)
    ]
    assert [*map(len, report.grouped(found))] == [4]
    other = [result("V", 0, 0.5, start="a"), result("R", 0, 0.6, start="b")]
    assert report.grouped([*found, *other]) == [found, other]


@pytest.mark.once
def test_a_run_that_diverged_is_not_left_out():
    scores = {"V": (0.8, 0.9, 0.95), "R": (np.nan, 0.85, 0.8)}
    found = [
        result(name, seed, score)
        for name, own in scores.items()
        for seed, score in enumerate(own)
    ]
    assert report.summary(found)["accuracy, %"][1] == "nan ±nan"
    (line,) = report.differences(found).to_dict("records")
    assert line["verdict"] == "a score is not finite"


@pytest.mark.once
def test_the_lower_score_is_better_if_lower_is_better():
    worse = {**result("V", 0, 0)["score"], "higher_is_better": False}
    found = [
        {**result(name, i, x + i / 100), "score": worse}
        for name, x in {"V": 0.9, "R": 0.5}.items()
        for i in range(3)
    ]
    found[0]["result"]["score"] += 1e-3
    (line,) = report.differences(found).to_dict("records")
    assert line["verdict"] == "R is better"


@pytest.mark.once
def test_a_page_says_what_was_compared_and_requests_nothing(tmp_path):
    folder = tmp_path / "runs"
    folder.mkdir()
    found = [result(v, s, 0.8 + s / 50) for v in ("V", "<i>") for s in (0, 1)]
    found.append(result("V", 0, 0.7, settings={"epochs": 3}))
    found.append(result("V", 0, 0.7, data="0123456789"))
    for i, content in enumerate(found):
        (folder / f"{i}.json").write_text(json.dumps(content))
    status, out, _ = run("report", tmp_path)
    assert status == 0
    assert "pairs: accuracy on the test (epochs=2, data=d)" in out
    assert "(epochs=2, data=012345)" in out
    page = (tmp_path / "report.html").read_text()
    assert "&lt;i&gt;" in page
    assert "<i>" not in page
    assert "<script" not in page
    assert "standard error of the mean" in page
    assert "keras-synth compare --variants &#39;&lt;b&gt;&#39;" in page
    assert page.count("<svg") == 3
    rows = (tmp_path / "results.csv").read_text().splitlines()
    assert len(rows) == 7


@pytest.mark.once
def test_results_are_ordered_as_the_command_named_them(tmp_path):
    (tmp_path / "runs").mkdir()
    for order, name in ((1, "R"), (0, "V")):  # R has finished first
        content = json.dumps(result(name, 0, 0.5, order=order))
        (tmp_path / "runs" / f"{name}.json").write_text(content)
    assert [x["variant"] for x in report.read(tmp_path)] == ["V", "R"]


@pytest.mark.once
@pytest.mark.parametrize("content", ["", "{", "[]", '{"result": {}}'])
def test_a_damaged_result_is_named(content, tmp_path):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "x.json").write_text(content)
    status, _, err = run("report", tmp_path)
    assert status == 2
    assert "x.json is damaged" in err
    assert "Traceback" not in err


@pytest.mark.once
def test_charts_show_the_best_variants_only():
    found = [result(f"R(gain={i})", 0, i / 100) for i in range(15)]
    text = report.chart(found)
    assert [f"<!-- R(gain={i}) -->" in text for i in (4, 5, 14)] == [
        False,
        True,
        True,
    ]


@pytest.mark.once
def test_help_lists_commands_and_options():
    assert "compare" in run("--help")[1]
    status, out, _ = run("compare", "--help")
    text = " ".join(out.split())
    assert status == 0
    assert "--variants" in text
    known = "V R D R+V", "0", "classification", "compare", "KERAS_BACK", "none)"
    for default in *known, "2; masked_lm 4; span_corruption 3)", "none; scores":
        assert f"(default: {default}" in text


@pytest.mark.slow
def test_a_separate_process_ends_like_this_one(tmp_path, compared):
    words = [*PAIRS, "--variants", "R", "--seeds", "1"]
    process = start(*words, "--backends", BACKEND, "--output", tmp_path)
    _, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    (alone,) = results(tmp_path)
    (other,) = [
        x for x in results(compared[0]) if (x["variant"], x["seed"]) == ("R", 1)
    ]
    history = other["result"]["history"]["loss"]
    assert alone["result"]["history"]["loss"] == pytest.approx(
        history, rel=1e-4
    )


@pytest.mark.slow
def test_ray_does_the_same_runs(tmp_path):
    pytest.importorskip("ray")
    words = [*PAIRS, "--variants", "V", "R", "--ray", "local"]
    process = start(*words, "--backends", BACKEND, "--output", tmp_path)
    _, err = process.communicate(timeout=900)
    assert process.returncode == 0, err
    assert {x["variant"] for x in results(tmp_path)} == {"V", "R"}

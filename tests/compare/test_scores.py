"""GLUE's own scores: correlations, F1, and labels that are scores."""

import csv

import keras
import numpy as np
import pytest
from backend import slow_but_on
from command_line import BACKEND
from scipy import stats
from sklearn import metrics as published

from keras_synth.compare import grid, jobs, objectives, report, tasks, worker
from keras_synth.datasets import LengthBuckets

FIGURES = {
    "matthews": ("matthews", "accuracy"),
    "f1": ("f1", "accuracy"),
    "pearson": ("pearson", "spearman"),
}
SETTINGS = objectives.Classification.Settings(
    "reviews",
    sequence_length=8,
    lengths=(4,),
    epochs=2,
    num_layers=1,
    hidden_dim=8,
    batch_size=8,
)


class Fixed:
    """Answers each example with the row of a table that its token names."""

    def __init__(self, outputs, loss):
        self.outputs, self.loss = np.array(outputs, "float32"), loss

    def predict(self, batches, verbose):
        rows = [batches[i][0]["token_ids"][:, 0] for i in range(len(batches))]
        return self.outputs[np.concatenate(rows)]


def batches(labels):
    """Batches of two, the examples in another order than the labels."""
    ids = np.repeat(np.arange(len(labels))[:, None], 8, axis=1)
    lengths = np.array([8, 8, 2, 2, 2, 2, 8, 8])[: len(labels)]
    mask = (np.arange(8) < lengths[:, None]).astype("int32")
    features = {"token_ids": ids, "padding_mask": mask}
    return LengthBuckets(features, labels, 2, [4], shuffle=False)


def logits(classes):
    """Logits whose highest one is that of a class."""
    return np.eye(2)[classes] * 2.0


def test_classes_are_scored_by_scikit_learn():
    labels = np.array([0, 0, 0, 1, 1, 1, 1, 1])
    guessed = np.array([0, 0, 1, 1, 1, 1, 0, 0])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    scorer = Fixed(logits(guessed), loss)
    found = objectives.OBJECTIVES["matthews"].evaluate(scorer, batches(labels))
    assert {*found} == {"score", "loss", "matthews", "accuracy"}
    expected = published.matthews_corrcoef(labels, guessed)
    assert found["score"] == found["matthews"] == pytest.approx(expected)
    assert found["score"] == pytest.approx(4 / np.sqrt(240))
    assert found["accuracy"] == 5 / 8
    right, wrong = np.log(1 + np.exp([-2, 2]))
    assert found["loss"] == pytest.approx((5 * right + 3 * wrong) / 8)
    found = objectives.OBJECTIVES["f1"].evaluate(scorer, batches(labels))
    expected = published.f1_score(labels, guessed)
    assert found["score"] == found["f1"] == pytest.approx(expected)
    assert found["score"] == pytest.approx(2 / 3)
    assert found["accuracy"] == 5 / 8


def test_scores_are_scored_by_scipy():
    labels = np.array([0, 1, 2, 5], "float32")
    guessed = np.array([2, 1, 3, 4], "float32")
    scorer = Fixed(guessed[:, None], keras.losses.MeanSquaredError())
    found = objectives.OBJECTIVES["pearson"].evaluate(scorer, batches(labels))
    assert {*found} == {"score", "loss", "pearson", "spearman"}
    expected = stats.pearsonr(*np.array([labels, guessed], "float64")).statistic
    assert found["score"] == found["pearson"] == pytest.approx(expected)
    assert found["score"] == pytest.approx(7 / np.sqrt(70))
    assert found["spearman"] == pytest.approx(4 / 5)
    assert found["loss"] == pytest.approx((4 + 0 + 1 + 1) / 4)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", FIGURES)
def test_a_model_that_always_says_the_same_has_a_score_of_0(name):
    if name == "pearson":
        scorer = Fixed([[2.0]] * 4, keras.losses.MeanSquaredError())
    else:
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        scorer = Fixed([[1.0, 0.0]] * 4, loss)
    labels = np.array([0, 1, 1, 0])
    found = objectives.OBJECTIVES[name].evaluate(scorer, batches(labels))
    assert found["score"] == 0


def prepared(names):
    rng = np.random.default_rng(0)

    def split(count):
        ids = rng.integers(1, 9, (count, 8))
        # What is to be learnt: the share of tokens above 4.
        labels = (ids > 4).mean(axis=1)
        return {
            "token_ids": ids,
            "padding_mask": (
                np.arange(8) < rng.integers(3, 9, (count, 1))
            ).astype("int32"),
            "labels": (
                (labels > 0.5).astype("int32")
                if names
                else (5 * labels).astype("float32")
            ),
        }

    notes = {"class_names": names, "vocabulary_size": 9}
    return objectives.Prepared(*map(split, (64, 24, 30)), notes)


def trained(name, folder, monkeypatch):
    task = tasks.TASKS["reviews"]._replace(
        objective=objectives.OBJECTIVES[name]
    )
    monkeypatch.setitem(tasks.TASKS, "reviews", task)
    names = [] if name == "pearson" else ["a", "b"]
    monkeypatch.setattr(worker.prepare, "read", lambda path: prepared(names))
    run = grid.Run("R", 2, 0, BACKEND)
    paths = jobs.Jobs(SETTINGS, "x", name, folder).paths(run)
    events = []
    return worker.train(SETTINGS, run, paths, events.append), events


@slow_but_on("torch")
def test_figures_of_all_predictions_leave_training_as_it_is(
    tmp_path, monkeypatch
):
    """Score by score, Keras' own evaluation is the reference."""
    plain, _ = trained("accuracy", tmp_path, monkeypatch)
    assert "metrics" not in plain
    for name in ("matthews", "f1"):
        found, events = trained(name, tmp_path, monkeypatch)
        assert found["losses"] == pytest.approx(plain["losses"], rel=1e-5)
        for loss in ("test_loss", "validation_losses"):
            assert found[loss] == pytest.approx(plain[loss], rel=1e-5)
        assert tuple(found["metrics"]) == FIGURES[name]
        assert found["metrics"][name] == found["score"]
        expected = pytest.approx(plain["score"], abs=1e-6)
        assert found["metrics"]["accuracy"] == expected
        scores = [event["score"] for event in events if "score" in event]
        assert scores == found["validation_scores"]
        assert found["classes"] == ["a", "b"]


@slow_but_on("torch")
def test_scores_are_learnt(tmp_path, monkeypatch):
    found, _ = trained("pearson", tmp_path, monkeypatch)
    assert tuple(found["metrics"]) == FIGURES["pearson"]
    assert found["metrics"]["pearson"] == found["score"]
    assert -1 < found["score"] < 1
    assert found["validation_losses"][1] < found["validation_losses"][0]
    assert "classes" not in found
    wanted = grid.Run("R", 2, 0, BACKEND)
    objective = objectives.OBJECTIVES["pearson"]
    model = objective.build(SETTINGS, wanted, prepared([]), 10)
    assert isinstance(model.loss, keras.losses.MeanSquaredError)
    assert model.output.shape == (None, 1)


def test_a_results_table_has_a_column_for_each_figure(tmp_path):
    row = {
        "key": {"settings": {"task": "stsb"}, "variant": "R", "seed": 0},
        "score": 0.25,
        "metrics": {"pearson": 0.25, "spearman": 0.125},
        "validation_scores": [0.5],
    }
    row.update(dict.fromkeys({*report.COLUMNS} - {*row, *report.OF_WRITING}))
    row["key"].update(num_heads=2, backend="jax")
    objective = tasks.TASKS["stsb"].objective
    report.write_csv([row], objective.score, tmp_path / "results.csv")
    with open(tmp_path / "results.csv", newline="") as file:
        (line,) = csv.DictReader(file)
    assert [*line][-2:] == ["pearson", "spearman"]
    assert (line["score"], line["spearman"]) == ("0.25", "0.125")
    assert line["score_name"] == "Pearson correlation"


def test_the_scores_of_glue_are_those_it_reports():
    names = {
        name: tasks.TASKS[name].objective.score.name
        for name in ("sst2", "cola", "rte", "wnli", "mrpc", "stsb", "scitail")
    }
    assert names == {
        "sst2": "accuracy",
        "cola": "Matthews correlation",
        "rte": "accuracy",
        "wnli": "accuracy",
        "mrpc": "F1",
        "stsb": "Pearson correlation",
        "scitail": "accuracy",
    }


def test_a_tenth_of_the_scores_is_held_out(tmp_path):
    lines = [f"one {i}\ttwo {i}\t{i / 8}" for i in range(40)]
    content = "\n".join(["sentence1\tsentence2\tscore", *lines])
    for name in ("train.tsv", "dev.tsv"):
        (tmp_path / name).write_text(content)
    source = tasks.Source(str(tmp_path))
    some = grid.Settings("stsb", examples=20)
    *splits, names = tasks.load("stsb", source, some)
    assert [len(labels) for _, labels in splits] == [20, 4, 40]
    assert {labels.dtype.name for _, labels in splits} == {"float32"}
    assert names == ()
    for (first, _), labels in splits:
        assert [int(text[4:]) / 8 for text in first] == labels.tolist()


def test_where_a_split_to_validate_on_is_published_nothing_is_held_out(
    tmp_path,
):
    lines = [f"one {i},two {i},{'neutral' if i % 2 else 1}" for i in range(20)]
    content = "\n".join(["premise,hypothesis,label", *lines])
    table = content.replace(",", "\t")
    (tmp_path / "train.tsv").write_text(table)
    (tmp_path / "dev.tsv").write_text("\n".join(table.split("\n")[:7]))
    (tmp_path / "test.csv").write_text("\n".join(content.split("\n")[:4]))
    *splits, names = tasks.load(
        "scitail", tasks.Source(str(tmp_path)), grid.Settings("scitail")
    )
    assert [len(labels) for _, labels in splits] == [20, 6, 3]
    assert splits[1][0][0] == [f"one {i}" for i in range(6)]
    assert names == ("entails", "neutral")

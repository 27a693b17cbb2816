"""Sequence-to-sequence tasks: trained, stopped, written, scored."""

import csv
import json
import shutil

import keras
import numpy as np
import pytest
from backend import slow_but_on
from command_line import BACKEND, kill_after_an_epoch, rows, run_here

from keras_synth import datasets, metrics
from keras_synth.compare import grid, jobs, prepare, tasks, worker
from keras_synth.compare.objectives import Translation, recipes

# Processes, files and arrays: generation itself has tests of its own.
pytestmark = slow_but_on("torch")

SMALL = (
    "--task text_pairs --epochs 3 --num-layers 1 --num-heads 2 "
    "--hidden-dim 32 --intermediate-dim 64 --batch-size 32 --warmup-steps 6 "
    "--sequence-length 26 --lengths --vocabulary-size 500 --variants R "
    "--learning-rate 1e-2"
).split()

SCHEDULES = ("cosine", "inverse_sqrt")


def write_pairs(path, pairs):
    path.write_text("".join(f"{x}\t{y}\n" for x, y in zip(*pairs, strict=True)))
    return str(path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A folder, what was said, and the arguments that say what to do."""
    folder = tmp_path_factory.mktemp("pairs")
    pairs = datasets.generated_translations(640)
    files = [
        write_pairs(folder / name, [side[some] for side in pairs])
        for name, some in (
            ("train.tsv", slice(600)),
            ("test.tsv", slice(600, None)),
        )
    ]
    arguments = [*SMALL, "--data", files[0], "--test-data", files[1]]
    status, out, err = run_here(folder, *arguments)
    assert status == 0, err
    return folder, out, arguments


@pytest.mark.parametrize(
    ("wanted", "steps", "found"),
    [(0, 100, 10), (30, 100, 30), (80, 100, 50), (0, 1, 1)],
)
def test_rates_reach_their_peak_in_time(wanted, steps, found):
    for kind in SCHEDULES:
        settings = Translation.Settings(
            "multi30k", warmup_steps=wanted, schedule=kind, learning_rate=2.0
        )
        schedule = recipes.schedule(settings, steps)
        rates = [float(schedule(step)) for step in range(steps)]
        assert abs(np.argmax(rates) + 1 - found) <= 1  # counted from 0 or 1
        assert max(rates) <= 2.0


def test_schedules_end_as_their_names_say():
    ends = {
        kind: float(
            recipes.schedule(
                Translation.Settings("x", schedule=kind, learning_rate=1.0),
                1000,
            )(1000)
        )
        for kind in SCHEDULES
    }
    assert ends["cosine"] == pytest.approx(0, abs=1e-6)
    # Peaked after 100 steps; InverseSquareRootDecay counts from one.
    assert ends["inverse_sqrt"] == pytest.approx(0.1**0.5, rel=1e-3)


def test_translations_are_written_and_scored(whole):
    folder, out, _ = whole
    assert "Left out" in out
    assert "text_pairs: test BLEU after the last epoch" in out
    (row,) = rows(folder)
    assert len(row["losses"]) == 3 * ((540 - row["dropped"]) // 32)
    assert np.mean(row["losses"][-9:]) < np.mean(row["losses"][:9]) - 0.5
    scores = row["validation_scores"]
    assert 0 < scores[0] < scores[-1] < 1
    assert row["test_loss"] > 0
    assert 0 <= row["score"] <= 100
    assert 0 < row["metrics"]["chrf"] <= 100
    assert row["signature"].count("version:") == 2  # BLEU's, chrF's
    assert "chrf" in (folder / "results.csv").read_text().splitlines()[0]
    assert row["generate_seconds"] > 0
    assert len(row["samples"]) == 10
    for sample in row["samples"]:
        assert set(sample) == {"source", "reference", "written"}
        assert isinstance(sample["written"], str)
    # What only classification has.
    assert "classes" not in row


def test_the_report_calls_the_score_by_its_name(whole):
    folder, *_ = whole
    (row,) = rows(folder)
    with open(folder / "results.csv", newline="") as file:
        (line,) = csv.DictReader(file)
    assert float(line["score"]) == row["score"]
    assert line["score_name"] == "BLEU"
    assert line["signature"] == row["signature"]
    heading, _, cells, *_, last = (
        (folder / "results.md").read_text().splitlines()
    )
    assert "| test BLEU | validation token accuracy of each seed" in heading
    first = row["validation_scores"][0]
    assert f"| {row['score']:.2f} | {100 * first:.1f} " in cells
    assert last == f"`{row['signature']}`"
    assert (folder / "curves.png").stat().st_size > 10_000


@pytest.mark.slow
def test_a_run_goes_on_whether_killed_in_training_or_in_writing(
    whole, tmp_path
):
    """Killed after an epoch; stopped while it writes; then left alone."""
    (expected,) = rows(whole[0])
    folder = tmp_path / "killed"
    shutil.copytree(whole[0] / "data", folder / "data")
    kill_after_an_epoch(folder, *whole[2])
    key = expected["key"]
    settings = Translation.Settings.from_json(key["settings"])
    (data,) = (folder / "data").glob("*.npz")
    found = jobs.Jobs(settings, data, key["data"], folder)
    wanted = grid.Run("R", 2, 0, BACKEND)
    assert found.key(wanted) == key
    told = []

    def tell(event):
        told.append(event)
        if "note" in event:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        worker.train(settings, wanted, found.paths(wanted), tell)
    assert 0 < sum("score" in event for event in told) < 3
    told.clear()
    # Nothing is left to train: the model only writes.
    result = worker.train(settings, wanted, found.paths(wanted), told.append)
    assert not any("loss" in event or "score" in event for event in told)
    # Backends may add in another order, and only the first epoch is surely
    # from before the kill; the curves agree to what five digits show.
    np.testing.assert_allclose(result["losses"], expected["losses"], atol=5e-4)
    name = "validation_scores"
    np.testing.assert_allclose(result[name], expected[name], atol=2e-3)
    assert result["score"] == pytest.approx(expected["score"], abs=0.5)


def prepared(task, path, **options):
    """What a task's kind makes of files, without TensorFlow's pipelines."""
    settings = Translation.Settings(
        task, **{"sequence_length": 16, "vocabulary_size": 300, **options}
    )
    examples = tasks.load(task, tasks.Source(str(path)), settings)

    def preprocess(preprocessor, splits):
        for inputs in splits:
            made = preprocessor(*inputs)
            yield keras.tree.map_structure(keras.ops.convert_to_numpy, made)

    objective = tasks.TASKS[task].objective
    return objective.prepare(examples, settings, preprocess, print)


def test_long_pairs_are_trained_on_only_if_they_fit(tmp_path):
    """To the token; and those to test on are cut, not left out."""
    path = tmp_path / "pairs.tsv"
    # Letters that follow no rule: about a token each.
    letters = np.random.default_rng(0).choice(list("abcdefgh"), (40, 30))
    sources = [" ".join(x[: 1 + i % 20]) for i, x in enumerate(letters)]
    targets = [" ".join(x[: 20 - i % 20]) for i, x in enumerate(letters)]
    write_pairs(path, (sources, targets))
    found = prepared("text_pairs", path)
    for side in ("encoder", "decoder"):
        assert found.train[f"{side}_token_ids"].shape[1] == 16
        assert found.test[f"{side}_token_ids"].shape[1] == 16
    count, *others = (len(split["labels"]) for split in found[:3])
    assert [count + found.notes["dropped"], *others] == [32, 4, 4]
    assert found.notes["dropped"] > 0
    # Nothing is cut: each has its end.
    end = found.notes["vocabulary"].index("</s>")
    assert (found.train["labels"] == end).sum() == count
    assert (found.train["encoder_token_ids"] == end).sum() == count
    sources, references = json.loads(found.test["texts"].tobytes())
    assert len(sources) == len(references) == len(found.test["labels"])
    with pytest.raises(ValueError, match="larger one"):
        prepared("text_pairs", path, sequence_length=2)


def test_copies_of_a_source_are_on_one_side(tmp_path):
    path = tmp_path / "pairs.tsv"
    sources = [f"one {i // 3}" for i in range(90)]
    write_pairs(path, (sources, [f"uno {i}" for i in range(90)]))
    source = tasks.Source(str(path))
    settings = Translation.Settings("text_pairs")
    splits = tasks.load("text_pairs", source, settings)
    train, *held_out = splits
    assert [len(split[0]) for split in splits] == [72, 9, 9]
    assert len({x for split in splits for x in {*split[0]}}) == 30
    assert tasks.load("text_pairs", source, settings) == splits
    some = Translation.Settings("text_pairs", examples=20)
    (sources, targets), *others = tasks.load("text_pairs", source, some)
    assert len(sources) == len(targets) == 20
    assert set(zip(sources, targets, strict=True)) <= set(
        zip(*train, strict=True)
    )
    assert others == held_out
    both = tasks.Source(str(path), str(path))
    train, validation, test = tasks.load("text_pairs", both, settings)
    assert [len(x[0]) for x in (train, validation, test)] == [81, 9, 90]


def test_the_test_set_does_not_depend_on_the_number_of_examples():
    load = tasks.TASKS["translations"].load
    few, many = (
        load(tasks.Source(), Translation.Settings("translations", examples=n))
        for n in (10, 20)
    )
    assert few[1:] == many[1:]
    assert few[0][0] == many[0][0][:10]
    assert [len(split[0]) for split in many] == [20, 500, 500]
    assert len({x for split in many for x in split[0]}) == 1020


def test_the_best_of_several_references_counts():
    written = ["a dog runs", "nothing of it"]
    references = [["two cats sleep", "a dog runs"], ["a b c", "d e f"]]
    score, signature = metrics.rouge_l(written, references)
    assert score == pytest.approx(50)
    assert "stemmer" in signature
    same = [["a b c d e f"], ["g h i j k"]]
    score, signature = metrics.bleu([texts[0] for texts in same], same)
    assert score == pytest.approx(100)
    assert "nrefs:1" in signature


def test_summaries_keep_all_their_references(tmp_path):
    for name, keys in (("dev", ["summary"]), ("test", ["summary1"])):
        keys = keys if name == "dev" else [f"summary{i}" for i in (1, 2, 3)]
        lines = [
            json.dumps(
                {"dialogue": f"#Person1#: {i}"}
                | {key: f"{key} of {i}" for key in keys}
            )
            for i in range(8)
        ]
        path = tmp_path / f"dialogsum.{name}.jsonl"
        path.write_text("\n".join(lines))
    found = prepared("dialogsum", tmp_path, sequence_length=48)
    _, references = json.loads(found.test["texts"].tobytes())
    assert [len(texts) for texts in references] == [3] * 8
    assert tasks.TASKS["dialogsum"].objective.score.name == "ROUGE-L"


def test_a_missing_package_is_named_before_anything_is_done(tmp_path):
    class Odd(Translation):
        def __init__(self):
            super().__init__()
            self.packages = ("no_such_package",)

    task = tasks.TASKS["translations"]._replace(objective=Odd())
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(tasks.TASKS, "translations", task)
        settings = Translation.Settings("translations")
        with pytest.raises(ImportError, match=r"keras-synth\[compare\]"):
            prepare.prepare(settings, tasks.Source(), tmp_path)

"""Each task of `keras-synth compare`, small, from data to a report."""

import json

import numpy as np
import pytest
from comparing import SMALL, results, run

from keras_synth import datasets, models
from keras_synth.compare import data, start
from keras_synth.compare.tasks import TASKS

CASES = {
    "classification": "--examples 64 --sequence-length 16 --metric matthews",
    "pairs": "--examples 64 --sequence-length 16",
    "tagging": "--examples 64 --sequence-length 16 --lengths 8",
    "translation": "--examples 64 --sequence-length 64 --lengths 48 "
    "--vocabulary-size 300",
    "language_model": "--examples 64 --sequence-length 16",
    "masked_lm": "--examples 64 --sequence-length 16 --vocabulary-size 300",
    "span_corruption": "--examples 64 --sequence-length 32 "
    "--vocabulary-size 400",
    "listops": "--examples 64 --sequence-length 20 --lengths 12",
    "byte_text": "--examples 64 --sequence-length 32 --lengths",
}


@pytest.mark.parametrize("task", CASES)
def test_a_task_is_trained_scored_and_reported(task, tmp_path, monkeypatch):
    monkeypatch.setattr(data, "HELD_OUT", 40)
    status, out, err = run(
        *("compare", "--task", task, *SMALL, *CASES[task].split()),
        *("--variants", "V", "--output", tmp_path),
    )
    assert status == 0, err
    (result,) = results(tmp_path)
    assert np.isfinite(result["result"]["score"])
    assert np.isfinite(result["baseline"]["score"])
    history = result["result"]["history"]
    assert len(history["loss"]) == len(history["val_loss"]) == 2
    assert result["result"]["losses"][-1][0] == 2 * len_of_epoch(result)
    assert result["result"]["parameters"] > 0
    assert f"({result['baseline']['name']})" in out
    page = (tmp_path / "report.html").read_text()
    assert "<svg" in page
    assert task in page
    if TASKS[task].keeps:
        (preset,) = tmp_path.glob("presets/*")
        assert (preset / "model.weights.h5").is_file()
        assert "keras_synth" in (preset / "README.md").read_text()


def len_of_epoch(result):
    steps = result["result"]["losses"][-1][0]
    return steps // len(result["result"]["history"]["loss"])


@pytest.mark.parametrize("tokens", ["bytes", "subwords"])
def test_a_language_model_can_read_bytes_or_byte_pairs(tokens, tmp_path):
    text = tmp_path / "a.txt"
    text.write_text("to be or not to be that is the question\n" * 80)
    status, _, err = run(
        *("compare", "--task", "language_model", "--data", text, *SMALL),
        *("--tokens", tokens, "--vocabulary-size", "270", "--variants", "R"),
        *("--sequence-length", "16", "--output", tmp_path / "out"),
    )
    assert status == 0, err
    (result,) = results(tmp_path / "out")
    names = {"bytes": "bits per byte", "subwords": "perplexity per word"}
    assert result["score"]["name"] == names[tokens]


def test_scores_of_pairs_are_correlated(tmp_path):
    path = tmp_path / "a.tsv"
    rows = [f"a {i}\tb {i % 7}\t{i % 5}.5" for i in range(80)]
    path.write_text("sentence1\tsentence2\tscore\n" + "\n".join(rows) + "\n")
    status, out, err = run(
        *("compare", "--task", "scores", "--data", path, *SMALL),
        *("--variants", "R", "--output", tmp_path / "out"),
        *"--sequence-length 16 --lengths --vocabulary-size 100".split(),
    )
    assert status == 0, err
    assert -1 <= results(tmp_path / "out")[0]["result"]["spearman"] <= 1
    assert "Pearson correlation" in out


def test_summaries_are_compared_with_several_references(tmp_path):
    lines = [
        {"dialogue": f"a {i} b", "one": f"c {i}", "two": f"d {i}"}
        for i in range(60)
    ]
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    status, _, err = run(
        *("compare", "--task", "summaries", "--data", path, *SMALL),
        *("--test-data", path, "--text", "dialogue", "--label", "one", "two"),
        *"--sequence-length 12 --lengths --vocabulary-size 262".split(),
        *("--variants", "R", "--output", tmp_path / "out"),
    )
    assert status == 0, err
    (result,) = results(tmp_path / "out")
    assert "rouge_score" in result["result"]["signature"]
    assert 0 <= result["result"]["score"] <= 100


@pytest.mark.once
@pytest.mark.parametrize(
    "generator",
    [
        datasets.generated_reviews,
        datasets.generated_pairs,
        datasets.generated_entities,
    ],
)
def test_generated_examples_are_only_in_one_split(generator):
    splits = data.generated(generator, 6_000)
    train, validation, test = (set(data.texts_of(x)) for x in splits)
    assert len(splits[0][1]) == 6_000
    assert not train & test
    assert not train & validation
    assert not validation & test
    other = data.generated(generator, 100)
    assert other[2][0] == splits[2][0]


@pytest.mark.once
def test_labels_that_were_not_trained_on_are_an_error(tmp_path):
    one, two = tmp_path / "a.csv", tmp_path / "b.csv"
    one.write_text("text,label\n" + "a,yes\nb,no\nc,yes\nd,no\n" * 9)
    two.write_text("text,label\na,maybe\n")
    status, _, err = run(
        *("compare", "--data", one, "--test-data", two, "--variants", "R"),
        *("--output", tmp_path / "out"),
    )
    assert status == 2
    assert "'maybe'" in err
    assert "Traceback" not in err


def test_a_preset_is_where_other_runs_start(tmp_path):
    """Of its own weights or random ones, and known by its content."""
    text = tmp_path / "a.txt"
    lines, _ = datasets.generated_reviews(100)
    text.write_text("\n".join(lines))
    known = [*SMALL[:6], "--batch-size", "16", "--epochs", "1"]
    first = tmp_path / "pretrained"
    status, _, err = run(
        *("compare", "--task", "masked_lm", "--data", text, *known),
        *("--variants", "V", "R", "--sequence-length", "32"),
        *("--vocabulary-size", "200", "--output", first),
    )
    assert status == 0, err
    common = ["compare", "--examples", "48", "--sequence-length", "32"]
    common += ["--lengths", "--batch-size", "16", "--epochs", "1"]
    common += ["--variants", "V", "R", "--init", first]
    out = tmp_path / "out"
    assert run(*common, "--output", out)[0] == 0
    status, _, err = run(
        *(*common, "--init-weights", "random", "--output", out)
    )
    assert status == 0, err
    assert len(results(out)) == 4
    assert len({x["start"] for x in results(out)}) == 2
    preset = start.preset_of(first, "R", 0)
    backbone = models.SynthesizerBackbone.from_preset(str(preset))
    assert backbone.num_layers == 1
    status, _, err = run(*common[:-3], "D", "--init", first, "--output", out)
    assert status == 2
    assert "No preset in --init is for the variant" in err
    # Another preset at the same path is another start.
    weights = preset / "model.weights.h5"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    sizes = {"sequence_length": 32}
    digest = start.check(first, ["R"], [0], sizes)["R", 0]
    assert digest not in {x["start"] for x in results(out)}


@pytest.mark.parametrize("options", [[], ["--variant", "fnet"]])
def test_train_saves_a_preset_that_reads_strings(options, tmp_path):
    status, _, err = run(
        *("train", "--examples", "64", "--sequence-length", "16", *SMALL),
        *("--lengths", *options, "--output", tmp_path),
    )
    assert status == 0, err
    classifier = models.SynthesizerTextClassifier.from_preset(
        str(tmp_path / "preset")
    )
    assert classifier.predict(["The plot was dull."], verbose=0).shape == (1, 2)
    card = (tmp_path / "preset" / "README.md").read_text()
    assert "SynthesizerTextClassifier.from_preset" in card


@pytest.mark.once
def test_generated_pairs_stay_in_fours():
    """Each sentence, with few exceptions, has both labels equally often."""
    ((firsts, _), labels), _, _ = data.generated(
        datasets.generated_pairs, 4_000
    )
    assert abs(labels.mean() - 0.5) < 0.005
    seen = {}
    for sentence, label in zip(firsts, labels.tolist(), strict=True):
        seen.setdefault(sentence, []).append(label)
    uneven = [x for x in seen.values() if 2 * sum(x) != len(x)]
    assert len(uneven) < 0.02 * len(seen)

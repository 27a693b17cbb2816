"""Each task of `keras-synth compare`, small, from data to a report."""

import json
import time

import numpy as np
import pytest
from commands import SMALL, card, results, run

from keras_synth import datasets, models
from keras_synth.compare import data, start
from keras_synth.compare.files import digest_of_files
from keras_synth.compare.task import with_defaults
from keras_synth.compare.tasks import TASKS

LINE = "to be or not to be that is the question\n"
PAIR_ROWS = [f"a {i}\tb {i % 7}\t{i % 5}.5\n" for i in range(80)]
DIALOGUES = [
    {"dialogue": f"a {i} b", "one": f"c {i}", "two": f"d {i}"}
    for i in range(60)
]
FILES = {
    "a.txt": LINE * 80,
    "a.tsv": "sentence1\tsentence2\tscore\n" + "".join(PAIR_ROWS),
    "a.jsonl": "\n".join(map(json.dumps, DIALOGUES)),
    "b.jsonl": "\n".join(map(json.dumps, DIALOGUES)).replace("one", "three"),
}
WORDS = "--examples 64 --sequence-length 16"
CASES = {  # and words of the result
    f"classification {WORDS} --metric matthews": "Matthews correlation",
    f"pairs {WORDS}": "the majority",
    "scores --data a.tsv --sequence-length 16 --lengths "
    "--vocabulary-size 100": "spearman",
    f"tagging {WORDS} --lengths 8": "accuracy over words",
    "translation --examples 64 --sequence-length 64 --lengths 48 "
    "--vocabulary-size 300": "chrf",
    "summaries --data a.jsonl --test-data b.jsonl --text dialogue "
    "--label one two three --sequence-length 12 --lengths "
    "--vocabulary-size 262": "rouge_score",
    f"language_model {WORDS}": "perplexity per word",
    "language_model --data a.txt --tokens bytes "
    "--sequence-length 16": "bits per byte",
    "language_model --data a.txt --tokens subwords --vocabulary-size 270 "
    "--sequence-length 16": "perplexity per word",
    f"masked_lm {WORDS} --vocabulary-size 300": "frequencies",
    "masked_lm --data a.txt --tokens bytes --sequence-length 16": "frequencies",
    "span_corruption --examples 64 --sequence-length 32 "
    "--vocabulary-size 400": "frequencies",
    "listops --examples 64 --sequence-length 20 --lengths 12": "the majority",
    "byte_text --examples 64 --sequence-length 32 --lengths": "the majority",
}


@pytest.mark.parametrize("words", CASES)
def test_a_task_is_trained_scored_and_reported(words, tmp_path, monkeypatch):
    monkeypatch.setattr(data, "HELD_OUT", 40)
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    task, *options = words.split()
    status, out, err = run(
        *("compare", "--task", task, *SMALL, *options),
        *("--variants", "V", "--output", "out"),
    )
    assert status == 0, err
    (result,) = results(tmp_path / "out")
    assert np.isfinite(result["result"]["score"])
    assert np.isfinite(result["baseline"]["score"])
    history = result["result"]["history"]
    assert len(history["loss"]) == len(history["val_loss"]) == 2
    assert result["result"]["parameters"] > 0
    assert CASES[words] in json.dumps(result)
    assert f"({result['baseline']['name']})" in out
    page = (tmp_path / "out" / "report.html").read_text()
    assert "<svg" in page
    assert task in page
    if TASKS[task].keeps:
        (preset,) = tmp_path.glob("out/presets/*")
        assert (preset / "model.weights.h5").is_file()
        assert "log-perplexity" in card(preset)


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
@pytest.mark.parametrize("held_out", [1, 10])
def test_short_and_long_texts_are_held_out_in_proportion(held_out, tmp_path):
    for i in range(300):
        (tmp_path / f"{i:03}.txt").write_text("a line\n" * (1 + i % 3))
    (tmp_path / "long.txt").write_text("a line\n" * 400)
    parts = data.text_splits(data.Source([tmp_path]), held_out)
    assert [*map(len, parts)] == [1000 - 20 * held_out, *[10 * held_out] * 2]


@pytest.mark.once
def test_labels_that_were_not_trained_on_are_an_error(tmp_path):
    one, two = tmp_path / "a.csv", tmp_path / "b.csv"
    rows = "a,1\nb,0\nc,1\nd,0\n" * 9
    two.write_text("text,label\na,1\nb,maybe\n")
    command = "compare", "--data", one, "--variants", "R"
    command = *command, "--output", tmp_path / "out"
    for _ in range(2):  # with numbers, with names
        one.write_text("text,label\n" + rows)
        status, _, err = run(*command, "--test-data", two)
        assert status == 2
        assert "Received: 'maybe'" in err
        rows = rows.replace("1", "yes").replace("0", "no")
        two.write_text(two.read_text().replace("1", "yes"))
    rows = "".join(f"text {i},{i % 3}\n" for i in range(60))
    one.write_text(f"text,label\n{rows}")
    settings = {"sequence_length": 16}
    prepare("classification", settings, one, tmp_path)  # of another metric
    with pytest.raises(ValueError, match="f1 needs two classes"):
        prepare("classification", {**settings, "metric": "f1"}, one, tmp_path)
    status, _, err = run(*command, "--metric", "f1")
    assert status == 2
    assert "f1 needs two classes" in err


def prepare(task, settings, file, folder, **options):
    """Prepared arrays of a task, with the settings of a command."""
    settings = with_defaults(TASKS[task], settings)
    source = data.Source([file], options=options)
    path = data.prepare(TASKS[task], settings, source, folder, print)
    return data.read_arrays(path)


@pytest.mark.once
def test_arrays_of_other_shapes_and_dtypes_are_other_data(
    tmp_path, monkeypatch
):
    x, found = np.zeros((2, 3)), []
    for other in (x, x.T, x.astype("int64"), x):
        data.write_arrays(tmp_path / "a.npz", [{"x": other}] * 3, {})
        found.append(digest_of_files([tmp_path / "a.npz"]))
        monkeypatch.setattr(time, "time", lambda: 2e9)  # of no effect
    assert len({*found}) == 3
    assert found[0] == found[3]


def test_numbers_are_translated_as_texts(tmp_path):
    file = tmp_path / "a.csv"
    rows = [f"{i} plus 1,0{i + 1}\n" for i in range(60)]
    file.write_text("text,label\n" + "".join(rows))
    settings = {"sequence_length": 8, "vocabulary_size": 300}
    notes = prepare("translation", settings, file, tmp_path).notes
    assert {x[0] for (x,) in notes["references"]} == {"0"}


def test_a_preset_is_where_other_runs_start(tmp_path):
    """Of its own weights or random ones, and known by its content."""
    text = tmp_path / "a.txt"
    lines, _ = datasets.generated_reviews(100)
    text.write_text("\n".join([*lines, "\u200b"]))  # a line without tokens
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
    assert "--init must have a preset of each variant" in err
    status, _, err = run(*common, "--num-layers", "7", "--output", out)
    assert status == 2
    assert "--num-layers, which is 1. Leave it out." in err
    # One of a class that this process does not know is for another variant.
    config = preset / "config.json"
    own = first / "presets" / "A-own-seed0-jax" / "config.json"
    own.parent.mkdir()
    own.write_text(config.read_text().replace('"R"', '"mine"'))
    assert '"mine"' in own.read_text()
    assert start.preset_of(first, "R", 0) == preset
    # Another preset at the same path is another start.
    weights = preset / "model.weights.h5"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    sizes = {"sequence_length": 32}
    digest = start.check(first, {"R": "R"}, [0], sizes)["R", 0]
    assert digest not in {x["start"] for x in results(out)}


@pytest.mark.parametrize("options", [[], ["--variant", "fnet"]])
def test_train_saves_a_preset_that_reads_strings(
    options, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    status, _, err = run(
        *("train", "--examples", "64", "--sequence-length", "16", *SMALL),
        *("--lengths", *options, "--output", tmp_path),
    )
    assert status == 0, err
    classifier = models.SynthesizerTextClassifier.from_preset(
        str(tmp_path / "preset")
    )
    assert classifier.predict(["The plot was dull."], verbose=0).shape == (1, 2)
    text = card(tmp_path / "preset")
    assert 'SynthesizerTextClassifier.from_preset("preset")' in text
    (result,) = results(tmp_path)
    assert f"accuracy {100 * result['result']['score']:.2f}%" in text
    assert str(tmp_path) not in text.replace(result["command"], "")
    assert "init" not in text


@pytest.mark.once
def test_the_card_of_a_translator_writes_as_the_score_did(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    status, _, err = run(
        *("train", "--task", "translation", "--examples", "64", *SMALL),
        *("--sequence-length", "32", "--output", tmp_path),
    )
    assert status == 0, err
    code = card(tmp_path / "preset").partition("from_preset")[2]
    compiled, written = code.index('(sampler="greedy")'), code.index("print")
    assert compiled < written


@pytest.mark.once
def test_a_preset_replaces_that_of_another_variant(tmp_path):
    words = ["train", "--examples", "48", "--sequence-length", "16", *SMALL]
    words += ["--lengths", "--output", tmp_path]
    for variant, more in {"R": [], "V": [], "R ": ["--resume"]}.items():
        status, _, err = run(*words, "--variant", variant.strip(), *more)
        assert status == 0, err
        config = json.loads((tmp_path / "preset/config.json").read_text())
        assert config["config"]["synthesizer"] == variant.strip()
        text = (tmp_path / "preset/README.md").read_text()
        assert f"attention '{variant.strip()}'" in text
    assert len(results(tmp_path)) == 2
    assert not [*tmp_path.glob(".preset*")]


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

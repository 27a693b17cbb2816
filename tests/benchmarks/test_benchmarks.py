"""The benchmarks run, continue where they stopped, and check arguments."""

import csv
import itertools
import sys

import keras
import pytest
import small_tasks
from places import ROOT
from scripts import run_script

FOLDER = ROOT / "benchmarks"
sys.path.append(str(FOLDER))

import measuring  # noqa: E402

# They compile much; other tests check the measured code.
FIELDS = ["name", "value", "note"]
BACKEND = keras.backend.backend()
SMALL = "--hidden-dim 8 --num-heads 2".split()
BLOCK = [*SMALL, *"--sequence-length 8 --num-layers 1".split()]


def script(name, *arguments, status=0):
    done = run_script(FOLDER / name, *arguments)
    assert done.returncode == status, done.stdout + done.stderr
    return done


def layers(output, *arguments, masks="plain"):
    own = "--lengths 8 --tokens 16 --rounds 2 --variants".split()
    own += ["MultiHeadAttention", "R", "D+V", "floor of R", "--masks", masks]
    return script("layers.py", *SMALL, *own, "--output", output, *arguments)


def rows_of(folder, pattern="*.csv"):
    (path,) = folder.glob(pattern)
    with open(path) as file:
        return list(csv.DictReader(file))


def table(said):
    """The cells of a Markdown table's rows."""
    lines = [line for line in said.splitlines() if line.startswith("| ")]
    return [[x.strip() for x in line.strip("|").split("|")] for line in lines][
        2:
    ]


def test_records_are_found_again(tmp_path):
    records = measuring.Records(tmp_path / "a.csv", FIELDS, ["name"])
    records.append({"name": "R", "value": 1})
    again = measuring.Records(tmp_path / "a.csv", FIELDS, ["name"])
    assert {"name": "R"} in again
    assert {"name": "V"} not in again


def test_half_a_row_is_dropped_and_said(tmp_path, capsys):
    path = tmp_path / "a.csv"
    path.write_text("name,value,note\nR,1,\nV,2")
    records = measuring.Records(path, FIELDS, ["name"])
    assert [row["name"] for row in records.rows] == ["R"]
    assert "incomplete" in capsys.readouterr().out
    records.append({"name": "V", "value": 3})
    assert path.read_text() == "name,value,note\nR,1,\nV,3,\n"


def test_a_file_of_another_version_does_not_change(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("name,other\nR,1\n")
    with pytest.raises(SystemExit, match=r"other columns.*--output"):
        measuring.Records(path, FIELDS, ["name"])
    assert path.read_text() == "name,other\nR,1\n"


def test_timings_are_interleaved():
    calls = []
    steps = {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}
    timings = measuring.interleaved(steps, rounds=3)
    assert set(timings) == {"a", "b"}
    # a repeats within its slice; between two slices of it there is one of b.
    switches = sum(x != y for x, y in itertools.pairwise(calls))
    assert switches >= 4


@pytest.mark.parametrize("mask", ["causal", "padded"])
def test_layers(tmp_path, mask):
    done = layers(tmp_path, masks=mask)
    rows = rows_of(tmp_path)
    assert len(rows) == 8  # four variants, two modes
    assert all(float(row["value"]) > 0 for row in rows)
    for row in table(done.stdout):
        is_first = row[0] == "MultiHeadAttention"
        assert row[1].endswith(" ms") == is_first


def test_layers_go_on(tmp_path):
    stopped = layers(tmp_path, "--modes", "inference", "--minutes", "0")
    assert "1 of 1 cells are left" in stopped.stderr
    layers(tmp_path, "--modes", "inference")
    before = rows_of(tmp_path)
    layers(tmp_path, "--modes", "inference")
    assert rows_of(tmp_path) == before
    shown = layers(tmp_path, "--markdown").stdout
    assert "plain, T 8, B 2" in shown
    assert rows_of(tmp_path) == before


@pytest.mark.slow
def test_layers_measure_memory(tmp_path):
    done = layers(tmp_path, "--modes", "training", "--memory")
    rows = rows_of(tmp_path)
    assert [row["measure"] for row in rows] == ["bytes"] * 4
    assert all(int(row["value"]) > 0 for row in rows)
    assert "MiB" in done.stdout


@pytest.mark.slow
def test_growth_continues_where_it_stopped(tmp_path):
    arguments = [*SMALL, "--modes", "inference"]
    arguments += ["--variants", "linear", "big_bird", "--output", tmp_path]
    script("growth.py", "--lengths", "16", "128", *arguments)
    rows = rows_of(tmp_path)
    found = {(r["mixer"], r["length"]): r for r in rows}
    assert float(found["linear", "128"]["seconds"]) > 0
    assert int(found["linear", "128"]["bytes"]) >= 0
    # Its blocks do not fit; the reason is in its row.
    assert "beyond max_length=16" in found["big_bird", "16"]["note"]
    again = script("growth.py", "--lengths", "16", "64", "128", *arguments)
    assert "T 64" in again.stdout
    more = rows_of(tmp_path)
    assert more[: len(rows)] == rows
    assert len(more) == len(rows) + 2


def test_training(tmp_path):
    shape = "--batch-size 2 --sequence-length 8 --block-batch 1"
    shape += " --block-length 8 --rounds 2 --steps 1 --variants V R --output"
    done = script("training.py", *shape.split(), tmp_path)
    rows = rows_of(tmp_path)
    assert [row["model"] for row in rows] == ["classifier"] * 2 + ["blocks"] * 2
    ratios = [row[3] for row in table(done.stdout) if row[0] == "V"]
    assert ratios == ["1.00", "1.00"]


@pytest.mark.slow
def test_first_steps_are_compared_and_kept(tmp_path):
    shape = [*BLOCK, "--batch-size", "2", "--rounds", "1", "--output", tmp_path]
    shape += ["--variants", "R", "BertBackbone"]
    for _ in range(2):  # the second time it only reads
        done = script("first_step.py", *shape)
        assert "over BertBackbone" in done.stdout
        rows = rows_of(tmp_path)
        assert [row["variant"] for row in rows] == ["R", "BertBackbone"]
        assert all(float(row["first"]) > float(row["second"]) for row in rows)


def test_generation():
    shape = [*SMALL, *"--lengths 20 --num-layers 1 --batch-size 2".split()]
    own = [*shape, *"--rounds 2 --clock processor".split()]
    rows = table(script("generation.py", "R", *own).stdout)
    assert [row[0] for row in rows] == ["GPT2CausalLM", "R"]
    assert rows[0][2] == "1.00"


def test_caches_have_the_sizes_that_their_record_has():
    shape = "--caches --num-layers 2 --batch-size 32 --lengths 512"
    done = script("generation.py", "R", "D+V", *shape.split())
    assert table(done.stdout) == [
        ["TransformerDecoder", "128.00"],
        ["R", "64.00"],  # no keys
        ["D+V", "128.00"],
    ]


def test_serving():
    rows = table(script("serving.py", "FR", *BLOCK, "--rounds", "2").stdout)
    forms = ["float32", "folded", "int8", "folded, int8"]
    assert [row[:2] for row in rows] == [["FR", form] for form in forms]
    sizes, differences = ([float(row[i]) for row in rows] for i in (4, 5))
    assert sizes[2] < 0.6 * sizes[0]
    assert differences[0] == 0
    assert differences[1] < 1e-6 < differences[2] < 0.1


def test_serving_has_the_accuracy_of_presets(tmp_path):
    folder = tmp_path / "SST-2"
    folder.mkdir()
    lines = ["sentence\tlabel", *["good plot\t1"] * 3, "a dull plot\t0"]
    (folder / "dev.tsv").write_text("\n".join(lines) + "\n")
    classifier = small_tasks.task("classifier", "R")
    output = classifier.get_layer("logits")
    output.kernel.assign(0 * output.kernel)
    output.bias.assign([0.0, 1.0])
    classifier.save_to_preset(tmp_path / "always_good")
    wanted = ["--presets", tmp_path / "always_good", "--data", folder]
    wanted += ["--forms", "float32", "int8", "--rounds", "2"]
    rows = table(script("serving.py", *BLOCK, *wanted).stdout)
    forms = ("float32", "int8")
    assert [[row[0], row[1], row[-1]] for row in rows] == [
        ["always_good", form, "75.0"] for form in forms
    ]


@pytest.mark.skipif(BACKEND != "torch", reason="packages for PyTorch")
def test_published_packages_that_are_missing_are_named():
    done = script("published.py", *BLOCK[:6], "--rounds", "1")
    measured = [row[1] for row in table(done.stdout)]
    for name in ("local-attention", "performer-pytorch", "linformer"):
        assert name in measured or f"{name} is left out" in done.stderr


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["layers.py", "--variants", "Q"], "unknown variant 'Q'"),
        (["layers.py", "--masks", "paded"], "invalid choice: 'paded'"),
        (["growth.py", "--variants", "Q"], "unknown variant 'Q'"),
        (["training.py", "--variants", "Q"], "unknown variant 'Q'"),
        (["overhead.py", "--variants", "Q"], "unknown variant 'Q'"),
        (["generation.py", "Q"], "Unknown synthesizer 'Q'"),
        (["generation.py", "--lengths", "16"], "the prompt's 16 tokens"),
        (["serving.py", "Q"], "Unknown synthesizer 'Q'"),
        (["serving.py", "--presets", "nowhere"], "Received: nowhere"),
        (["serving.py", "--data", "SST-2"], "name some with --presets"),
        (["cheaper.py", "scores"], "scores need --model and --data"),
    ],
)
def test_wrong_arguments_are_errors(arguments, words):
    assert words in script(*arguments, status=2).stderr


def test_a_folder_that_is_not_a_checkout_is_an_error(tmp_path):
    done = script("checkouts.py", tmp_path, status=1)
    assert "is not a checkout of keras_synth" in done.stderr

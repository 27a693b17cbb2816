"""The benchmarks run, continue where they stopped, and check arguments."""

import itertools
import json

import measuring
import pytest
import small_tasks
from places import ROOT
from scripts import run_script

FOLDER = ROOT / "benchmarks"
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


def rows_of(folder):
    (path,) = folder.glob("*.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def table(said):
    """The cells of a Markdown table's rows."""
    lines = [line for line in said.splitlines() if line.startswith("| ")]
    return [[x.strip() for x in line.strip("|").split("|")] for line in lines][
        2:
    ]


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
    assert all(row["value"] > 0 for row in rows)
    for row in table(done.stdout):
        is_first = row[0] == "MultiHeadAttention"
        assert row[1].endswith(" ms") == is_first


def test_a_row_that_a_kill_cut_off_is_written_again(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"name": "R", "value": 1}\n{"name": "V", "va')
    measuring.Records(path, ["name"]).append({"name": "V", "value": 2})
    rows = measuring.Records(path).rows
    assert [(row["name"], row["value"]) for row in rows] == [("R", 1), ("V", 2)]


def test_layers_go_on(tmp_path):
    stopped = layers(tmp_path, "--modes", "inference", "--minutes", "0")
    assert "Cells are left" in stopped.stderr
    assert not [*tmp_path.iterdir()]
    layers(tmp_path, "--modes", "inference")
    before = rows_of(tmp_path)
    layers(tmp_path, "--modes", "inference")
    assert rows_of(tmp_path) == before
    shown = layers(tmp_path, "--report").stdout
    assert "plain, T 8, B 2" in shown
    assert rows_of(tmp_path) == before


@pytest.mark.slow
def test_each_variant_has_its_process_and_continues(tmp_path):
    arguments = "--memory --masks plain --batch-size 1 --modes inference"
    arguments = [*SMALL, *arguments.split(), "--output", tmp_path]
    arguments += ["--variants", "linear", "big_bird", "--lengths"]
    script("layers.py", *arguments, "16", "1024")
    rows = rows_of(tmp_path)
    found = {(r["contender"], r["length"], r["measure"]): r for r in rows}
    assert found["linear", 1024, "seconds apart"]["value"] > 0
    assert found["linear", 1024, "bytes"]["value"] >= 0
    # Its blocks do not fit; the reason is in its row.
    note = found["big_bird", 16, "bytes"]["note"]
    assert "beyond max_length=16" in note
    again = script("layers.py", *arguments, "16", "1024", "2048")
    heads, *lines = [x for x in again.stdout.splitlines() if x[:2] == "| "]
    assert "T 2048, B 1 | growth, longest / 1024" in heads
    assert float(lines[1].strip("| ").split("| ")[-1]) > 0
    more = rows_of(tmp_path)
    assert more[: len(rows)] == rows
    assert len(more) == len(rows) + 4


def models(part, *arguments):
    return table(script("models.py", part, "--rounds", "2", *arguments).stdout)


def test_blocks():
    shape = "--batch-size 1 --sequence-length 8 --variants V R".split()
    rows = models("blocks", *SMALL, *shape)
    assert [row[0] for row in rows] == ["V", "R"]
    assert rows[0][3] == "1.00"


@pytest.mark.slow
def test_first_steps():
    shape = [*BLOCK, *"--batch-size 2 --variants R BertBackbone".split()]
    rows = models("first-step", *shape)
    assert [row[0] for row in rows] == ["R", "BertBackbone"]
    assert rows[1][2] == "1.00"
    assert all(float(row[1]) > float(row[3]) for row in rows)


def test_generation():
    shape = "--lengths 20 --num-layers 1 --batch-size 2 --variants R".split()
    rows = models("generate", *SMALL, *shape, "--clock", "processor")
    assert [row[0] for row in rows] == ["GPT2CausalLM", "R"]
    assert rows[0][2] == "1.00"


def test_caches_have_the_sizes_that_their_record_has():
    shape = "--num-layers 2 --batch-size 32 --lengths 512 --variants R D+V"
    done = script("models.py", "caches", *shape.split())
    assert table(done.stdout) == [
        ["TransformerDecoder", "128.00"],
        ["R", "64.00"],  # no keys
        ["D+V", "128.00"],
    ]


def test_serving():
    rows = models("serve", *BLOCK, "--variants", "FR")
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
    rows = models("serve", *BLOCK, *wanted, "--forms", "float32", "int8")
    assert [[row[0], row[1], row[-1]] for row in rows] == [
        ["always_good", form, "75.0"] for form in ("float32", "int8")
    ]


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["layers.py", "--variants", "Q"], "unknown variant 'Q'"),
        (["layers.py", "--masks", "paded"], "invalid choice: 'paded'"),
        (["overhead.py", "--variants", "Q"], "unknown variant 'Q'"),
        (["models.py", "serve", "--variants", "Q"], "unknown variant 'Q'"),
        (["models.py", "generate", "--lengths", "16"], "prompt's 16 tokens"),
        (["models.py", "serve", "--data", "SST-2"], "name some with --presets"),
        (["cheaper.py", "scores"], "scores need --model and --data"),
    ],
)
def test_wrong_arguments_are_errors(arguments, words):
    assert words in script(*arguments, status=2).stderr

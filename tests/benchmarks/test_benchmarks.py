"""The benchmarks run, go on where they stopped, and skip what cannot run."""

import csv
import itertools
import sys

import pytest
import small_tasks
from backend import slow_but_on
from places import ROOT
from scripts import run_script

FOLDER = ROOT / "benchmarks"
sys.path.append(str(FOLDER))

from measuring import busy, interleaved  # noqa: E402
from records import Records  # noqa: E402

# They compile much; what they measure has tests of its own.
pytestmark = slow_but_on("torch")
FIELDS = ["name", "value", "note"]


def script(name, *arguments):
    return run_script(FOLDER / name, *arguments)


def small_layers(output, *arguments):
    shape = "--lengths 8 --tokens 16 --hidden-dim 8 --num-heads 2".split()
    shape += ["--rounds", "2"]
    wanted = ["MultiHeadAttention", "R", "D+V", "floor of R"]
    return script(
        "layers.py",
        *[*shape, "--variants", *wanted, "--output", output, *arguments],
    )


def rows_of(folder, pattern):
    (path,) = folder.glob(pattern)
    with open(path) as file:
        return list(csv.DictReader(file))


def test_records_are_found_again(tmp_path):
    records = Records(tmp_path / "a.csv", FIELDS, ["name"])
    records.append({"name": "R", "value": 1})
    again = Records(tmp_path / "a.csv", FIELDS, ["name"])
    assert {"name": "R"} in again
    assert {"name": "V"} not in again


def test_half_a_row_is_dropped_and_said(tmp_path, capsys):
    path = tmp_path / "a.csv"
    path.write_text("name,value,note\nR,1,\nV,2")
    records = Records(path, FIELDS, ["name"])
    assert [row["name"] for row in records.rows] == ["R"]
    assert "incomplete" in capsys.readouterr().out
    records.append({"name": "V", "value": 3})
    assert path.read_text() == "name,value,note\nR,1,\nV,3,\n"


def test_a_file_of_another_version_is_left_alone(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("name,other\nR,1\n")
    with pytest.raises(SystemExit, match=r"other columns.*--output"):
        Records(path, FIELDS, ["name"])
    assert path.read_text() == "name,other\nR,1\n"


def test_timings_are_interleaved():
    calls = []
    steps = {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}
    timings = interleaved(steps, rounds=3)
    assert set(timings) == {"a", "b"}
    # a repeats within its slice; between two slices of it there is one of b.
    switches = sum(x != y for x, y in itertools.pairwise(calls))
    assert switches >= 4


def test_busy_processes_end_with_the_block():
    with busy(2) as processes:
        assert [process.poll() for process in processes] == [None, None]
    assert all(process.poll() is not None for process in processes)


def test_layers_name_what_is_busy_beside_them(tmp_path):
    one = ["--masks", "plain", "--modes", "inference", "--busy", 1]
    done = small_layers(tmp_path, *one)
    assert done.returncode == 0, done.stderr
    rows = rows_of(tmp_path, "*.csv")
    assert all(row["device"].endswith("beside 1 busy") for row in rows)


@pytest.mark.parametrize("mask", ["causal", "plain", "padded"])
def test_layers(tmp_path, mask):
    done = small_layers(tmp_path, "--masks", mask)
    assert done.returncode == 0, done.stderr
    rows = rows_of(tmp_path, "*.csv")
    assert len(rows) == 8  # four contenders, two modes
    assert all(float(row["value"]) > 0 for row in rows)
    assert list(tmp_path.glob("layers_*.png"))
    assert "floor of R" in done.stdout


def test_layers_go_on(tmp_path):
    plain = ["--masks", "plain", "--modes", "inference"]
    stopped = small_layers(tmp_path, *plain, "--minutes", 0)
    assert "1 of 1 cells are left" in stopped.stderr
    small_layers(tmp_path, *plain)
    before = rows_of(tmp_path, "*.csv")
    small_layers(tmp_path, *plain)
    assert rows_of(tmp_path, "*.csv") == before


@pytest.mark.slow
def test_layers_measure_memory(tmp_path):
    done = small_layers(
        tmp_path, "--masks", "plain", "--modes", "training", "--memory"
    )
    assert done.returncode == 0, done.stderr
    rows = rows_of(tmp_path, "*.csv")
    assert [row["measure"] for row in rows] == ["bytes"] * 4
    assert all(int(row["value"]) > 0 for row in rows)


def test_decoding(tmp_path):
    shape = "--shapes 2x16 --num-layers 1 --hidden-dim 8 --num-heads 2 "
    shape += "--steps 3 --rounds 2"
    path = tmp_path / "table.md"
    done = script("decoding.py", "R", *shape.split(), "--markdown", path)
    assert done.returncode == 0, done.stderr
    rows = [line.split(" | ") for line in path.read_text().splitlines()[-2:]]
    assert [row[1] for row in rows] == ["TransformerDecoder", "R"]
    assert rows[0][3] == "1.00"
    assert rows[1][-1].startswith("0.50")  # no keys in the cache


def test_generation(tmp_path):
    shape = "--lengths 20 --num-layers 1 --hidden-dim 8 --num-heads 2 "
    shape += "--batch-size 2 --rounds 2 --clock processor"
    path = tmp_path / "table.md"
    done = script("generation.py", "R", *shape.split(), "--markdown", path)
    assert done.returncode == 0, done.stderr
    rows = [line.split(" | ") for line in path.read_text().splitlines()[-2:]]
    assert [row[1] for row in rows] == ["GPT2CausalLM", "R"]
    assert rows[0][-1] == "1.00 |"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["Q"], "Q"), (["--lengths", "16"], "more than the prompt's 16 tokens")],
)
def test_generation_refuses_what_it_cannot_time(arguments, words):
    done = script("generation.py", *arguments)
    assert done.returncode == 2
    assert words in done.stderr


SERVING = "--sequence-length 8 --num-layers 1 --hidden-dim 8 --num-heads 2"


def served(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line.strip("| ").split(" | ") for line in lines[4:]]


def test_serving(tmp_path):
    path = tmp_path / "table.md"
    shape = [*SERVING.split(), "--rounds", "2", "--markdown", path]
    done = script("serving.py", "FR", *shape)
    assert done.returncode == 0, done.stderr
    rows = served(path)
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
    path = tmp_path / "table.md"
    wanted = ["--presets", tmp_path / "always_good", "--data", folder]
    wanted += ["--forms", "float32", "int8", "--markdown", path]
    done = script("serving.py", *SERVING.split(), "--rounds", "2", *wanted)
    assert done.returncode == 0, done.stderr
    rows = [[row[0], row[1], row[-1]] for row in served(path)]
    forms = ("float32", "int8")
    assert rows == [["always_good", form, "75.0"] for form in forms]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["Q"], "Unknown synthesizer 'Q'"),
        (["--presets", "nowhere"], "Received: nowhere"),
        (["--data", "SST-2"], "name some with --presets"),
    ],
)
def test_serving_refuses_what_it_cannot_measure(arguments, words):
    done = script("serving.py", *arguments)
    assert done.returncode == 2
    assert words in done.stderr


def test_layers_refuse_an_unknown_contender(tmp_path):
    done = script("layers.py", "--variants", "Q", "--output", tmp_path)
    assert done.returncode == 2
    assert "unknown contenders: ['Q']" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["layers.py", "--masks", "paded"], "invalid choice: 'paded'"),
        (["layers.py", "--compile", "--memory"], "--compile is for the times"),
        (["layers.py", "--busy", "-1"], "--busy is a number of processes"),
        (["decoding.py", "Q"], "Q"),
    ],
)
def test_wrong_arguments_are_refused(arguments, words):
    done = script(*arguments)
    assert done.returncode == 2
    assert words in done.stderr


def test_training(tmp_path):
    done = script(
        "training.py",
        *"--variants V R --rounds 2 --steps 1 --batch-size 2".split(),
        *"--sequence-length 8".split(),
        *"--block-batch 1 --block-length 8".split(),
        *["--output", tmp_path],
    )
    assert done.returncode == 0, done.stderr
    rows = rows_of(tmp_path, "*.csv")
    assert [row["model"] for row in rows] == ["classifier"] * 2 + ["blocks"] * 2


def test_markdown(tmp_path):
    small_layers(tmp_path, "--masks", "plain", "--modes", "inference")
    done = small_layers(tmp_path, "--markdown")
    assert "| | plain, T 8, B 2 |" in done.stdout
    assert "| R |" in done.stdout


@pytest.mark.slow
def test_growth_goes_on_where_it_stopped(tmp_path):
    arguments = [
        *"--hidden-dim 8 --num-heads 2 --modes inference".split(),
        *("--variants", "linear", "big_bird", "--output", tmp_path),
    ]
    done = script("growth.py", "--lengths", "16", "128", *arguments)
    assert done.returncode == 0
    rows = rows_of(tmp_path, "growth_*.csv")
    found = {(r["mixer"], r["length"]): r for r in rows}
    assert float(found["linear", "128"]["seconds"]) > 0
    assert int(found["linear", "128"]["bytes"]) >= 0
    # Its blocks do not fit; the reason stands beside it.
    assert "beyond max_length=16" in found["big_bird", "16"]["note"]
    assert list(tmp_path.glob("growth_*.png"))
    again = script("growth.py", "--lengths", "16", "64", "128", *arguments)
    assert "T 64" in again.stdout
    more = rows_of(tmp_path, "growth_*.csv")
    assert more[: len(rows)] == rows
    assert len(more) == len(rows) + 2

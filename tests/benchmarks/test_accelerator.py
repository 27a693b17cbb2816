"""The kit for accelerators runs, continues, and survives failures."""

import functools
import json
import subprocess
import sys
import time
import types

import accelerator
import accelerator_cases as cases
import keras
import pytest
from places import ROOT
from scripts import run_script

SCRIPT = ROOT / "benchmarks" / "accelerator.py"
BACKEND = keras.backend.backend()
HEAD = {
    "backend": "torch",
    "device": "A GPU 80GB",
    "platform": "gpu",
    "versions": {"keras": "3.15.1", "torch": "2.13.0", "triton": None},
    "commit": "abc",
    "sources": "123",
    "small": False,
}
# Answers like accelerator_worker.py, except for some names.
WORKER = """
import os, sys, time

def answer(connection):
    connection.send({})
    while True:
        for name in connection.recv()["names"]:
            connection.send({"at": name})
            if name == "crash":
                print("Out of everything", file=sys.stderr, flush=True)
                os._exit(9)
            if name == "hang":
                time.sleep(600)
            values = {"seconds": 0.5, "ratio": 1.0}
            connection.send({"name": name, "values": values})
        connection.send(None)
"""
once = pytest.mark.once


def run(*arguments):
    return run_script(SCRIPT, *arguments)


def rows_of(folder):
    (path,) = folder.glob("*.json")
    return json.loads(path.read_text(encoding="utf-8"))["rows"]


# --- all of it ---


def small(folder, *arguments):
    own = ["--small", "--backends", BACKEND, "--output", folder]
    return run(*own, *arguments)


def test_it_runs(tmp_path):
    done = small(tmp_path, "--parts", "contract", "layers")
    assert done.returncode == 0, done.stdout + done.stderr
    first = rows_of(tmp_path)
    assert [row["part"] for row in first] == ["contract"] + 6 * ["layers"]
    assert first[0]["values"]["passed"] == 3
    assert first[0]["values"]["failed"] == 0
    assert all(row["values"]["seconds"] > 0 for row in first[1:])
    ratios = [row["values"]["ratio"] for row in first[1:]]
    assert ratios[0] == ratios[3] == 1.0


@pytest.mark.slow
def test_it_measures_all_parts(tmp_path):
    done = small(tmp_path, "--device", "cpu")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = rows_of(tmp_path)
    assert {row["part"] for row in rows} == {*cases.PARTS}
    assert all("values" in row for row in rows), rows
    texts = [row["values"] for row in rows if row["part"] == "generation"]
    assert [values["tokens"] for values in texts] == [8, 8]
    (peak,) = [row["values"] for row in rows if row["part"] == "memory"]
    assert peak["bytes"] > 0
    again = small(tmp_path, "--device", "cpu")
    assert "layers:" not in again.stdout
    assert rows_of(tmp_path) == rows


@pytest.mark.slow
@pytest.mark.skipif(BACKEND != "torch", reason="PyTorch's compiler")
def test_programs_of_pytorch_do_not_replace_each_other(monkeypatch):
    """Beyond eight for one function it would run the next ones as they are."""
    import accelerator_worker
    import steps
    import torch._dynamo

    traced = functools.partial(torch.compile, backend="eager")
    monkeypatch.setattr(torch, "compile", traced)
    monkeypatch.setattr(steps, "COMPILED", False)
    config, told = torch._dynamo.config, []
    names = [*"V R FR D FD Fix".split(), "R+V", "D+V", "R+D", "FR+V"]
    shape = {"length": 8, "batch": 2, "width": 8, "heads": 2}
    shape |= {"dtype": "float32", "mask": "plain", "mode": "inference"}
    case = {"part": "layers", "way": "compiled", "names": names}
    with config.patch(fail_on_recompile_limit_hit=True, recompile_limit=8):
        work = {**case, "shape": shape, "seconds": 600}
        accelerator_worker.Work(work, told.append).run()
    rows = [one for one in told if "name" in one]
    assert [row["name"] for row in rows] == names
    assert all("values" in row for row in rows), rows


@once
def test_a_step_that_fails_late_costs_itself(monkeypatch):
    import accelerator_worker

    told, calls = [], []
    case = {"part": "layers", "way": "eager", "names": ["a", "b"], "shape": {}}
    work = accelerator_worker.Work({**case, "seconds": 20.0}, told.append)

    def step_of(name):
        def step():
            calls.append(name)
            if name == "b" and calls.count("b") > 3:
                raise MemoryError("no more")

        return step

    monkeypatch.setattr(work, "_made", lambda name: (step_of(name), {}))
    work.run()
    rows = {one.pop("name"): one for one in told if "name" in one}
    assert rows["b"] == {"error": "MemoryError: no more"}
    assert rows["a"]["values"]["ratio"] == 1.0


# --- failures ---


@pytest.fixture
def kit(tmp_path, monkeypatch):
    """Returns a function that makes a kit whose worker is the one above."""
    (tmp_path / "accelerator_worker.py").write_text(WORKER)
    monkeypatch.setattr(accelerator, "FOLDER", tmp_path)
    monkeypatch.setattr(accelerator, "LEAST", 0.1)
    made = []

    def begun(seconds, again=False):
        settings = types.SimpleNamespace(again=again, device=None)
        kit = accelerator.Kit(settings, time.monotonic() + seconds)
        kit.records["torch"] = cases.Record(tmp_path / "records", HEAD)
        made.append(kit)
        return kit

    yield begun
    for kit in made:
        kit.drop("torch")


def case(*names, seconds=30.0, **shape):
    return cases.Case("layers", "torch", "eager", names, shape, seconds)


@once
def test_who_crashes_costs_itself(kit, tmp_path):
    plan = [case("first", "crash", "R", length=8), case("first", "V", length=9)]
    assert kit(60).run(plan) == 0
    rows = {(x["length"], x["name"]): x for x in rows_of(tmp_path / "records")}
    assert "status 9: Out of everything" in rows[8, "crash"]["error"]
    for key in ((8, "first"), (8, "R"), (9, "first"), (9, "V")):
        assert "values" in rows[key]


@once
def test_who_hangs_costs_itself_and_is_not_tried_again(kit, tmp_path):
    plan = [case("first", "hang", "R", seconds=1.0)]
    assert kit(60).run(plan) == 0
    rows = {x["name"]: x for x in rows_of(tmp_path / "records")}
    assert rows["hang"]["error"] == "it took more than 1 s"
    assert "values" in rows["R"]
    later = kit(60)
    assert later.run(plan) == 0
    assert not later.done


@once
def test_an_interrupted_case_is_repeated(kit, tmp_path):
    plan = [case("first", "hang", seconds=20.0)]
    assert kit(12).run(plan) == 1
    assert [x["name"] for x in rows_of(tmp_path / "records")] == ["first"]
    plan = [case("first", "hang", seconds=2.0)]
    assert kit(60).run(plan) == 0
    assert rows_of(tmp_path / "records")[-1]["error"] == "it took more than 2 s"


@once
def test_every_row_is_on_disk_as_a_whole(tmp_path):
    record = cases.Record(tmp_path, HEAD)
    record.add({"part": "layers", "name": "R"}, values={"seconds": 1.0})
    other = cases.Record(tmp_path, HEAD)
    assert other.has({"name": "R", "part": "layers"})
    assert not other.has({"part": "layers", "name": "V"})
    newer = {**HEAD, "versions": {"keras": "3.16.0"}}
    assert not cases.Record(tmp_path, newer).rows
    assert [path.suffix for path in tmp_path.iterdir()] == [".json"]


# --- bad input ---


@once
def test_a_missing_device_is_an_error(tmp_path):
    wanted = "--device tpu --backends torch --output".split()
    (said,) = run(*wanted, tmp_path).stderr.strip().splitlines()
    assert "There is no tpu to measure: torch finds" in said
    assert not [*tmp_path.iterdir()]


@once
def test_the_kit_itself_imports_no_backend():
    code = "import accelerator, sys; sys.exit('keras' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=SCRIPT.parent)
    assert done.returncode == 0

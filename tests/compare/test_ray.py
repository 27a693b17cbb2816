"""Grids on a real Ray cluster of two machines, both of them this one."""

import json
import os
import signal
import time

import command_line
import numpy as np
import pytest
from backend import slow_but_on
from command_line import BACKEND, rows

from keras_synth.compare import grid, jobs, launchers, tasks

pytest.importorskip("ray", reason="needs the extra `ray`")

# Workers are processes of one backend, whichever it is.
pytestmark = [pytest.mark.slow, slow_but_on("torch")]

GRID = (
    "--task reviews --examples 400 --epochs 12 --num-layers 1 --num-heads 2 "
    "--hidden-dim 16 --sequence-length 48 --lengths 32 --vocabulary-size 300 "
    "--batch-size 16 --variants R V"
).split()
PATIENCE = 500  # seconds; other work may be in the way


@pytest.fixture(scope="module")
def cluster():
    """Two machines with room for one run each."""
    from ray import cluster_utils

    made = cluster_utils.Cluster()
    machine = {"num_cpus": 1, "object_store_memory": 100_000_000}
    made.add_node(**machine)
    made.machine = machine
    made.other = made.add_node(**machine)
    yield made
    made.shutdown()


@pytest.fixture
def on_ray(cluster):
    return ["--launcher", "ray", "--address", cluster.address]


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """The rows of the same grid on this machine, run by run."""
    folder = tmp_path_factory.mktemp("local")
    status, _, err = command_line.run(folder, *GRID)
    assert status == 0, err
    return rows(folder)


def until(condition, process=None):
    """Waits for a condition; returns what it found."""
    deadline = time.monotonic() + PATIENCE
    while not (found := condition()):
        if process is not None and process.poll() is not None:
            pytest.fail(process.communicate()[1])
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found


def processes(path):
    """The processes that have taken a run, by its file of events."""
    lines = path.read_text().splitlines()[:-1] if path.exists() else []
    events = [json.loads(line) for line in lines if line.startswith("{")]
    return [event["process"] for event in events if "process" in event]


def in_training(folder):
    """The file of events of a run with a checkpoint, if there is one."""
    for path in (folder / "checkpoints").glob("*.npz"):
        return folder / "events" / f"{path.stem}.jsonl"


def is_alive(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def assert_same(found, expected):
    def by_run(row):
        return row["key"]["variant"], row["key"]["seed"]

    found, expected = sorted(found, key=by_run), sorted(expected, key=by_run)
    for row, other in zip(found, expected, strict=True):
        assert row["key"] == other["key"]
        assert row["parameters"] == other["parameters"]
        # As of a run that was killed here: to what five digits show.
        np.testing.assert_allclose(row["losses"], other["losses"], atol=2e-4)
        np.testing.assert_allclose(
            row["validation_scores"], other["validation_scores"], atol=2e-3
        )
        assert row["score"] == pytest.approx(other["score"], abs=2e-3)
        assert row["seconds"] > 0


def test_a_grid_completes_though_a_worker_is_killed(on_ray, local, tmp_path):
    process = command_line.start(tmp_path, *GRID, *on_ray)
    events = until(lambda: in_training(tmp_path), process)
    (killed,) = processes(events)
    os.kill(killed, signal.SIGKILL)
    again = until(lambda: processes(events)[1:], process)
    assert again != [killed]
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    assert "reviews: test accuracy" in out
    assert_same(rows(tmp_path), local)
    for name in ("checkpoints", "events"):
        assert not any((tmp_path / name).iterdir())
    # Nothing is left to run, here or there.
    status, _, err = command_line.run(tmp_path, *GRID, "--resume")
    assert status == 0, err
    assert "2 of 2 are done" in err


def test_a_grid_completes_though_a_machine_is_lost(
    cluster, on_ray, local, tmp_path
):
    process = command_line.start(tmp_path, *GRID, *on_ray)
    folder = tmp_path / "checkpoints"
    until(lambda: len([*folder.glob("*.npz")]) == 2, process)
    cluster.remove_node(cluster.other, allow_graceful=False)
    out, err = process.communicate(timeout=PATIENCE)
    cluster.other = cluster.add_node(**cluster.machine)
    assert process.returncode == 0, err
    assert "reviews: test accuracy" in out
    assert_same(rows(tmp_path), local)


def test_a_killed_driver_s_grid_goes_on(on_ray, local, tmp_path):
    process = command_line.start(tmp_path, *GRID, *on_ray)
    events = until(lambda: in_training(tmp_path), process)
    (worker,) = processes(events)
    process.kill()
    process.communicate()
    until(lambda: not is_alive(worker))
    status, _, err = command_line.run(tmp_path, *GRID, *on_ray, "--resume")
    assert status == 0, err
    assert_same(rows(tmp_path), local)


def test_a_failing_run_shows_the_end_of_its_log(cluster, tmp_path):
    settings = tasks.TASKS["reviews"].settings("reviews")
    work = jobs.Jobs(settings, "/nowhere.npz", "0", tmp_path)
    run = grid.Run("R", 2, 0, BACKEND)
    with launchers.Ray(cluster.address) as launcher:
        launcher.check(tmp_path)
        assert launcher.missing([BACKEND, "mxnet"]) == ["mxnet"]
        pairs = [*launcher([run], work)]
    assert pairs[0][1]["note"].startswith("starting on ")
    *_, (_, event) = pairs
    assert "/nowhere.npz" in event["failed"]
    assert "No such file" in event["failed"]


CALLBACKS = """
import json
import keras

class Notes(keras.callbacks.Callback):
    def __init__(self, run):
        super().__init__()
        self.path = run.folder / "notes.jsonl"
        self.path.parent.mkdir(parents=True)

    def on_epoch_end(self, epoch, logs=None):
        with open(self.path, "a") as file:
            print(json.dumps([epoch, logs["val_score"]]), file=file)
"""


def test_workers_of_a_cluster_have_the_callbacks(on_ray, tmp_path, monkeypatch):
    (tmp_path / "watching.py").write_text(CALLBACKS)
    monkeypatch.chdir(tmp_path)
    status, _, err = command_line.run(
        tmp_path / "out", *GRID, *on_ray, "--callbacks", "watching:Notes"
    )
    assert status == 0, err
    for row in rows(tmp_path / "out"):
        (notes,) = (tmp_path / "out" / "callbacks").glob(
            f"{row['key']['variant']}-*/notes.jsonl"
        )
        found = [json.loads(line) for line in notes.read_text().splitlines()]
        assert found == [[*x] for x in enumerate(row["validation_scores"])]

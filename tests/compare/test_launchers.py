"""Launchers: what each promises, and Ray with a stand-in for a cluster."""

import json
import pathlib
import sys
import types

import pytest

from keras_synth.compare import grid, jobs, launchers, options, tasks
from keras_synth.compare.launchers import ray_cluster

pytestmark = pytest.mark.once  # nothing here depends on the backend

RUNS = [
    grid.Run(variant, 2, 0, backend)
    for variant in ("R", "V")
    for backend in ("jax", "torch")
]


@pytest.fixture
def work(tmp_path):
    settings = tasks.TASKS["reviews"].settings("reviews")
    return jobs.Jobs(settings, tmp_path / "data.npz", "0", tmp_path)


def node(name, alive=True, **resources):
    return {
        "NodeID": name,
        "NodeManagerHostname": name,
        "Alive": alive,
        "Resources": resources,
    }


class Cluster:
    """A stand-in for the module `ray`: tasks end when they are asked for.

    Args:
        nodes: List of machines, as `ray.nodes` has them.
        answer: Function of a task's name, or nothing, and its arguments.
    """

    def __init__(self, nodes, answer):
        self.found, self.answer = nodes, answer
        self.begun, self.cancelled, self.given = [], [], []
        self.exceptions = types.SimpleNamespace(RayError=RuntimeError)
        strategies = types.SimpleNamespace(
            NodeAffinitySchedulingStrategy=lambda node, soft: node
        )
        self.modules = {
            "ray": self,
            "ray.util": types.SimpleNamespace(scheduling_strategies=strategies),
            "ray.util.scheduling_strategies": strategies,
        }

    def nodes(self):
        return self.found

    def remote(self, **given):
        self.given.append(given)
        where = {}

        def options(name=None, scheduling_strategy=None):
            where.update(name=name, node=scheduling_strategy)
            return task

        def begin(*arguments):
            reference = (where["name"] or where["node"], len(self.begun))
            self.begun.append((reference, arguments))
            return reference

        task = types.SimpleNamespace(options=options, remote=begin)
        return lambda function: task

    def wait(self, references, timeout):
        return references[:1], references[1:]

    def get(self, reference, timeout=None):
        if isinstance(reference, list):
            return [self.get(x) for x in reference]
        return self.answer(reference[0], *dict(self.begun)[reference])

    def cancel(self, reference, force):
        self.cancelled.append(reference[0])


@pytest.fixture
def cluster(monkeypatch):
    def cluster(nodes=(), answer=lambda *arguments: (True, [])):
        made = Cluster(list(nodes), answer)
        for name, module in made.modules.items():
            monkeypatch.setitem(sys.modules, name, module)
        return made

    return cluster


@pytest.mark.parametrize("name", launchers.LAUNCHERS)
def test_each_launcher_has_a_name_on_the_command_line(name):
    parser = options.parser("x", "", "", "own", lambda add: None)
    given = parser.parse_args(["--launcher", name])
    assert type(options.launcher_of(given)) is launchers.LAUNCHERS[name]


def test_options_of_ray_reach_it():
    parser = options.parser("x", "", "", "own", lambda add: None)
    given = "--launcher ray --address a:1 --cpus-per-run 2 --gpus-per-run 3"
    found = options.launcher_of(parser.parse_args(given.split()))
    assert found == launchers.Ray("a:1", 2, 3)


def test_the_first_backend_draws_the_initial_weights(work):
    first = [RUNS[0], RUNS[2]]
    assert ray_cluster.startable(RUNS, [], work) == first
    rest = [RUNS[1], RUNS[3]]
    assert ray_cluster.startable(rest, first, work) == []
    # It failed before it had drawn any.
    assert ray_cluster.startable(rest, first[:1], work) == rest[1:]
    weights = work.paths(RUNS[0])["weights"]
    weights.parent.mkdir()
    weights.touch()
    assert ray_cluster.startable(rest, first, work) == rest[:1]


def test_events_are_read_as_they_come(work):
    events = ray_cluster.Events(RUNS[0], work)
    assert events.read() == []
    path = work.paths(RUNS[0])["events"]
    path.parent.mkdir()
    with open(path, "w") as file:
        file.write('\n{"step": 1}\n{"st')
        file.flush()
        assert events.read() == [{"step": 1}]
        file.write('ep": 2}\n{"step": 3, "lo')  # and its process died
        file.flush()
        assert events.read() == [{"step": 2}]
        file.write('\n{"step": 2}\n')
    assert events.read() == [{"step": 2}]
    assert events.read() == []


def test_a_run_that_no_machine_holds_is_refused(cluster, tmp_path):
    cluster(
        [
            node("many", CPU=8),
            node("fast", CPU=2, GPU=4),
            node("dead", alive=False, CPU=8, GPU=8),
        ]
    )
    folder = tmp_path / "out"
    words = "runs would wait forever.*a machine: 8 CPUs, 4 GPUs"
    for cpus, gpus in [(1, 8), (4, 4), (9, 0)]:
        with pytest.raises(ValueError, match=words):
            launchers.Ray("", cpus, gpus).check(folder)
    assert not folder.exists()
    launchers.Ray("", 2, 4).check(folder)
    assert [*folder.iterdir()] == []


def test_machines_are_asked_what_they_see_and_have(cluster, tmp_path):
    def answer(machine, path, packages):
        assert pathlib.Path(path) == tmp_path or pathlib.Path(path).exists()
        return machine != "apart", ["jax"] if "jax" in packages else []

    found = cluster([node("here", CPU=4), node("apart", CPU=4)], answer)
    words = f"--output {tmp_path}, which apart .* does not see"
    with pytest.raises(FileNotFoundError, match=words):
        launchers.Ray().check(tmp_path)
    found.found[1]["Resources"] = {"CPU": 0}  # it takes no runs
    launchers.Ray().check(tmp_path)
    assert launchers.Ray().missing(["jax", "torch"]) == ["jax"]
    found.answer = lambda *arguments: (True, ["keras_hub"])
    with pytest.raises(ImportError, match=r"here .* needs keras_hub: pip"):
        launchers.Ray().check(tmp_path)


def test_results_and_failures_come_from_tasks(cluster, work):
    """Two of four runs end well, one has an exception, one died too often."""

    def answer(name, path):
        spec = json.loads(pathlib.Path(path).read_text())
        assert str(grid.Run(*spec["run"])) == name
        pathlib.Path(spec["paths"]["log"]).write_text("a line\n\nthe reason\n")
        if name == str(RUNS[1]):
            return None
        if name == str(RUNS[2]):
            raise RuntimeError("The worker died.")
        return {"score": 1.0}

    found = cluster(answer=answer)
    pairs = [*launchers.Ray("", 2, 1)(RUNS, work)]
    assert [run for run, _ in pairs] == [RUNS[0], RUNS[2], RUNS[1], RUNS[3]]
    ends = dict(pairs)
    assert ends[RUNS[0]] == ends[RUNS[3]] == {"result": {"score": 1.0}}
    assert ends[RUNS[1]]["failed"].endswith("a line\nthe reason")
    assert ends[RUNS[2]]["failed"].endswith("the reason\nThe worker died.")
    assert found.cancelled == []
    for given, run in zip(found.given, ends, strict=True):
        assert (given["num_cpus"], given["num_gpus"]) == (2, 1)
        assert given["max_retries"] > 0
        backend = given["runtime_env"]["env_vars"]["KERAS_BACKEND"]
        assert backend == run.backend


def test_a_grid_that_is_stopped_ends_its_tasks(cluster, work):
    found = cluster(answer=lambda *arguments: {"score": 1.0})
    happening = launchers.Ray()(RUNS, work)
    assert next(happening)[0] == RUNS[0]
    happening.close()
    assert found.cancelled == [str(RUNS[2])]

"""`Ray`: runs on the machines of a Ray cluster."""

import dataclasses
import json
import os
import pathlib
import re
import socket
import time
import traceback

from keras_synth._system.files import (
    UnwrittenError,
    folder_beside,
    naming_what_is_unwritten,
)
from keras_synth.compare.launchers.launcher import Launcher
from keras_synth.compare.packages import missing
from keras_synth.compare.settings import COUNT, COUNT_OR_NONE, Text, setting

PACKAGES = ("keras_synth", "keras_hub", "matplotlib", "rich")
RETRIES = 3  # of a run whose process or machine died
KNOCK_SECONDS = 10  # for the address to answer
ASK_SECONDS = 120  # for all machines to answer
WAIT_SECONDS = 0.5  # between looks at the events


@dataclasses.dataclass(frozen=True)
class Ray(Launcher):
    """As many runs at a time as a [Ray](https://docs.ray.io) cluster holds.

    Each is a task in a process of Ray's that ends with it. It writes its
    events, like its log and its checkpoints, to the folder that all machines
    share. A run whose process or machine dies begins again from its last
    checkpoint, wherever there is room.
    """

    address: str = setting(
        "",
        "of the cluster, HOST:PORT",
        Text("an address"),
        "RAY_ADDRESS, or the cluster that this machine is in, or a new one on "
        "this machine alone",
    )
    cpus_per_run: int = setting(1, "CPUs that each run holds", COUNT)
    gpus_per_run: int = setting(
        0, "GPUs that each run holds", COUNT_OR_NONE, "0, for CPUs alone"
    )

    def __enter__(self):
        if missing(["ray"]):
            raise ImportError(
                '--launcher ray needs Ray: pip install "keras-synth[ray]"'
            )
        import ray

        address = self.address or os.environ.get("RAY_ADDRESS", "")
        try:
            _knock(address)
            ray.init(
                address or None,
                logging_level="ERROR",
                log_to_driver=False,  # each run has a log of its own
            )
        except (OSError, RuntimeError, ValueError) as error:
            reason = " ".join(str(error).split())
            raise ConnectionError(
                "Ray must answer at --address, in the same versions of Ray and "
                "Python. `ray status` says where a cluster is. Received: "
                f"--address {address or 'none'} ({reason})"
            ) from error
        return self

    def __exit__(self, *error):
        import ray

        ray.shutdown()

    def check(self, folder):
        """Looks for machines that can hold a run, and what they can see."""
        self._machines()
        with folder_beside(folder / "seen") as seen:
            answers = self._ask(os.path.abspath(seen), PACKAGES)
        for machine, (sees, absent) in answers.items():
            if not sees:
                raise FileNotFoundError(
                    "--output must be in a folder that all machines of the "
                    f"cluster share. Received: --output {folder}, which "
                    f"{machine} does not see"
                )
            if absent:
                raise ImportError(
                    f"{machine} of the cluster needs {', '.join(absent)}: "
                    'pip install "keras-synth[compare,ray]"'
                )

    def missing(self, backends):
        answers = self._ask("/", backends).values()
        return sorted({x for _, absent in answers for x in absent})

    def __call__(self, runs, jobs):
        import ray

        waiting, working = [*runs], {}  # reference of Ray's -> run, its events
        try:
            while waiting or working:
                busy = [run for run, _ in working.values()]
                for run in startable(waiting, busy, jobs):
                    waiting.remove(run)
                    working[self._start(run, jobs)] = run, Events(run, jobs)
                ended, _ = ray.wait([*working], timeout=WAIT_SECONDS)
                for run, events in working.values():
                    yield from ((run, event) for event in events.read())
                for reference in ended:
                    run, _ = working.pop(reference)
                    yield run, _last_event(reference, run, jobs)
        finally:  # stopped, or nobody wants further events
            for reference in working:
                ray.cancel(reference, force=True)

    def _start(self, run, jobs):
        """Hands a run to Ray; returns the reference of its result."""
        import ray

        environment = {"KERAS_BACKEND": run.backend}
        environment["TF_CPP_MIN_LOG_LEVEL"] = os.environ.get(
            "TF_CPP_MIN_LOG_LEVEL", "3"
        )
        task = ray.remote(
            num_cpus=self.cpus_per_run,
            num_gpus=self.gpus_per_run,
            max_calls=1,  # the process ends with the run
            max_retries=RETRIES,
            runtime_env={"env_vars": environment},
        )(perform)
        spec = jobs.write_spec(run)
        for name in ("events", "log"):  # of an earlier attempt
            path = jobs.paths(run)[name]
            with naming_what_is_unwritten(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.unlink(missing_ok=True)
        return task.options(name=str(run)).remote(str(spec))

    def _machines(self):
        """Machine's name -> its id, of those that have room for a run."""
        import ray

        wanted = {"CPU": self.cpus_per_run, "GPU": self.gpus_per_run}
        alive = [node for node in ray.nodes() if node["Alive"]]
        found = {
            f"{node['NodeManagerHostname']} ({node['NodeID'][:6]})": node
            for node in alive
            if all(node["Resources"].get(x, 0) >= n for x, n in wanted.items())
        }
        if not found:
            largest = {
                x: max(int(node["Resources"].get(x, 0)) for node in alive)
                for x in wanted
            }
            raise ValueError(
                "No machine of the cluster has --cpus-per-run CPUs and "
                "--gpus-per-run GPUs; runs would wait forever. Received: "
                f"--cpus-per-run {self.cpus_per_run} --gpus-per-run "
                f"{self.gpus_per_run}; the most of a machine: "
                f"{largest['CPU']} CPUs, {largest['GPU']} GPUs"
            )
        return {name: node["NodeID"] for name, node in found.items()}

    def _ask(self, path, packages):
        """Machine's name -> whether it sees a path, and packages it lacks."""
        import ray
        from ray.util.scheduling_strategies import (
            NodeAffinitySchedulingStrategy,
        )

        # Ray sends a function of a function as a whole, so that it asks
        # machines without keras_synth, too, and imports no Keras.
        def look(path, packages):
            import importlib.util
            import os

            found = importlib.util.find_spec
            return os.path.exists(path), [x for x in packages if not found(x)]

        task = ray.remote(num_cpus=0)(look)
        answers = {}
        for name, node in self._machines().items():
            there = NodeAffinitySchedulingStrategy(node, soft=False)
            there = task.options(scheduling_strategy=there)
            answers[name] = there.remote(path, packages)
        try:
            found = ray.get([*answers.values()], timeout=ASK_SECONDS)
        except ray.exceptions.RayError as error:
            reason = " ".join(str(error).split())
            raise ConnectionError(
                "Every machine of the cluster must answer. Received: "
                f"{', '.join(answers)}: {reason}"
            ) from error
        return dict(zip(answers, found, strict=True))


class Events:
    """The events that a run writes to its file, from wherever it is."""

    def __init__(self, run, jobs):
        self.path, self.position = jobs.paths(run)["events"], 0

    def read(self):
        """Returns the events that have come since the last call, a list."""
        try:
            with open(self.path, "rb") as file:
                file.seek(self.position)
                text = file.read()
        except FileNotFoundError:
            return []
        whole = text.rfind(b"\n") + 1
        self.position += whole
        return [*filter(None, map(_event, text[:whole].splitlines()))]


def _event(line):
    """The event of a line; none if a process died while it wrote it."""
    try:
        return json.loads(line)
    except ValueError:
        return None


def startable(waiting, busy, jobs):
    """Runs that may begin now: the first of a model draws for all backends.

    Args:
        waiting: List of `Run`.
        busy: List of the runs that have begun.
        jobs: `Jobs`.

    Returns:
        List of runs. The others wait for the initial weights that one of
        these, or one that is busy, is about to write.
    """
    drawing = {jobs.paths(run)["weights"] for run in busy}
    found = []
    for run in waiting:
        weights = jobs.paths(run)["weights"]
        if weights.exists() or weights not in drawing:
            found.append(run)
            drawing.add(weights)
    return found


def perform(path):
    """One run, in a process of Ray's.

    Args:
        path: Path of its spec.

    Returns:
        Its result, if it has one, or what could not be written.
    """
    spec = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    started, begun = time.time(), time.monotonic()  # clocks are set
    try:
        result = _perform(spec)
    except UnwrittenError as error:
        return {"unwritten": str(error)}
    if result is None:
        return None
    seconds = time.monotonic() - begun
    return {"started": round(started), "seconds": seconds, **result}


def _perform(spec):
    """The result of a run, if it has one; its log says why it has none."""
    paths = spec["paths"]
    with (
        naming_what_is_unwritten(paths["events"]),
        open(paths["log"], "a", encoding="utf-8") as log,
        open(paths["events"], "a", encoding="utf-8") as events,
    ):
        for descriptor in (1, 2):
            os.dup2(log.fileno(), descriptor)

        def emit(event):
            print(json.dumps(event), file=events, flush=True)

        print(file=events)  # ends the line of a process that died
        where = {"machine": socket.gethostname(), "process": os.getpid()}
        emit({"note": f"starting on {where['machine']}", **where})
        try:
            from keras_synth.compare import worker

            return worker.perform(spec, emit)
        except UnwrittenError:
            raise
        except Exception:
            traceback.print_exc(file=log)
            return None


def _last_event(reference, run, jobs):
    """What a task of Ray's ended with."""
    import ray

    try:
        result = ray.get(reference)
    except ray.exceptions.RayError as error:
        return {"failed": jobs.failure(run, str(error))}
    if result is None:
        return {"failed": jobs.failure(run)}
    return result if "unwritten" in result else {"result": result}


def _knock(address):
    """Raises an `OSError` if nobody listens: Ray asks for two minutes."""
    found = re.fullmatch(r"(?:ray://)?(.+):(\d+)", address)
    if found:
        place = found[1], int(found[2])
        socket.create_connection(place, KNOCK_SECONDS).close()

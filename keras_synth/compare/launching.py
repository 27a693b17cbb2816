"""Processes of runs, on this machine or a Ray cluster."""

import concurrent.futures
import contextlib
import functools
import json
import os
import pathlib
import subprocess
import sys

from keras_synth.compare.scripts import IN_WORKER

LAST_LINES = 5  # of a failed run's log
RAY_RETRIES = 3  # of a run whose machine died


class RunError(Exception):
    """A run failed; the message has the path of its log."""


def execute(spec, emit=lambda event: None, processes=None):
    """Executes a run in a separate process and returns its result.

    Args:
        spec: Dictionary from `Comparison.spec`.
        emit: Function of an event, a dictionary.
        processes: Optional set, which contains the process while it lives.

    Raises:
        RunError: If the run failed.
        OSError: If a file cannot be written, so that no run can succeed.
    """
    environment = {**os.environ, "KERAS_BACKEND": spec["backend"]}
    environment[IN_WORKER] = "1"
    environment.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    path, last = pathlib.Path(spec["log"]), {}
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "keras_synth.compare.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment,
            text=True,
        )
    processes = set() if processes is None else processes
    processes.add(process)
    try:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps(spec) + "\n")
            process.stdin.flush()
        for line in process.stdout:
            last = json.loads(line)
            if not {"stop", "result"} & {*last}:
                emit(last)
        process.wait()
    finally:
        process.kill()
        with contextlib.suppress(BrokenPipeError):  # for unread input
            process.stdin.close()
        processes.discard(process)
    if "stop" in last:
        raise OSError(last["stop"])
    if "result" not in last:
        lines = path.read_text("utf-8", "replace").strip().split("\n")
        words = "\n".join(lines[-LAST_LINES:])
        raise RunError(f"failed; its log is {path}:\n{words}")
    return last["result"]


def locally(specs, emit, jobs):
    """Yields finished runs, and functions that return their results."""
    processes: set = set()
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        futures = {}
        for run, spec in specs.items():
            own_emit = functools.partial(emit, run)
            futures[pool.submit(execute, spec, own_emit, processes)] = run
        try:
            for future in concurrent.futures.as_completed(futures):
                yield futures[future], future.result
        finally:
            for future in futures:
                future.cancel()
            for process in [*processes]:
                process.kill()


def on_ray(specs, emit, address, gpus):
    """Yields finished runs on a Ray cluster, like `locally`."""
    try:
        import ray
    except ImportError as error:
        raise ImportError(
            '--ray needs Ray: pip install "keras-synth[ray]"'
        ) from error
    known = {} if address == "local" else {"address": address}
    try:
        ray.init(logging_level="ERROR", log_to_driver=False, **known)
    except (OSError, RuntimeError, ValueError) as error:
        raise ValueError(
            f"There is no answer from Ray at --ray {address}. Received: "
            f"{' '.join(str(error).split())}"
        ) from error

    def perform(spec):
        from keras_synth.compare.launching import execute

        return execute(spec)

    try:
        references = {}
        for run, spec in specs.items():
            environment = {"KERAS_BACKEND": run.backend}
            task = ray.remote(
                num_cpus=1,
                num_gpus=gpus,
                max_retries=RAY_RETRIES,
                runtime_env={"env_vars": environment},
            )(perform)
            references[task.remote(spec)] = run
        while references:
            (done, *_), _ = ray.wait([*references])
            yield references.pop(done), functools.partial(ray.get, done)
    finally:
        ray.shutdown()

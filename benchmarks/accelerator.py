"""Everything to know of a GPU or TPU, in as many minutes as there are.

Contract tests, layers eager and compiled, training, texts, memory: those parts
first that tell most, until the time is up. What is measured is on disk at
once, in benchmarks/records, and the next call goes on from there. Each backend
computes in a process of its own: what hangs or crashes costs one contender.

    python benchmarks/accelerator.py --minutes 9
    python benchmarks/accelerator.py --backends jax --parts layers training
    python benchmarks/accelerator.py --small     # on any machine, in a minute
    python docs/draw_benchmarks.py               # then the charts of the docs
"""

import contextlib
import importlib.util
import json
import os
import pathlib
import queue
import subprocess
import sys
import tempfile
import threading
import time

import accelerator_cases as cases
import measuring

ROOT = cases.ROOT
FOLDER = pathlib.Path(__file__).resolve().parent
STARTING = 120  # seconds in which a backend must have started
LEAST = 5  # seconds under which no case is begun
DEVICES = ("cpu", "gpu", "tpu")


class Ended(Exception):
    """A worker hung, or is no more; its argument says which, in a line."""


class Late(Ended):
    """It hung."""


# --- processes ----------------------------------------------------------------


class Worker:
    """A process that computes with one backend.

    Args:
        backend: String.
        device: One of `DEVICES`, or `None` for what is there.
        seconds: Float, in which it must have started.
    """

    def __init__(self, backend, device=None, seconds=STARTING):
        self.errors = tempfile.TemporaryFile(  # noqa: SIM115
            "w+", encoding="utf-8"
        )
        self.process = subprocess.Popen(
            [sys.executable, str(FOLDER / "accelerator_worker.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            env=environment(backend, device),
            cwd=FOLDER,
        )
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        try:
            self.environment = self.answer(seconds)["environment"]
        except Ended:
            self.end()
            raise

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put("")

    def ask(self, case, names, seconds):
        """Yields its answers to a case; raises `Ended` where there are none."""
        asked = {**case._asdict(), "names": names, "seconds": seconds}
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps(asked), file=self.process.stdin, flush=True)
        ends = time.monotonic() + seconds
        while True:
            found = self.answer(ends - time.monotonic())
            if "done" in found:
                return
            yield found

    def answer(self, seconds):
        try:
            line = self.lines.get(timeout=max(0, seconds))
        except queue.Empty:
            raise Late("it did not answer in time") from None
        if not line:
            status = self.process.wait()
            raise Ended(f"the process ended, status {status}: {self._last()}")
        return json.loads(line)

    def _last(self):
        self.errors.seek(0)
        said = [x for x in self.errors.read().splitlines() if x.strip()]
        return " ".join((said or ["it said nothing"])[-1].split())[:300]

    def end(self):
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.errors):
            with contextlib.suppress(OSError):
                stream.close()


def environment(backend, device=None):
    """The environment variables of a process that computes."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH")]
    found = {
        **os.environ,
        "KERAS_BACKEND": backend,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "TF_CPP_MIN_LOG_LEVEL": "3",
        # Several processes share the device's memory.
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    }
    if device == "cpu":
        found |= {"CUDA_VISIBLE_DEVICES": "-1", "JAX_PLATFORMS": "cpu"}
    return found


# --- measuring ---


class Kit:
    """Measures cases until the time is up.

    Args:
        settings: What the command line says.
        deadline: Float, by `time.monotonic`.
    """

    def __init__(self, settings, deadline):
        self.settings, self.deadline = settings, deadline
        self.records = {}  # by backends
        self.running = {}  # a process for each backend
        self.done, self.failed = set(), False  # by this call
        self.dead = set()  # backends that no longer start

    def begin(self):
        """Begins the records of backends that run on the wanted device."""
        elsewhere, settings = [], self.settings
        shared = {
            "commit": settings.commit or cases.commit(),
            "sources": cases.sources(),
            "small": settings.small,
        }
        for backend in settings.backends:
            try:
                head = self.worker(backend).environment
            except Ended as why:
                print(f"{backend} is left out: {why}")
                continue
            if head["platform"] != (settings.device or head["platform"]):
                elsewhere.append(f"{backend} finds {head['device']}")
                self.drop(backend)
                continue
            print(f"{backend}: {head['device']}, {head['versions'][backend]}")
            record = cases.Record(settings.output, {**head, **shared})
            self.records[backend] = record
        if not self.records:
            sys.exit(
                f"There is no {settings.device or 'backend'} to measure: "
                f"{'; '.join(elsewhere) or 'none could be started'}."
            )

    def worker(self, backend, seconds=STARTING):
        """The process of a backend, begun when it is first asked for."""
        if backend not in self.running:
            seconds = min(seconds, STARTING)
            device = self.settings.device
            self.running[backend] = Worker(backend, device, seconds)
        return self.running[backend]

    def drop(self, *backends):
        for backend in backends:
            if backend in self.running:
                self.running.pop(backend).end()

    def run(self, plan):
        """Returns how many cases are left."""
        for number, case in enumerate(plan):
            todo = self.todo(case)
            if todo and self.seconds_for(case) < LEAST:
                left = [x for x in plan[number:] if self.todo(x)]
                return len(left)
            if todo:
                print(case.title(), flush=True)
                self.measure(case)
        return 0

    def todo(self, case):
        """Contenders of a case that nothing is known of."""
        record, seconds = self.records[case.backend], self.seconds_for(case)
        return [
            name
            for name in case.names
            if not self.is_done(case, name)
            and case.backend not in self.dead
            and (self.settings.again or not record.has(case.key(name), seconds))
        ]

    def seconds_for(self, case):
        return min(case.seconds, self.deadline - time.monotonic())

    def _id(self, case, name):
        return case.backend, cases.text(case.key(name))

    def measure(self, case):
        if case.part == "contract":
            self.contract(case)
            return
        while (todo := self.todo(case)) and self.seconds_for(case) >= LEAST:
            if case.alone:
                self.drop(case.backend)
                todo = todo[:1]
            seconds = self.seconds_for(case)
            try:
                worker = self.worker(case.backend, seconds)
            except Ended as why:
                # That is no fault of the case.
                print(f"    {case.backend} does not start again: {why}")
                self.dead.add(case.backend)
                return
            seconds = self.seconds_for(case)
            if seconds >= LEAST:
                self.ask(worker, case, todo, seconds)

    def ask(self, worker, case, todo, seconds):
        """Lets a worker measure some contenders, and writes what it tells."""
        # The first one is who all are compared with.
        names = [x for x in case.names if x in todo or x == case.names[0]]
        names = todo if case.alone else names
        at = None
        try:
            for answer in worker.ask(case, names, seconds):
                if "name" not in answer:
                    at = answer["at"]
                elif answer["name"] in todo:
                    self.put(case, answer.pop("name"), **answer)
            late = f"its turn did not come in {seconds:.0f} s"
            if any(self.is_done(case, name) for name in todo):
                return  # the others' turn is next
        except Ended as why:
            self.drop(case.backend)
            late = f"it took more than {seconds:.0f} s"
            if not isinstance(why, Late):
                self.put_all(case, [at] if at in todo else todo, error=str(why))
                return
            todo = [at] if at in todo else todo
        if seconds < case.seconds:  # more may do, another time
            self.put_all(case, todo, unfinished=round(seconds, 1))
        else:
            self.put_all(case, todo, error=late)

    def is_done(self, case, name):
        return self._id(case, name) in self.done

    def put_all(self, case, names, **found):
        for name in names:
            if not self.is_done(case, name):
                self.put(case, name, **found)

    def put(self, case, name, **found):
        """Writes a row, and says what it says."""
        self.done.add(self._id(case, name))
        self.records[case.backend].add(case.key(name), **found)
        print(f"    {name}: {said(found)}", flush=True)

    def contract(self, case):
        """Runs the tests that are marked for accelerators."""
        seconds = self.seconds_for(case)
        variables = environment(case.backend, self.settings.device)
        try:
            found = cases.tested(case.shape["tests"], variables, seconds)
        except subprocess.TimeoutExpired:
            found = {"error": f"they took more than {seconds:.0f} s"}
            if seconds < case.seconds:
                found = {"unfinished": round(seconds, 1)}
        values = found.get("values", {})
        self.failed |= "error" in found or bool(values.get("failed"))
        self.put(case, "contract", **found)


def said(found):
    """A row in words."""
    pairs = found.get("values", found).items()
    return ", ".join(f"{key} {x}" for key, x in pairs if x not in ([], None))


# --- the command ---


def parse():
    choices = {"backends": cases.BACKENDS, "parts": cases.PARTS}
    choices |= {"ways": cases.WAYS}
    known = [x for x in cases.BACKENDS if importlib.util.find_spec(x)]
    parser = measuring.options(
        __doc__,
        choices,
        minutes=9.0,
        backends=known or [""],
        parts=[*cases.PARTS],
        ways=[*cases.WAYS],
        small=False,
        again=False,
        output=cases.FOLDER,
    )
    parser.add_argument("--device", choices=DEVICES, help="must be there")
    parser.add_argument(
        "--commit", help="of the sources, if they are not a Git repository"
    )
    settings = parser.parse_args()
    if not known:
        sys.exit("No backend is installed: PyTorch, JAX or TensorFlow.")
    if settings.minutes <= 0:
        parser.error(
            f"--minutes must be more than 0. Received: {settings.minutes:g}"
        )
    return settings


def check_folder(folder):
    """Ends the program if records cannot be read or written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        sys.exit(
            f"--output must be a folder that can be written: {error.strerror}. "
            f"Received: {folder}"
        )
    for path in folder.glob("*.json"):
        cases.load(path)


def main():
    settings = parse()
    check_folder(settings.output)
    kit = Kit(settings, time.monotonic() + 60 * settings.minutes)
    try:
        kit.begin()
        plan = [
            case
            for case in cases.plan([*kit.records], settings.small)
            if case.part in settings.parts
            and (case.backend != "torch" or case.way in settings.ways)
        ]
        left = kit.run(plan)
    finally:
        kit.drop(*list(kit.running))
    for record in kit.records.values():
        print(record.path)
    if left:
        print(
            f"{left} of {len(plan)} cases are left; "
            "run the same command again to go on."
        )
    return int(kit.failed)


if __name__ == "__main__":
    sys.exit(main())

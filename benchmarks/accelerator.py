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
import multiprocessing
import os
import pathlib
import subprocess
import sys
import tempfile
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


# --- processes ---


def compute(connection, variables, errors, folder):
    """Answers cases with one backend: the function of a process."""
    os.environ.update(variables)
    sys.path[:0] = [str(folder), str(ROOT)]
    for number in (1, 2):
        os.dup2(os.open(errors, os.O_WRONLY | os.O_APPEND), number)
    import accelerator_worker

    accelerator_worker.answer(connection)


class Worker:
    """A process that computes with one backend.

    Args:
        backend: String.
        device: One of `DEVICES`, or `None` for what is there.
        seconds: Float, in which it must have started.
    """

    def __init__(self, backend, device=None, seconds=STARTING):
        self.errors = tempfile.NamedTemporaryFile(  # noqa: SIM115
            "r", encoding="utf-8", errors="replace"
        )
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        variables = environment(backend, device)
        arguments = other, variables, self.errors.name, FOLDER
        self.process = context.Process(target=compute, args=arguments)
        self.process.start()
        other.close()
        try:
            self.environment = self.answer(seconds)
        except Ended:
            self.end()
            raise

    def ask(self, case, names, seconds):
        """Yields its answers to a case; raises `Ended` where there are none."""
        ends = time.monotonic() + seconds
        asked = {**case._asdict(), "names": names, "seconds": seconds}
        with contextlib.suppress(OSError):  # it ended: `answer` says so
            self.connection.send(asked)
        while found := self.answer(ends - time.monotonic()):
            yield found

    def answer(self, seconds):
        if not self.connection.poll(max(0, seconds)):
            raise Late("it did not answer in time")
        try:
            return self.connection.recv()
        except (EOFError, OSError):
            self.process.join()
        said = [x for x in self.errors.read().splitlines() if x.strip()]
        last = " ".join((said or ["it said nothing"])[-1].split())[:300]
        status = self.process.exitcode
        raise Ended(f"the process ended, status {status}: {last}")

    def end(self):
        self.process.kill()
        self.process.join()
        self.connection.close()
        self.errors.close()


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
        left = 0
        for case in plan:
            if self.todo(case) and self.seconds_for(case) >= LEAST:
                print(case.title(), flush=True)
            while todo := self.todo(case):
                if self.seconds_for(case) < LEAST or not self.ask(case, todo):
                    left += 1
                    break
        return left

    def todo(self, case):
        """Contenders of a case that nothing is known of."""
        record = self.records[case.backend]
        return [
            name
            for name in case.names
            if case.backend not in self.dead
            and self._id(case, name) not in self.done
            and (self.settings.again or not record.has(case.key(name)))
        ]

    def seconds_for(self, case):
        return min(case.seconds, self.deadline - time.monotonic())

    def _id(self, case, name):
        return case.backend, cases.text(case.key(name))

    def ask(self, case, todo):
        """Lets a worker measure some contenders, and writes its answers.

        Returns:
            Whether something is known now, or never will be: if not, more time
            may help.
        """
        if case.part == "contract":
            return self.contract(case)
        if case.alone:
            self.drop(case.backend)
            todo = todo[:1]
        seconds, at = self.seconds_for(case), None
        try:
            worker = self.worker(case.backend, seconds)
        except Ended as why:
            # The case did not run, so it is not to blame.
            print(f"    {case.backend} does not start again: {why}")
            self.dead.add(case.backend)
            return True
        # The first one is who all are compared with.
        names = [x for x in case.names if x in todo or x == case.names[0]]
        known = len(self.done)
        error = f"its turn did not come in {seconds:.0f} s"
        try:
            seconds = self.seconds_for(case)
            asked = todo if case.alone else names
            for answer in worker.ask(case, asked, seconds):
                if "name" not in answer:
                    at = answer["at"]
                elif answer["name"] in todo:
                    self.put(case, answer.pop("name"), **answer)
            if len(self.done) > known:
                return True  # the others' turn is next
        except Ended as why:
            self.drop(case.backend)
            todo = [at] if at in todo else todo
            error = f"it took more than {seconds:.0f} s"
            if not isinstance(why, Late):
                error = str(why)
            elif seconds < case.seconds:
                return False
        else:
            if seconds < case.seconds:
                return False
        for name in todo:
            if self._id(case, name) not in self.done:
                self.put(case, name, error=error)
        return True

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
            if seconds < case.seconds:
                return False
            found = {"error": f"they took more than {seconds:.0f} s"}
        failed = found.get("values", {}).get("failed")
        self.failed |= "error" in found or bool(failed)
        self.put(case, "contract", **found)
        return True


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
    return settings


def main():
    settings = parse()
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

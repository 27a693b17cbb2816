"""Faults without number: `python tests/faults/harness.py --help`.

One process imports all there is to import, and forks a child for each case:
the child meets a fault, another child does the same again in the same folder,
without. What that comes to must be what a run that met none comes to.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

import points
import scenarios

import keras_synth_command
from keras_synth.compare.results import Results

PAGE = 4096


def fork(work, log, until=None, meanwhile=None):
    """Runs a function in a child; returns its status, and what it said.

    Args:
        work: Function; what it returns is the status.
        log: Path of what the child prints.
        until: Seconds after which it is killed.
        meanwhile: Function that is called again and again while it runs.

    Returns:
        Tuple: the status, negative for a signal, and a string.
    """
    sys.stdout.flush()
    child = os.fork()
    if not child:
        status = 70
        try:
            scenarios.quietly(log)
            # A file of HDF5 that finds no room says so when it is forgotten,
            # too; in a command that is in the log of a worker.
            sys.excepthook = sys.unraisablehook = lambda *_: None
            status = work()
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    started = time.monotonic()
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status), read(log)
        if until is not None and time.monotonic() - started > until:
            os.kill(child, signal.SIGKILL)
            until = None
        if meanwhile is not None:
            meanwhile()
        time.sleep(0.001)


def read(log):
    return pathlib.Path(log).read_text(errors="replace")


class Cases:
    """The cases of a scenario.

    Args:
        name: String, of the scenario.
        place: Path of a folder for all files.
    """

    def __init__(self, name, place):
        self.name, self.place = name, place
        self.scenario, self.log = scenarios.SCENARIOS[name], place / "log"
        self.start, self.folder = place / "start", place / "out"
        self.check(fork(self.prepare, self.log))
        self.counts = collections.Counter()
        self.seconds, self.kinds, self.expected = self.undisturbed()

    def prepare(self):
        scenarios.prepare(self.name, self.start)
        return 0

    def check(self, ended):
        status, said = ended
        assert status == 0, said
        assert "Traceback" not in said, said

    def run(self, watched=None, clock=None):
        """What a child does that may meet a fault."""

        def work():
            if watched is not None:
                points.watch(watched)
            if clock is not None:
                clock()
            return self.scenario(self.folder)

        return work

    def outcome(self):
        """What a child comes to that meets none, and its points of writing."""
        path, watched = self.place / "outcome", points.Points(self.folder)

        def work():
            points.watch(watched)
            status = self.scenario(self.folder)
            kinds = [*watched.kinds]
            found = scenarios.outcome(self.name, self.folder)
            path.write_text(json.dumps([kinds, found]))
            return status

        self.check(fork(work, self.log))
        return json.loads(path.read_text())

    def undisturbed(self):
        """Seconds, points and outcome of a run that meets no fault."""
        with scenarios.fresh(self.folder, self.start):
            least = used(self.folder)
            kinds, expected = self.outcome()
            self.sizes = least + 2 * PAGE, used(self.folder)
        with scenarios.fresh(self.folder, self.start):
            started = time.monotonic()
            _, again = self.outcome()
            seconds = time.monotonic() - started
        assert again == expected, difference(again, expected)
        return seconds, kinds, expected

    def case(self, disturbed, **options):
        """A fault, and what comes after: as if there had been none."""
        with scenarios.fresh(self.folder, self.start):
            ended = fork(disturbed, self.log, **options)
            kept = self.complete_rows()
            _, found = self.outcome()
            assert self.complete_rows()[: len(kept)] == kept
            assert found == self.expected, difference(found, self.expected)
        return ended

    def complete_rows(self):
        path = self.folder / "results.jsonl"
        lines = path.read_bytes().split(b"\n") if path.exists() else [b""]
        return lines[:-1]

    def kill_at(self, number):
        status, said = self.case(
            self.run(points.Points(self.folder, number, points.kill))
        )
        assert status == -signal.SIGKILL, (status, said)

    def fill_at(self, number):
        status, said = self.case(
            self.run(points.Points(self.folder, number, points.fill))
        )
        if self.kinds[number] not in ("remove", "truncate"):  # need no room
            self.check_full(status, said)

    def check_full(self, status, said):
        """A line says that there is no room, unless there was enough."""
        if not status:
            return
        lines = said.splitlines()
        assert "cannot be written (No space left" in lines[-1], (status, said)
        if self.name == "presets":
            assert "UnwrittenError" in lines[-1], said
            return
        assert status == 2, (status, said)
        assert "Traceback" not in said, said
        assert lines[-1].startswith("keras-synth "), said

    def small_disk(self, share):
        """A disk with a share of the room that there must be; then with more.

        Needs the right to mount one.
        """
        least, most = self.sizes
        size = int(least + share * (most - least))
        self.folder.mkdir()
        mount(f"size={size}", self.folder)
        try:
            shutil.copytree(self.start, self.folder, dirs_exist_ok=True)
            status, said = fork(self.run(), self.log)
            kept = self.complete_rows()
            self.check_full(status, said)
            mount("remount,size=100m", self.folder)
            _, found = self.outcome()
            assert self.complete_rows()[: len(kept)] == kept
            assert found == self.expected, difference(found, self.expected)
        finally:
            subprocess.run(["umount", "--lazy", self.folder], check=True)
            self.folder.rmdir()
        self.counts["full small disks"] += status != 0

    def kill_after(self, seconds):
        status, _ = self.case(self.run(), until=seconds, meanwhile=self.look)
        self.counts["too late to kill"] += status == 0

    def look(self):
        """What a reader does meanwhile."""
        rows = Results(self.folder / "results.jsonl").rows
        self.counts["looks at results"] += 1
        self.counts["results seen"] += len(rows)

    def write_twice(self):
        """The same again in the same folder, and a report, meanwhile."""
        second, report = (self.log.with_name(x) for x in ("second", "report"))
        ends = {}

        def meanwhile():
            if "second" not in ends and self.has_begun():
                ends["second"] = fork(self.run(), second)
            if "report" not in ends and any(self.complete_rows()):
                ends["report"] = fork(self.report, report)

        with scenarios.fresh(self.folder, self.start):
            self.check(fork(self.run(), self.log, meanwhile=meanwhile))
            _, found = self.outcome()
            assert found == self.expected, difference(found, self.expected)
        if "report" in ends:  # a result was there before the last one was
            self.check(ends["report"])
            self.counts["reports meanwhile"] += 1
        if self.name == "presets":  # of equal files, each whole
            self.check(ends["second"])
            return
        status, said = ends["second"]
        assert status == 2, (status, said)
        assert "Traceback" not in said, said
        assert "is being written by process " in said.splitlines()[-1], said

    def has_begun(self):
        names = os.listdir(self.folder)
        return any(x == ".lock" or x.endswith("-partial") for x in names)

    def report(self):
        return keras_synth_command.main(["report", str(self.folder)])

    def jump(self, seconds, after):
        """A clock that is set while the scenario runs, which is then killed."""

        def jumping():
            set_clock(seconds, after)

        disturbed = self.run(clock=jumping)
        self.case(disturbed, until=random.uniform(0, self.seconds))
        self.case(disturbed)


def used(folder):
    """Bytes of a folder on a disk of pages."""
    sizes = [x.stat().st_size for x in folder.rglob("*")]
    return sum(-(-size // PAGE) + 1 for size in sizes) * PAGE


def mount(options, folder):
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder]
    subprocess.run(command, check=True, capture_output=True)


def set_clock(seconds, after):
    """Makes `time.time` jump once, after some seconds."""
    original, started = time.time, time.monotonic()

    def jumped():
        gone = time.monotonic() - started > after
        return original() + (seconds if gone else 0)

    time.time = jumped


def difference(found, expected):
    """The names under which two outcomes differ."""
    names = sorted({*found, *expected})
    differ = [x for x in names if found.get(x) != expected.get(x)]
    deeper = [
        (x, difference(found[x], expected[x]))
        for x in differ
        if isinstance(found.get(x), dict) and isinstance(expected.get(x), dict)
    ]
    return deeper or [(x, found.get(x), expected.get(x)) for x in differ]


def spread(kinds, most):
    """At most so many points, evenly: half of them between two writes."""
    writes = [i for i, kind in enumerate(kinds) if "write" in kind]
    others = [i for i, kind in enumerate(kinds) if "write" not in kind]
    fewer = min(len(others), max(most // 2, most - len(writes)))
    return sorted([*_some(others, fewer), *_some(writes, most - fewer)])


def _some(numbers, most):
    most = min(len(numbers), most)
    return [numbers[i * len(numbers) // most] for i in range(most)]


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("scenarios", nargs="*", default=[*scenarios.SCENARIOS])
    add("--kills-at-points", type=int, default=10**6, metavar="N")
    add("--disks-full", type=int, default=10**6, metavar="N")
    add("--kills-at-random", type=int, default=20, metavar="N")
    add("--jumps", type=int, default=4, metavar="N")
    add("--small-disks", type=int, default=0, metavar="N")
    add("--two-writers", type=int, default=4, metavar="N")
    add("--seed", type=int, default=0)
    return parser.parse_args()


def main():
    given = parse()
    random.seed(given.seed)
    for name in given.scenarios:
        place = pathlib.Path(tempfile.mkdtemp())
        try:
            print(json.dumps(report(name, place, given)), flush=True)
        finally:
            shutil.rmtree(place, ignore_errors=True)


def report(name, place, given):
    started = time.monotonic()
    cases = Cases(name, place)
    at_points = spread(cases.kinds, given.kills_at_points)
    full_at = spread(cases.kinds, given.disks_full)
    for number in at_points:
        cases.kill_at(number)
    for number in full_at:
        cases.fill_at(number)
    for _ in range(given.kills_at_random):
        cases.kill_after(random.uniform(0, cases.seconds))
    years = (365 * 86400 * x for x in (-20, 10, -1, 1))
    for seconds in [*years][: given.jumps]:
        cases.jump(seconds, random.uniform(0, cases.seconds))
    for number in range(given.small_disks):
        cases.small_disk((number + 0.5) / given.small_disks)
    for _ in range(given.two_writers):
        cases.write_twice()
    return {
        "scenario": name,
        "backend": scenarios.BACKEND,
        "points of writing": len(cases.kinds),
        "kills at points": len(at_points),
        "full disks": len(full_at),
        "kills at random": given.kills_at_random,
        "clocks set": given.jumps,
        "two writers": given.two_writers,
        "small disks": given.small_disks,
        **cases.counts,
        "seconds": round(time.monotonic() - started),
    }


if __name__ == "__main__":
    main()

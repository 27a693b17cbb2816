"""`keras-synth report`: tables and pictures of results that are on disk."""

import argparse
import json
import pathlib

from keras_synth._system.command_line import adder
from keras_synth.compare import running, tasks
from keras_synth.compare.report import report
from keras_synth.compare.results import Results


def main(arguments, prog):
    """Reports on the results in a folder; returns the exit status."""
    commands = parser(prog)
    given = commands.parse_args(arguments)
    with running.errors_in_a_line(commands, given):
        groups = comparable(rows_of(given.folder, given.task))
        for number, rows in enumerate(groups, 1):
            settings = rows[0]["key"]["settings"]
            folder = given.folder
            if len(groups) > 1:
                folder = given.folder / "reports" / f"{number}"
                print(f"{number}. {describe(settings)}")
            folder.mkdir(parents=True, exist_ok=True)
            report(rows, tasks.TASKS[settings["task"]], folder, given.html)
    return 0


def parser(prog="keras-synth report"):
    """The command line."""
    made = argparse.ArgumentParser(
        prog=prog,
        description="Prints the table of a comparison's results and writes its "
        "files (results.csv, results.md, curves.png) again. Results of other "
        "settings or data have a table each.",
    )
    add = adder(made)
    add(
        "folder",
        nargs="?",
        type=pathlib.Path,
        default=pathlib.Path("compare"),
        help="--output of `keras-synth compare` or `train`",
    )
    add(
        "--task",
        metavar="TASK",
        help="results of this task alone (default: of all)",
    )
    add(
        "--html",
        action="store_true",
        help="write report.html, too: a page to send on, which needs no other "
        "file and no network",
    )
    return made


def rows_of(folder, task=None):
    """The results in a folder, of one task or all.

    Raises:
        ValueError: There is none.
    """
    path = folder / "results.jsonl"
    results = Results(path)
    results.check_figures()
    rows = results.rows
    chosen = [
        row
        for row in rows
        if row["key"]["settings"]["task"] in ([task] if task else tasks.TASKS)
    ]
    if not chosen:
        found = sorted({row["key"]["settings"]["task"] for row in rows})
        expected = f" of the task {task!r}" if task else ""
        raise ValueError(
            f"Expected results{expected} in {path}. Name the --output of a "
            "comparison that has finished a run. Received: "
            + (f"results of {', '.join(found)}" if found else "none")
        )
    return chosen


def comparable(rows):
    """Lists of the rows that a table may hold: of equal settings and data."""
    found = {}
    for row in rows:
        key = row["key"]
        shared = json.dumps([key["settings"], key["data"]])
        found.setdefault(shared, []).append(row)
    return [*found.values()]


def describe(settings):
    """The settings in which a task's runs differ from its defaults."""
    task = tasks.TASKS[settings["task"]]
    usual = task.settings(settings["task"]).to_json()
    other = [
        f"{name} {value}"
        for name, value in settings.items()
        if value != usual.get(name)
    ]
    return f"{settings['task']}: {', '.join(other) or 'its usual settings'}"

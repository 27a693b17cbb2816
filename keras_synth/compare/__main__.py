"""The command `python -m keras_synth.compare`."""

import argparse
import dataclasses
import pathlib
import sys

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from keras_synth.compare import grid, launch, prepare, report, tasks
from keras_synth.compare.results import Results

CHOICES = {
    "keep": ("start", "end"),
    "pooling": ("mean", "first"),
    "schedule": grid.SCHEDULES,
    "dtype_policy": grid.DTYPE_POLICIES,
}
EXAMPLES = """
examples:
  python -m keras_synth.compare --task pairs --variants V R D R+V
  python -m keras_synth.compare --task imdb --data aclImdb_v1.tar.gz \\
      --variants V R FR --rank 32 --backends tensorflow --output imdb
  python -m keras_synth.compare --task csv --data train.csv \\
      --test-data test.csv --text body --label topic
  python -m keras_synth.compare --task translations --variants V R R+V
  python -m keras_synth.compare --task multi30k --data task1/raw --epochs 15
  python -m keras_synth.compare --task wikitext2 --data wikitext-2
"""


def parser():
    """The command line."""
    made = argparse.ArgumentParser(
        prog="python -m keras_synth.compare",
        description="Trains variants x heads x seeds x backends on a task, "
        "each run in a process of its own: to classify, to translate, or to "
        "model language.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = made.add_argument
    add("--task", choices=tasks.TASKS, default="reviews")
    add("--data", help="path of the task's files")
    add("--test-data", help="csv, text_pairs, text: a file to test on")
    add("--text", nargs="+", help="csv: one text column, or two")
    add("--label", help="csv: the label column")
    add("--no-header", action="store_true", help="csv: columns are numbers")
    add("--variants", nargs="+", default=["V", "R", "D", "R+V"])
    add("--num-heads", type=int, nargs="+", default=[4])
    add("--seeds", type=int, nargs="+", default=[0])
    add("--backends", nargs="+", choices=grid.BACKENDS, default=["jax"])
    add("--output", type=pathlib.Path, default=pathlib.Path("compare"))
    add(
        "--resume",
        action="store_true",
        help="go on with the grid in --output, or add to it",
    )
    defaults = grid.Settings("")
    for field in dataclasses.fields(grid.Settings)[1:]:
        value = getattr(defaults, field.name)
        options = {"type": type(value)}
        if field.name == "lengths":
            options = {"type": int, "nargs": "*"}
        elif field.name in CHOICES:
            options = {"choices": CHOICES[field.name]}
        name = "--" + field.name.replace("_", "-")
        add(name, help=f"default: {value}, or the task's", **options)
    return made


def settings_of(given):
    """The `Settings` of a command line: given, the task's, or general."""
    task = tasks.TASKS[given.task]
    values = {"task": given.task, **task.defaults}
    for field in dataclasses.fields(grid.Settings)[1:]:
        value = getattr(given, field.name)
        if value is not None:
            _check_used(field.name, value, given.task, task.kind)
            values[field.name] = value
    values["lengths"] = tuple(values.get("lengths", ()))
    if given.sequence_length and given.lengths is None:
        # The task's own lengths, as far as they are of use.
        values["lengths"] = tuple(
            n for n in values["lengths"] if n < given.sequence_length
        )
    return grid.Settings(**values)


def _check_used(name, value, task, kind):
    if name in kind.unused:
        option = f"--{name.replace('_', '-')}"
        raise ValueError(
            f"{option} means nothing to the task {task!r}, which is scored by "
            f"{kind.score.name}. Leave it out. Received: {option} {value}"
        )


def source_of(given):
    """The `Source` of a command line."""
    columns = {"text": given.text, "label": [given.label]}
    for name, values in columns.items():
        if values in (None, [None]):
            columns[name] = None
            continue
        if given.no_header:
            values = [int(v) if v.isdigit() else v for v in values]
        columns[name] = values[0] if len(values) == 1 else tuple(values)
    return tasks.Source(
        given.data, given.test_data, **columns, header=not given.no_header
    )


def main():
    """Runs the grid; returns the exit status."""
    commands = parser()
    given = commands.parse_args()
    folder = given.output
    try:
        settings = settings_of(given)
        wanted = grid.runs(
            given.variants,
            given.num_heads,
            given.seeds,
            given.backends,
            settings,
        )
        results = Results(folder / "results.jsonl")
        left_over = any((folder / "checkpoints").glob("*.npz"))
        if (results.rows or left_over) and not given.resume:
            raise ValueError(
                f"There are results in {folder}. Pass --resume to go on with "
                "them, or another --output."
            )
        data = prepare.prepare(
            settings, source_of(given), folder / "data", print
        )
        digest = digest_of(data, settings)
    except (ImportError, OSError, TypeError, ValueError) as error:
        commands.exit(2, f"{commands.prog}: {error}\n")
    launcher = launch.Launcher(settings, data, digest, folder)
    failed = run_all(wanted, launcher, results)
    keys = [launcher.key(run) for run in wanted]
    rows = [row for row in results.rows if row["key"] in keys]
    if rows:
        report.report(rows, tasks.TASKS[settings.task], folder)
    return 1 if failed else 0


def digest_of(data, settings):
    """What identifies the arrays in a file, if they are enough to train on."""
    prepared = prepare.read(data)
    kind = tasks.TASKS[settings.task].kind
    batches, _ = kind.batches(settings, 0, prepared)
    if not len(batches):
        raise ValueError(
            "There are too few examples to train on for one batch. Pass a "
            f"smaller --batch-size. Received: {settings.batch_size}"
        )
    return prepared.digest


def run_all(wanted, launcher, results):
    """Runs what has no result yet; returns the runs that failed."""
    console = Console(stderr=True)
    absent = launch.missing(sorted({run.backend for run in wanted}))
    if absent:
        console.print(
            f"Not installed and skipped: {', '.join(absent)}. "
            f'pip install "keras-synth[{",".join(absent)}]" brings them.',
            markup=False,
        )
    wanted = [run for run in wanted if run.backend not in absent]
    todo = [run for run in wanted if launcher.key(run) not in results]
    if len(todo) < len(wanted):
        console.print(f"{len(wanted) - len(todo)} of {len(wanted)} are done.")
    failed, kind = [], tasks.TASKS[launcher.settings.task].kind
    with progress_on(console) as progress:
        grid_task = progress.add_task("all runs", total=len(todo), note="")
        for run in todo:
            task = progress.add_task(str(run), total=None, note="starting")
            try:
                result = launcher(run, follower(progress, task, kind))
            except launch.RunFailed as error:
                console.print(str(error), markup=False, style="red")
                failed.append(run)
            else:
                results.append(result)
                launcher.forget(run)
                console.print(
                    f"{run}: {kind.score.tell(result['score'])} in "
                    f"{result['seconds']:.0f} s",
                    highlight=False,
                )
            progress.remove_task(task)
            progress.advance(grid_task)
    return failed


def progress_on(console):
    """A progress display with a column for notes."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        console=console,
    )


def follower(progress, task, kind):
    """A function that shows the events of a run of a `Kind`."""

    def follow(event):
        changes = {}
        if "steps" in event:
            changes["total"] = event["steps"]
        if "step" in event:
            changes["completed"] = event["step"]
        if "loss" in event:
            changes["note"] = f"loss {event['loss']:.3f}"
        if "score" in event:
            changes["note"] = kind.epoch_score.tell(event["score"])
        if "note" in event:
            changes["note"] = event["note"]
        progress.update(task, **changes)

    return follow


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print(
            "\nStopped; the same command with --resume goes on.",
            file=sys.stderr,
        )
        sys.exit(130)

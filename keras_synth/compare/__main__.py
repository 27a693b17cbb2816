"""The command `python -m keras_synth.compare`."""

import os
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

from keras_synth.command_line import as_options
from keras_synth.compare import (
    grid,
    initial,
    launch,
    options,
    prepare,
    report,
    tasks,
)
from keras_synth.compare.results import Results


def main():
    """Runs the grid; returns the exit status."""
    commands = options.parser()
    given = commands.parse_args()
    folder = given.output
    try:
        settings = options.settings_of(given)
        objective = tasks.TASKS[settings.task].objective
        wanted = grid.runs(
            given.variants,
            given.num_heads,
            given.seeds,
            given.backends,
            settings,
            objective.needs,
        )
        if getattr(settings, "init", ""):
            initial.check(settings, wanted, objective.init_backbone)
        results = Results(folder / "results.jsonl")
        left_over = any((folder / "checkpoints").glob("*.npz"))
        if (results.rows or left_over) and not given.resume:
            raise ValueError(
                f"There are results in {folder}. Pass --resume to go on with "
                "them, or another --output."
            )
        data = prepare.prepare(
            settings, options.source_of(given), folder / "data", print
        )
        digest = digest_of(data, settings)
    except (ImportError, OSError, TypeError, ValueError) as error:
        words = as_options(error, vars(given))
        commands.exit(2, f"{commands.prog}: {words}\n")
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
    objective = tasks.TASKS[settings.task].objective
    batches, *_ = objective.batches(settings, 0, prepared)
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
    failed = []
    objective = tasks.TASKS[launcher.settings.task].objective
    with progress_on(console) as progress:
        grid_task = progress.add_task("all runs", total=len(todo), note="")
        for run in todo:
            task = progress.add_task(str(run), total=None, note="starting")
            try:
                result = launcher(run, follower(progress, task, objective))
            except launch.RunFailed as error:
                console.print(str(error), markup=False, style="red")
                failed.append(run)
            else:
                results.append(result)
                launcher.forget(run)
                score = objective.score.describe(result["score"])
                console.print(
                    f"{run}: test {score} in {result['seconds']:.0f} s",
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


def follower(progress, task, objective):
    """A function that shows the events of a run."""

    def on_event(event):
        changes = {}
        if "steps" in event:
            changes["total"] = event["steps"]
        if "step" in event:
            changes["completed"] = event["step"]
        if "loss" in event:
            changes["note"] = f"loss {event['loss']:.3f}"
        if "score" in event:
            score = objective.epoch_score.describe(event["score"])
            changes["note"] = f"validation {score}"
        if "note" in event:
            changes["note"] = event["note"]
        progress.update(task, **changes)

    return on_event


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print(
            "\nStopped; the same command with --resume goes on.",
            file=sys.stderr,
        )
        sys.exit(130)

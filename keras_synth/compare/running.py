"""From settings to results: what the commands that train have in common."""

import contextlib

from keras_synth.command_line import as_options
from keras_synth.compare import initial, launch, prepare, report, tasks
from keras_synth.compare.results import Results

PACKAGES = ("keras_hub", "matplotlib", "rich")


@contextlib.contextmanager
def errors_in_a_line(parser, given):
    """Ends the command with one line where arguments or files do not do.

    Args:
        parser: `argparse.ArgumentParser`.
        given: What it returned.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        needs = f"{parser.prog}: This needs the package {error.name!r}: "
        parser.exit(2, f'{needs}pip install "keras-synth[compare]"\n')
    except (ImportError, OSError, TypeError, ValueError) as error:
        words = as_options(error, vars(given))
        parser.exit(2, f"{parser.prog}: {words}\n")


def begin(settings, source, wanted, folder, resume, keep=None):
    """Checks all that can be checked before a run, and tokenizes the texts.

    Args:
        settings: `Settings`.
        source: `Source`.
        wanted: List of `Run`.
        folder: Path of the folder for all files.
        resume: Boolean, whether results that are there are to be kept.
        keep: As of `Launcher`.

    Returns:
        Tuple `(launcher, results)`.
    """
    if absent := launch.missing(PACKAGES):
        raise ImportError(
            f"Training needs {', '.join(absent)}: "
            'pip install "keras-synth[compare]"'
        )
    objective = tasks.TASKS[settings.task].objective
    if getattr(settings, "init", ""):
        initial.check(settings, wanted, objective.init_backbone)
    results = Results(folder / "results.jsonl")
    left_over = any((folder / "checkpoints").glob("*.npz"))
    if (results.rows or left_over) and not resume:
        raise ValueError(
            f"There are results in {folder}. Pass --resume to go on with "
            "them, or another --output."
        )
    data = prepare.prepare(settings, source, folder / "data", print)
    digest = digest_of(data, settings)
    launcher = launch.Launcher(settings, data, digest, folder, keep)
    return launcher, results


def complete(wanted, launcher, results):
    """Runs what has no result yet, and reports on all; returns the rows.

    Args:
        wanted: List of `Run`.
        launcher: `Launcher`.
        results: `Results`.

    Returns:
        Tuple: results of these runs, and the runs that failed.
    """
    failed = run_all(wanted, launcher, results)
    keys = [launcher.key(run) for run in wanted]
    rows = [row for row in results.rows if row["key"] in keys]
    if rows:
        task = tasks.TASKS[launcher.settings.task]
        report.report(rows, task, launcher.folder)
    return rows, failed


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
    from rich.console import Console  # commands start faster

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
    from rich import progress  # commands start faster

    return progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(),
        progress.TextColumn("{task.fields[note]}"),
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

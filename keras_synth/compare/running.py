"""From settings to results: what the commands that train have in common."""

import contextlib

from keras_synth._system.command_line import as_options
from keras_synth._system.files import UnwrittenError
from keras_synth.compare import (
    callbacks,
    grid,
    initial,
    options,
    packages,
    prepare,
    report,
    tasks,
)
from keras_synth.compare.jobs import Jobs, sweep
from keras_synth.compare.locks import sole_writer
from keras_synth.compare.results import Results

PACKAGES = ("keras_hub", "matplotlib", "rich")


@contextlib.contextmanager
def disk_errors_in_a_line(parser):
    """Ends the command with one line where a file cannot be written.

    Args:
        parser: `argparse.ArgumentParser`.
    """
    try:
        yield
    except OSError as error:
        words = f"{parser.prog}: {error}".rstrip(".")
        parser.exit(2, f"{words}. The same command with --resume goes on.\n")


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


def train_all(parser, given, variants, num_heads, seeds, backends, keep=None):
    """Does what a command line that trains says.

    All that can be checked before a run is, in order of the time it takes.

    Args:
        parser: `argparse.ArgumentParser`, made by `options.parser`.
        given: What it returned.
        variants: List of strings.
        num_heads: List of integers.
        seeds: List of integers.
        backends: List of strings, or nothing for the default one.
        keep: As of `Jobs`.

    Returns:
        Tuple: results of these runs, and the runs that failed.
    """
    with contextlib.ExitStack() as held:
        with errors_in_a_line(parser, given):
            settings = options.settings_of(given)
            source = options.source_of(given)
            launcher = options.launcher_of(given)
            wanted = grid.runs(
                variants,
                num_heads,
                seeds,
                backends or [grid.default_backend()],
                settings,
                tasks.TASKS[settings.task].objective.needs,
            )
            check(settings, wanted)
            said = options.beside_settings(given)
            check_callbacks(given.callbacks, settings, wanted, given.output)
            held.enter_context(sole_writer(given.output))
            sweep(given.output)
            results = results_in(given.output, given.resume)
            held.enter_context(launcher)
            launcher.check(given.output)
            data = prepare.prepare(
                settings, source, given.output / "data", print
            )
            digest = digest_of(data, settings)
        jobs = Jobs(settings, data, digest, given.output, keep, said)
        with disk_errors_in_a_line(parser):
            return complete(wanted, jobs, launcher, results)


def check(settings, wanted):
    """Raises if a package is missing, or a preset to start from."""
    packages.require(PACKAGES, "Training")
    objective = tasks.TASKS[settings.task].objective
    if getattr(settings, "init", ""):
        initial.check(settings, wanted, objective.init_backbone)


def check_callbacks(name, settings, wanted, folder):
    """Raises unless what `--callbacks` names makes callbacks for a run."""
    if name:
        jobs = Jobs(settings, "", "", folder)
        place = jobs.paths(wanted[0])["callbacks"]
        info = callbacks.RunInfo.of(wanted[0], settings.to_json(), place)
        callbacks.check(name, info)


def results_in(folder, resume):
    """The `Results` in a folder; there must be none unless they are wanted."""
    results = Results(folder / "results.jsonl")
    results.check_figures()
    left_over = any((folder / "checkpoints").glob("*.npz"))
    if (results.rows or left_over) and not resume:
        raise ValueError(
            f"There are results in {folder}. Pass --resume to go on with "
            "them, or another --output."
        )
    return results


def complete(wanted, jobs, launcher, results):
    """Runs what has no result yet, and reports on all; returns the rows.

    Args:
        wanted: List of `Run`.
        jobs: `Jobs`.
        launcher: `Launcher`, connected.
        results: `Results`.

    Returns:
        Tuple: results of these runs, and the runs that failed.
    """
    failed = run_all(wanted, jobs, launcher, results)
    keys = [jobs.key(run) for run in wanted]
    rows = [row for row in results.rows if row["key"] in keys]
    if rows:
        task = tasks.TASKS[jobs.settings.task]
        report.report(rows, task, jobs.folder)
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


def run_all(wanted, jobs, launcher, results):
    """Runs what has no result yet; returns the runs that failed."""
    from rich.console import Console  # commands start faster

    console = Console(stderr=True)
    absent = launcher.missing(sorted({run.backend for run in wanted}))
    if absent:
        console.print(
            f"Not installed and skipped: {', '.join(absent)}. "
            f'pip install "keras-synth[{",".join(absent)}]" brings them.',
            markup=False,
        )
    wanted = [run for run in wanted if run.backend not in absent]
    todo = [run for run in wanted if jobs.key(run) not in results]
    for run in set(wanted) - {*todo}:
        jobs.forget(run)  # killed before it had
    if len(todo) < len(wanted):
        console.print(f"{len(wanted) - len(todo)} of {len(wanted)} are done.")
    failed = []
    objective = tasks.TASKS[jobs.settings.task].objective
    with (
        progress_on(console) as progress,
        # Stopped in between, it ends what runs.
        contextlib.closing(launcher(todo, jobs)) as happening,
    ):
        grid_task = progress.add_task("all runs", total=len(todo), note="")
        shown = {}  # run -> its line
        for run, event in happening:
            if run not in shown:
                shown[run] = progress.add_task(str(run), total=None, note="")
            if "unwritten" in event:  # nor could what comes next
                raise UnwrittenError(None, event["unwritten"], "")
            if "failed" in event:
                console.print(event["failed"], markup=False, style="red")
                failed.append(run)
            elif "result" in event:
                result = event["result"]
                said = {"options": jobs.options} if jobs.options else {}
                results.append({"key": jobs.key(run), **said, **result})
                jobs.forget(run)
                score = objective.score.describe(result["score"])
                console.print(
                    f"{run}: test {score} in {result['seconds']:.0f} s",
                    highlight=False,
                )
            else:
                show(event, progress, shown[run], objective)
                continue
            progress.remove_task(shown.pop(run))
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


def show(event, progress, task, objective):
    """Shows an event of a run on its line."""
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

"""`keras-synth compare`: variants x heads x seeds x backends on a task."""

import argparse
import pathlib

from keras_synth.command_line import adder
from keras_synth.compare import grid, options, running, tasks

EXAMPLES = """
examples:
  {prog} --task pairs --variants V R D R+V
  {prog} --task imdb --data aclImdb_v1.tar.gz \\
      --variants V R FR --rank 32 --backends tensorflow --output imdb
  {prog} --task csv --data train.csv \\
      --test-data test.csv --text body --label topic
  {prog} --task translations --variants V R R+V
  {prog} --task multi30k --data task1/raw --epochs 15
  {prog} --task wikitext2 --data wikitext-2
"""


def main(arguments, prog):
    """Runs the grid; returns the exit status."""
    commands = parser(prog)
    given = commands.parse_args(arguments)
    with running.errors_in_a_line(commands, given):
        settings = options.settings_of(given)
        wanted = grid.runs(
            given.variants,
            given.num_heads,
            given.seeds,
            given.backends or [grid.default_backend()],
            settings,
            tasks.TASKS[settings.task].objective.needs,
        )
        launcher, results = running.begin(
            settings,
            options.source_of(given),
            wanted,
            given.output,
            given.resume,
        )
    _, failed = running.complete(wanted, launcher, results)
    return 1 if failed else 0


def parser(prog="keras-synth compare"):
    """The command line."""
    made = argparse.ArgumentParser(
        prog=prog,
        description="Trains variants x heads x seeds x backends on a task, "
        "each run in a process\nof its own: to classify, to translate, or to "
        "model language.",
        epilog=EXAMPLES.format(prog=prog),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.add_task(made)
    _add_runs(adder(made.add_argument_group("runs")))
    options.add_settings(made, "settings of all runs")
    return made


def _add_runs(add):
    add(
        "--variants",
        nargs="+",
        default=["V", "R", "D", "R+V"],
        metavar="X",
        help="letters or names of synthesizers, and sums of them",
    )
    numbers = {"type": int, "nargs": "+"}
    add("--num-heads", default=[4], help="of each attention layer", **numbers)
    text = "of initial weights, batches and dropout"
    add("--seeds", default=[0], help=text, **numbers)
    add(
        "--backends",
        nargs="+",
        choices=grid.BACKENDS,
        metavar="X",
        help=f"of {', '.join(grid.BACKENDS)} (default: {grid.DEFAULT_BACKEND})",
    )
    add(
        "--output",
        type=pathlib.Path,
        default=pathlib.Path("compare"),
        help="folder for all files",
    )
    add(
        "--resume",
        action="store_true",
        help="go on with the grid in --output, or add to it",
    )

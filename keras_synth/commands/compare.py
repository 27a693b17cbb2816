"""`keras-synth compare`: variants x heads x seeds x backends on a task."""

import pathlib

from keras_synth.compare import grid, options, running

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
  {prog} --task sst2 --data SST-2 --seeds 0 1 2 \\
      --launcher ray --gpus-per-run 1 --output /shared/sst2
"""


def main(arguments, prog):
    """Runs the grid; returns the exit status."""
    commands = parser(prog)
    given = commands.parse_args(arguments)
    _, failed = running.train_all(
        commands,
        given,
        given.variants,
        given.num_heads,
        given.seeds,
        given.backends,
    )
    return 1 if failed else 0


def parser(prog="keras-synth compare"):
    """The command line."""
    return options.parser(
        prog,
        "Trains variants x heads x seeds x backends on a task, each run in a "
        "process\nof its own: to classify, to translate, or to model language.",
        EXAMPLES,
        "runs",
        _add_runs,
    )


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

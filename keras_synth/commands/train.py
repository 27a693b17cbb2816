"""`keras-synth train`: one model, saved as a preset."""

import pathlib

from keras_synth.compare import grid, options, running

EXAMPLES = """
examples:
  {prog} --task reviews
  {prog} --task csv --data mine.csv --text body --label topic \\
      --variant R+V --output topics
  {prog} --task multi30k --data task1/raw --epochs 15 --output german
  {prog} --task mlm --data books --output encoder
  {prog} --task sst2 --data SST-2 --init encoder
"""


def main(arguments, prog):
    """Trains the model; returns the exit status."""
    commands = parser(prog)
    given = commands.parse_args(arguments)
    preset = given.output / "preset"
    rows, failed = running.train_all(
        commands,
        given,
        [given.variant],
        [given.num_heads],
        [given.seed],
        given.backend and [given.backend],
        keep=preset,
    )
    if rows:
        print(f"The model is in {preset}; README.md there says how to load it")
    return 0 if rows and not failed else 1


def parser(prog="keras-synth train"):
    """The command line."""
    return options.parser(
        prog,
        "Trains one model on a task and saves it as a preset, with tokenizer "
        "and\nmodel card.",
        EXAMPLES,
        "model",
        _add_run,
    )


def _add_run(add):
    add(
        "--variant",
        default="R+V",
        metavar="X",
        help="letter or name of a synthesizer, or a sum of them",
    )
    add("--num-heads", type=int, default=4, help="of each attention layer")
    text = "of initial weights, batches and dropout"
    add("--seed", type=int, default=0, help=text)
    add(
        "--backend",
        choices=grid.BACKENDS,
        metavar="X",
        help=f"of {', '.join(grid.BACKENDS)} (default: {grid.DEFAULT_BACKEND})",
    )
    add(
        "--output",
        type=pathlib.Path,
        default=pathlib.Path("train"),
        help="folder for all files, the preset among them",
    )
    add(
        "--resume",
        action="store_true",
        help="go on after the last epoch on disk",
    )

"""The command line of `python -m keras_synth.compare`."""

import argparse
import pathlib

from keras_synth.command_line import adder, character, option_of
from keras_synth.compare import grid, initial, tasks
from keras_synth.compare.objectives import OBJECTIVES
from keras_synth.compare.settings import options_of

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
    _add_task(adder(made.add_argument_group("what to learn")))
    _add_runs(adder(made.add_argument_group("runs")))
    add = adder(
        made.add_argument_group(
            "settings of all runs",
            "Where nothing is given, what suits the task, or else the default.",
        )
    )
    for field in all_settings().values():
        allowed, default = field.metadata["allowed"], field.metadata["default"]
        if field.type is tuple:
            options = {"type": int, "nargs": "*"}
        elif isinstance(allowed, tuple):
            options = {"choices": allowed}
        else:
            options = {"type": field.type}
        text = f"{field.metadata['text']} (default: {default})"
        add(option_of(field.name), help=text, **options)
    return made


def all_settings():
    """Name -> field of the settings of all objectives."""
    return {
        field.name: field
        for objective in OBJECTIVES.values()
        for field in options_of(objective.Settings)
    }


def _add_task(add):
    generated = [name for name, task in tasks.TASKS.items() if not task.needs]
    others = [name for name, task in tasks.TASKS.items() if task.needs]
    add(
        "--task",
        choices=tasks.TASKS,
        default="reviews",
        metavar="TASK",
        help=f"generated: {', '.join(generated)}; of files, with --data: "
        f"{', '.join(others)}",
    )
    add("--data", metavar="PATH", help="of the task's files")

    def add_source(option, text, default="", **options):
        takers = [n for n, x in tasks.TASKS.items() if option in x.options]
        text += f"; task{'s' * (len(takers) > 1)} {', '.join(takers)}"
        text += f" (default: {default})" if default else ""
        add(option, help=text, **options)

    add_source("--test-data", "a file to test on", metavar="PATH")
    add_source(
        "--text",
        "name or 0-based number of the text column, or of two",
        "text",
        nargs="+",
        metavar="COLUMN",
    )
    text = "name or number of the label column"
    add_source("--label", text, "label", metavar="COLUMN")
    text = "columns have numbers, not names"
    add_source("--no-header", text, dest="header", action="store_false")
    add_source(
        "--delimiter",
        "character between fields, \\t for a tab",
        "a tab in .tsv files, else a comma",
        type=character,
        metavar="X",
    )
    add_source(
        "--no-quotes",
        "quotation marks are ordinary characters, as they are in .tsv files",
        dest="quoted",
        action="store_const",
        const=False,
    )
    text = "leave out rows with an empty field, and say how many"
    add_source("--skip-empty", text, action="store_true")


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
        default=["jax"],
        metavar="X",
        help=f"of {', '.join(grid.BACKENDS)}",
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


def settings_of(given):
    """The settings of a command line: given, the task's, or general."""
    task = tasks.TASKS[given.task]
    own = [field.name for field in options_of(task.objective.Settings)]
    values = {name: getattr(given, name) for name in all_settings()}
    values = {name: x for name, x in values.items() if x is not None}
    for name, value in values.items():
        if name not in own:
            option = option_of(name)
            raise ValueError(
                f"{option} means nothing to the task {given.task!r}, which is "
                f"scored by {task.objective.score.name}. Leave it out. "
                f"Received: {option} {value}"
            )
    if values.get("init"):
        values.update(initial.shape(values["init"], values))
    elif "init_weights" in values:
        raise ValueError(
            "--init-weights says what to start from with --init. Pass both, or "
            f"leave it out. Received: --init-weights {values['init_weights']}"
        )
    if "lengths" in values:
        values["lengths"] = tuple(values["lengths"])
    elif given.sequence_length and "lengths" in task.defaults:
        # The task's own lengths, as far as they are of use.
        values["lengths"] = tuple(
            n for n in task.defaults["lengths"] if n < given.sequence_length
        )
    return task.settings(given.task, **values)


def source_of(given):
    """The `Source` of a command line."""

    def column(name):
        return int(name) if name.isdigit() and not given.header else name

    source = tasks.Source(
        **{x: getattr(given, x) for x in tasks.Source._fields}
    )
    if source.label is not None:
        source = source._replace(label=column(source.label))
    if source.text is not None:
        text = tuple(map(column, source.text))
        source = source._replace(text=text if text[1:] else text[0])
    return source

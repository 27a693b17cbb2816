"""The command line of `python -m keras_synth.compare`."""

import argparse
import pathlib

from keras_synth.command_line import adder, character
from keras_synth.compare import grid, tasks

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
    _add_task(made)
    add = adder(made.add_argument_group("runs"))
    add(
        "--variants",
        nargs="+",
        default=["V", "R", "D", "R+V"],
        metavar="X",
        help="letters or names of synthesizers, and sums of them",
    )
    add(
        "--num-heads",
        type=int,
        nargs="+",
        default=[4],
        help="of each attention layer",
    )
    add(
        "--seeds",
        type=int,
        nargs="+",
        default=[0],
        help="of initial weights, batches and dropout",
    )
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
    settings = made.add_argument_group(
        "settings of all runs",
        "Where nothing is given, what suits the task, or else the default.",
    )
    add = adder(settings)
    for field in grid.fields():
        allowed, default = field.metadata["allowed"], field.metadata["default"]
        if field.type is tuple:
            options = {"type": int, "nargs": "*"}
        elif field.type is str:
            options = {"choices": allowed}
        else:
            options = {"type": field.type}
        text = f"{field.metadata['text']} (default: {default})"
        add(grid.option_of(field.name), help=text, **options)
    return made


def _add_task(made):
    add = adder(made.add_argument_group("what to learn"))
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
    add(
        "--test-data",
        metavar="PATH",
        help=f"a file to test on; {_takers('--test-data')}",
    )
    add(
        "--text",
        nargs="+",
        metavar="COLUMN",
        help="name or 0-based number of the text column, or of two; "
        f"{_takers('--text')} (default: text)",
    )
    add(
        "--label",
        metavar="COLUMN",
        help="name or number of the label column; "
        f"{_takers('--label')} (default: label)",
    )
    add(
        "--no-header",
        action="store_true",
        help=f"columns have numbers, not names; {_takers('--no-header')}",
    )
    add(
        "--delimiter",
        type=character,
        metavar="X",
        help="character between fields, \\t for a tab; "
        f"{_takers('--delimiter')} (default: a tab in .tsv files, else a "
        "comma)",
    )
    add(
        "--no-quotes",
        action="store_true",
        help="quotation marks are ordinary characters, as they are in .tsv "
        f"files; {_takers('--no-quotes')}",
    )
    add(
        "--skip-empty",
        action="store_true",
        help="leave out rows with an empty field, and say how many; "
        f"{_takers('--skip-empty')}",
    )


def _takers(option):
    takers = [n for n, task in tasks.TASKS.items() if option in task.options]
    return f"tasks {', '.join(takers)}" if takers[1:] else f"task {takers[0]}"


def settings_of(given):
    """The `Settings` of a command line: given, the task's, or general."""
    task = tasks.TASKS[given.task]
    values = {"task": given.task, **task.defaults}
    for field in grid.fields():
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
        option = grid.option_of(name)
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
        given.data,
        given.test_data,
        **columns,
        header=not given.no_header,
        delimiter=given.delimiter,
        quoted=False if given.no_quotes else None,
        skip_empty=given.skip_empty,
    )

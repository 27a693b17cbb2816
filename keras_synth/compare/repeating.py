"""The command that repeats a comparison, from its results."""

import shlex

from keras_synth._system.command_line import option_of
from keras_synth.compare import initial, tasks
from keras_synth.compare.settings import options_of

WIDTH = 76
PLACEHOLDER = "DATA"
GRID = {  # options, and what a key calls their values
    "--variants": "variant",
    "--num-heads": "num_heads",
    "--seeds": "seed",
    "--backends": "backend",
}


def command(rows, output="again"):
    """The words of a command that makes these results again.

    Args:
        rows: List of results of equal settings and data.
        output: String, the folder that it names.

    Returns:
        List of strings. `PLACEHOLDER` stands for a path that results of
        earlier versions do not say.
    """
    keys = [row["key"] for row in rows]
    settings = keys[0]["settings"]
    task = tasks.TASKS[settings["task"]]
    words = ["keras-synth", "compare", "--task", settings["task"]]
    given = options(rows[0])
    if task.needs and "data" not in given:
        given = {"data": PLACEHOLDER, **given}
    for name, value in given.items():
        words += _option(name, value)
    for option, name in GRID.items():
        words += [option, *dict.fromkeys(str(key[name]) for key in keys)]
    for name, value in changed(settings, task).items():
        words += _option(name, value)
    return [*words, "--output", output]


def options(row):
    """What a result says of its command line beside the settings."""
    found = row.get("options")
    return found if isinstance(found, dict) else {}


def changed(settings, task):
    """The settings of a command line: those that are not the task's.

    Args:
        settings: Dictionary, as a result's key holds it.
        task: `Task`.
    """
    usual = task.settings(settings["task"]).to_json()
    names = [field.name for field in options_of(task.objective.Settings)]
    if settings.get("init"):  # a preset has made up its mind about these
        names = [name for name in names if name not in initial.SHAPE]
    found = {
        name: settings[name] for name in names if settings[name] != usual[name]
    }
    if "sequence_length" in found and "lengths" in names:
        # With another length, a task's own are those that are shorter.
        found["lengths"] = settings["lengths"]
    return found


def _option(name, value):
    if isinstance(value, bool):
        return [option_of(name)]  # a switch, which is only noted when given
    values = value if isinstance(value, (list, tuple)) else [value]
    return [option_of(name), *map(str, values)]


def in_lines(words, width=WIDTH):
    """The words for a shell, in lines that end in a backslash.

    An option and its values stay on one line.
    """
    pieces = []
    for word in words:
        if word.startswith("--") or not pieces:
            pieces.append(shlex.quote(word))
        else:
            pieces[-1] += f" {shlex.quote(word)}"
    lines = pieces[:1]
    for piece in pieces[1:]:
        if len(lines[-1]) + 1 + len(piece) > width:
            lines.append(f"    {piece}")
        else:
            lines[-1] += f" {piece}"
    return " \\\n".join(lines)

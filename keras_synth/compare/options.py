"""Options of the commands that train: task, launcher, and all settings."""

import argparse
import dataclasses

from keras_synth._system.command_line import adder, character, option_of
from keras_synth.compare import initial, tasks
from keras_synth.compare.launchers import LAUNCHERS
from keras_synth.compare.objectives import OBJECTIVES
from keras_synth.compare.settings import options_of


def parser(prog, description, examples, title, add_own):
    """The command line of a command that trains.

    Args:
        prog: String, the name of the command.
        description: String, what it does.
        examples: String, with `{prog}` for its name.
        title: String, what the options of its own are about.
        add_own: Function that adds them, of what `adder` returns.
    """
    made = argparse.ArgumentParser(
        prog=prog,
        description=description,
        epilog=examples.format(prog=prog),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_task(made)
    add_own(adder(made.add_argument_group(title)))
    add_callbacks(made)
    add_launcher(made)
    add_settings(made)
    return made


def add_settings(parser):
    """Adds the settings of all objectives, in a group of options."""
    add = adder(
        parser.add_argument_group(
            "settings of all runs",
            "Where nothing is given, what suits the task, or else the default.",
        )
    )
    for field in all_settings().values():
        _add_field(add, field)


def _add_field(add, field, more=""):
    allowed, default = field.metadata["allowed"], field.metadata["default"]
    if field.type is tuple:
        options = {"type": int, "nargs": "*"}
    elif isinstance(allowed, tuple):
        options = {"choices": allowed}
    else:
        options = {"type": field.type}
    text = f"{field.metadata['text']}{more} (default: {default})"
    add(option_of(field.name), help=text, **options)


def add_callbacks(parser):
    """Adds what says who else watches runs."""
    add = adder(parser.add_argument_group("while it trains"))
    add(
        "--callbacks",
        metavar="MODULE:FUNCTION",
        help="a function of yours that takes a run and returns Keras "
        "callbacks for it; of a module that is installed, or in the "
        "folder where the command is given (default: none)",
    )


def add_launcher(parser):
    """Adds what says where to run, and the options of each launcher."""
    add = adder(parser.add_argument_group("where to run"))
    add(
        "--launcher",
        choices=LAUNCHERS,
        default="local",
        help="one run at a time on this machine, or as many as a cluster "
        "(https://docs.ray.io) holds",
    )
    for name, launcher in LAUNCHERS.items():
        for field in dataclasses.fields(launcher):
            _add_field(add, field, f"; launcher {name}")


def all_settings():
    """Name -> field of the settings of all objectives."""
    return {
        field.name: field
        for objective in OBJECTIVES.values()
        for field in options_of(objective.Settings)
    }


def add_task(parser, among=tasks.TASKS):
    """Adds what says which task, and where its texts are.

    Args:
        parser: `argparse.ArgumentParser`.
        among: Dictionary: the tasks to choose from, by name. The first one is
            the default.
    """
    # What none of these tasks takes has no option.
    parser.set_defaults(**tasks.Source._field_defaults)
    add = adder(parser.add_argument_group("what to learn"))
    generated = [name for name, task in among.items() if not task.needs]
    others = [name for name, task in among.items() if task.needs]
    add(
        "--task",
        choices=among,
        default=next(iter(among)),
        metavar="TASK",
        help=f"generated: {', '.join(generated)}; of files, with --data: "
        f"{', '.join(others)}",
    )
    add("--data", metavar="PATH", help="of the task's files")

    def add_source(option, text, default="", **options):
        takers = [n for n, x in among.items() if option in x.options]
        if not takers:
            return
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


def settings_of(given):
    """The settings of a command line: given, the task's, or general."""
    task = tasks.TASKS[given.task]
    values = _given(
        given,
        all_settings(),
        options_of(task.objective.Settings),
        f"the task {given.task!r}, which is scored by "
        f"{task.objective.score.name}",
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


def _given(given, names, own, reader):
    """Name -> value of the fields that the command line gives.

    Args:
        given: What the parser returned.
        names: Names of all fields of the kind.
        own: The fields of these that have a meaning.
        reader: String, for whom.
    """
    values = {name: getattr(given, name) for name in names}
    values = {name: x for name, x in values.items() if x is not None}
    own = {field.name for field in own}
    for name, value in values.items():
        if name not in own:
            option = option_of(name)
            raise ValueError(
                f"{option} means nothing to {reader}. Leave it out. Received: "
                f"{option} {value}"
            )
    return values


def launcher_of(given):
    """The `Launcher` of a command line."""
    every = map(dataclasses.fields, LAUNCHERS.values())
    names = [field.name for fields in every for field in fields]
    launcher = LAUNCHERS[given.launcher]
    own = dataclasses.fields(launcher)
    reader = f"--launcher {given.launcher}"
    return launcher(**_given(given, names, own, reader))


def beside_settings(given):
    """What a command line says of data and callbacks, a dictionary."""
    usual = {**tasks.Source._field_defaults, "callbacks": None}
    found = {name: getattr(given, name) for name in usual}
    return {x: value for x, value in found.items() if value != usual[x]}


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

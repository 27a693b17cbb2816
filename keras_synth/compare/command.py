"""The commands `keras-synth compare`, `train` and `report`."""

import argparse
import os
import pathlib
import shlex
import sys

from keras_synth.compare.settings import BACKENDS, SETTINGS, option

PACKAGES = ("keras_hub", "pandas", "jinja2", "matplotlib", "rich", "filelock")
SCORING = ("sacrebleu", "rouge_score", "sklearn", "scipy")
EXAMPLES = """
examples:
  {prog} --task pairs
  {prog} --task classification --data train.csv --text body --label topic
  {prog} --task translation --data train.en train.de --test-data test.en test.de
  {prog} --task masked_lm --data books --output encoder
"""


def main(arguments=None):
    """Runs a command; returns its exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    commands = argparse.ArgumentParser(
        prog="keras-synth", description="Trains and compares Synthesizers."
    )
    choices = commands.add_subparsers(dest="command", required=True)
    for name, text in {
        "compare": "train variants, with several seeds and backends",
        "train": "train one model, and save it as a preset",
    }.items():
        made = choices.add_parser(
            name,
            help=text,
            description=text.capitalize(),
            epilog=EXAMPLES.format(prog=f"keras-synth {name}"),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        _add_options(made, name)
    made = choices.add_parser("report", help="show results on disk again")
    made.add_argument("output", type=pathlib.Path, help="folder of results")
    given = commands.parse_args(arguments)
    parser = choices.choices[given.command]
    try:
        return _report(given) if given.command == "report" else _train(given)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in (*PACKAGES, *SCORING):
            raise  # a fault of this package or of the user's own modules
        words = f'needs {package}: pip install "keras-synth[compare]"'
        parser.exit(2, f"{parser.prog}: {words}\n")
    except OSError as error:
        words = f"{error}. Repeat the command with --resume to continue."
        parser.exit(2, f"{parser.prog}: {words}\n")
    except (ImportError, ValueError) as error:
        parser.exit(2, f"{parser.prog}: {error}\n")


def _add_options(parser, command):
    from keras_synth.compare.tasks import TASKS

    add = parser.add_argument
    add("--task", choices=TASKS, default="classification")
    group = parser.add_argument_group(
        "data", "Without --data, most tasks generate examples."
    )
    add = group.add_argument
    paths = {"nargs": "+", "default": (), "metavar": "PATH"}
    add("--data", help="a file or folder; two files of parallel lines", **paths)
    add("--validation-data", help="by default a tenth is held out", **paths)
    add("--test-data", help="by default a tenth is held out", **paths)
    add("--format", help="csv, tsv, jsonl, folders, lines, conllu, text")
    add("--text", nargs="+", metavar="COLUMN", help="one, or two for pairs")
    add("--label", nargs="+", metavar="COLUMN", help="one, or several to write")
    add("--no-header", dest="header", action="store_false")
    add("--delimiter", help="of columns", metavar="X")
    add("--skip-empty", action="store_true", help="leave out empty rows")
    group = parser.add_argument_group("runs")
    add = group.add_argument
    if command == "compare":
        add("--variants", nargs="+", default=["V", "R", "D", "R+V"])
        add("--seeds", nargs="+", type=int, default=[0])
        add("--backends", nargs="+", choices=BACKENDS, default=[])
        add("--jobs", type=int, default=1, help="runs at a time")
        add("--ray", metavar="ADDRESS", help="HOST:PORT of a cluster, or local")
        add("--gpus-per-run", type=int, default=0, help="with --ray")
    else:
        add("--variant", dest="variants", nargs=1, default=["R+V"])
        add("--seed", dest="seeds", nargs=1, type=int, default=[0])
        add("--backend", dest="backends", nargs=1, choices=BACKENDS, default=[])
    add("--output", type=pathlib.Path, default=pathlib.Path(command))
    add("--resume", action="store_true", help="do the runs without a result")
    add(
        "--callbacks",
        metavar="MODULE:FUNCTION",
        help="Keras callbacks of yours",
    )
    group = parser.add_argument_group(
        "settings", "By default what suits the task, or else the value shown."
    )
    for name, (default, kind, text) in SETTINGS.items():
        many = {"nargs": "*"} if isinstance(default, list) else {}
        shown = f" (default: {default})" if default not in ("", []) else ""
        group.add_argument(
            option(name), type=kind.convert, help=text + shown, **many
        )


def _train(given):
    from keras_synth.compare import run_task
    from keras_synth.compare.data import Source
    from keras_synth.compare.tasks import TASKS

    task = TASKS[given.task]
    settings = {x: getattr(given, x) for x in SETTINGS}
    settings = {k: x for k, x in settings.items() if x is not None}
    options = {**Source._field_defaults, **task.options}
    for name in ("text", "label"):
        columns = getattr(given, name)
        if columns:
            if not given.header:
                columns = [int(x) if x.isdigit() else x for x in columns]
            options[name] = columns if columns[1:] else columns[0]
    for name in ("data", "validation_data", "test_data"):
        options[name] = tuple(getattr(given, name))
    delimiter = given.delimiter
    options |= {
        "format": given.format,
        "header": given.header,
        "delimiter": "\t" if delimiter == "\\t" else delimiter,
        "skip_empty": given.skip_empty,
    }
    train = given.command == "train"
    grid = {"jobs": 1, "ray": None, "gpus": 0}
    if not train:
        grid = {
            "jobs": given.jobs,
            "ray": given.ray,
            "gpus": given.gpus_per_run,
        }
    return run_task(
        task,
        settings,
        Source(**options),
        given.variants,
        given.seeds,
        given.backends,
        given.output,
        resume=given.resume,
        callbacks=given.callbacks,
        preset=train,
        command=shlex.join(["keras-synth", *sys.argv[1:]]),
        **grid,
    )


def _report(given):
    from rich.console import Console

    from keras_synth.compare.report import report

    report(given.output, Console())
    return 0


def run():
    """Runs the command, and ends the process."""
    try:
        os._exit(_flushed(main()))  # libraries may wait for threads of theirs
    except KeyboardInterrupt:
        print("\nStopped; --resume continues.", file=sys.stderr)
        sys.exit(130)


def _flushed(status):
    sys.stdout.flush()
    sys.stderr.flush()
    return status

"""The commands `keras-synth compare`, `train` and `report`."""

import argparse
import difflib
import pathlib
import shlex
import sys

import keras_synth
from keras_synth.compare import data, own, runs, start
from keras_synth.compare.task import (
    NATURAL,
    POSITIVE,
    SETTINGS,
    option,
    with_defaults,
)
from keras_synth.compare.tasks import TASKS
from keras_synth.datasets.reading import TABLES, format_of
from keras_synth.layers.templates import template

PACKAGES = """
    keras_hub pandas jinja2 matplotlib rich filelock
    sacrebleu rouge_score sklearn scipy ray
""".split()
EXAMPLES = """
examples:
  {prog} --task pairs
  {prog} --task classification --data train.csv --text body --label topic
  {prog} --task translation --data train.en train.de --test-data test.en test.de
  {prog} --task masked_lm --data books --output encoder
"""


class Parser(argparse.ArgumentParser):
    """A parser with errors of one line."""

    def error(self, message):
        self.stop(f"{message}. {self.prog} --help lists all options")

    def unknown(self, words):
        """Ends the process with an error for words that are not options."""
        near = difflib.get_close_matches(
            words[0], self._option_string_actions, n=1, cutoff=0.8
        )
        hint = f" (did you mean {near[0]}?)" if near else ""
        self.error(f"unrecognized arguments: {' '.join(words)}{hint}")

    def stop(self, message):
        """Ends the process with an error."""
        self.exit(2, f"{self.prog}: {message}\n")


def main(arguments=None):
    """Runs a command; returns its exit status."""
    commands = Parser(
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
    made = choices.add_parser("report", help="show the results in a folder")
    made.add_argument("output", type=pathlib.Path, help="folder of results")
    given, unknown = commands.parse_known_args(arguments)
    parser = choices.choices[given.command]
    if unknown:
        parser.unknown(unknown)
    try:
        if given.command != "report":
            return _train(given)
        from keras_synth.compare.report import report  # it imports pandas

        report(given.output)
        return 0
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in PACKAGES:
            raise  # a fault of this package or of the user's modules
        extra = "ray" if package == "ray" else "compare"
        parser.stop(f'needs {package}: pip install "keras-synth[{extra}]"')
    except (FileExistsError, NotADirectoryError) as error:
        parser.stop(f"--output must be a folder. Received: {error}")
    except OSError as error:
        parser.stop(f"{error}. Repeat the command with --resume to continue.")
    except (ImportError, ValueError) as error:
        parser.stop(str(error))


def _add_options(parser, command):
    parser.add_argument(
        "--task",
        choices=TASKS,
        default="classification",
        help="(default: %(default)s)",
    )
    group = parser.add_argument_group(
        "data", "Without --data most tasks generate examples."
    )
    add = group.add_argument
    paths = {"nargs": "+", "default": (), "metavar": "PATH"}
    add("--data", help="a file or folder; two files of parallel lines", **paths)
    held = "by default a tenth of --data, or 1 %% to hide tokens"
    add("--validation-data", help=held, **paths)
    add("--test-data", help=held, **paths)
    add("--format", help="csv, tsv, jsonl, folders, lines, conllu, text")
    add("--text", nargs="+", metavar="COLUMN", help="one, or two for pairs")
    add("--label", nargs="+", metavar="COLUMN", help="one, then references")
    add("--no-header", dest="header", action="store_false")
    add("--delimiter", help="of columns", metavar="X")
    add("--skip-empty", action="store_true", help="ignore empty rows")
    parser.set_defaults(header=None, skip_empty=None)
    add = parser.add_argument_group("runs").add_argument
    several = command == "compare"
    many, end = ("+", "s") if several else (1, "")
    default = ["V", "R", "D", "R+V"] if several else ["R+V"]
    for name, known, text in (
        ("variant", {"default": default, "metavar": "NAME"}, " ".join(default)),
        ("seed", {"default": [0], "type": NATURAL, "metavar": "SEED"}, "0"),
        (
            "backend",
            {"default": [], "choices": runs.BACKENDS},
            "KERAS_BACKEND, or the first installed",
        ),
    ):
        known |= {"dest": f"{name}s", "help": f"(default: {text})"}
        add(f"--{name}{end}", nargs=many, **known)
    if several:
        add("--jobs", type=POSITIVE, default=1, help="simultaneous runs")
        add("--ray", metavar="ADDRESS", help="HOST:PORT of a cluster, or local")
        add("--gpus-per-run", type=NATURAL, default=0, help="with --ray")
    else:
        parser.set_defaults(jobs=1, ray=None, gpus_per_run=0)
    add(
        "--output",
        type=pathlib.Path,
        default=pathlib.Path(command),
        help="folder for all files (default: %(default)s)",
    )
    add("--resume", action="store_true", help="only runs without a result")
    name = "MODULE:FUNCTION"
    add("--callbacks", metavar=name, help="your Keras callbacks")
    group = parser.add_argument_group("settings")
    for name, (default, kind, text) in SETTINGS.items():
        known = {"choices": kind} if isinstance(kind, tuple) else {"type": kind}
        if isinstance(default, list):
            known["nargs"] = "*"
        others = [
            f"; {x} {_shown(task.defaults[name])}"
            for x, task in TASKS.items()
            if task.defaults.get(name, default) != default
        ]
        text += f" (default: {_shown(default)}{''.join(others)})"
        group.add_argument(option(name), help=text, **known)


def _shown(value):
    values = value if isinstance(value, list) else [value]
    return " ".join(map(str, values)) or "none"


def _train(given):
    task, source = TASKS[given.task], _source(given)
    chosen = {x: getattr(given, x) for x in SETTINGS}
    chosen = {k: x for k, x in chosen.items() if x is not None}
    settings = with_defaults(task, chosen)
    if not source.data and task.generator is None:
        raise ValueError(f"The task {task.name} needs --data")
    argument = "--variant" if given.command == "train" else "--variants"
    names = {x: own.registered(x, option=argument) for x in given.variants}
    presets = None
    if settings.get("init"):
        settings |= start.sizes(settings["init"], chosen)
        presets = start.check(settings["init"], names, given.seeds, settings)
    for name in names.values():
        check_variant(name, task, settings)
    wanted = runs.grid(given.variants, given.seeds, given.backends)
    with runs.locked(given.output) as folder:
        arrays = data.prepare(task, settings, source, folder / "data", print)
        specs = runs.make_specs(
            task,
            settings,
            arrays,
            folder,
            wanted,
            shlex.join(["keras-synth", *sys.argv[1:]]),
            presets,
            given.callbacks,
            preset=given.command == "train",
        )
        failed = runs.run_all(
            specs,
            folder,
            given.resume,
            given.jobs,
            given.ray,
            given.gpus_per_run,
        )
    return 1 if failed else 0


def _source(given):
    """Returns the `Source` of the options, or of the task."""
    names = "format", "header", "delimiter", "skip_empty", "text", "label"
    options = {name: getattr(given, name) for name in names}
    options = {k: x for k, x in options.items() if x is not None}
    if not given.data:
        others = "validation_data", "test_data"
        without = [*options, *(x for x in others if getattr(given, x))]
        if without:
            flags = {"header": "--no-header"}
            words = ", ".join(flags.get(x, option(x)) for x in without)
            raise ValueError(f"{words} needs --data. Received: no --data")
    if options.get("delimiter") == "\\t":
        options["delimiter"] = "\t"
    for name in {"text", "label"} & {*options}:
        columns = options[name]
        if not options.get("header", True):
            columns = [int(x) if x.isdigit() else x for x in columns]
        options[name] = columns if columns[1:] else columns[0]
    output = given.output.resolve()
    for path in (*given.data, *given.validation_data, *given.test_data):
        folder = pathlib.Path(path).resolve()
        if folder.is_dir() and output.is_relative_to(folder):
            raise ValueError(  # results would be read as examples
                "--output must be outside of the folders of examples. "
                f"Received: --output {given.output} in {path}"
            )
    paths = map(pathlib.Path, given.data)
    if given.data and (given.format or format_of(*paths)) in TABLES:
        options = TASKS[given.task].options | options
    return data.Source(
        given.data, given.validation_data, given.test_data, options
    )


def check_variant(name, task, settings):
    """Raises if a variant cannot be made with these sizes."""
    heads, length = settings["num_heads"], settings["sequence_length"]
    template(name, heads, length, task.needs)
    keras_synth.mixers.get(
        name,
        num_heads=heads,
        key_dim=settings["hidden_dim"] // heads,
        max_length=length,
    )

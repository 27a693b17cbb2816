"""What scripts such as `examples/` have in common: options, files, errors."""

import argparse
import contextlib
import json
import pathlib
import re

from keras_synth._system.command_line import adder, require_at_least
from keras_synth._system.files import writing
from keras_synth.compare import grid, options, running, tasks
from keras_synth.compare.objectives import OBJECTIVES
from keras_synth.compare.packages import require


class Script:
    """A script that trains models, one for each variant, or reads them.

    It ends with one line where arguments or files are wrong, and keeps all
    files in one folder. The texts are those of `keras-synth compare`.

    ```python
    script = keras_synth_command.script(__doc__, ["bleu"], output="translator")
    settings = script.parse()
    train, validation, test = script.load()
    ```

    Args:
        text: String, the script's docstring; a line of it begins with
            `Description: `.
        objectives: Sequence of keys of `OBJECTIVES`: their tasks are those of
            `--task`. Without, there are no options for data.
        variants: Sequence of strings, the default of `--variants`. Without,
            there is no such option.
        epochs: Integer, the default of `--epochs`; 0 for a script that trains
            nothing, which has no `--epochs`, `--seed` and `--resume`.
        output: String, that of `--output`.
        resumes: Whether there is a `--resume`.

    Attributes:
        parser: `argparse.ArgumentParser`.
        add: Its `add_argument`, for options with `help`.
        settings: What `parse` returned.
        objective: The `Objective` of `--task`, if there is one.
        results: List of dictionaries, what `save` noted.
    """

    def __init__(
        self,
        text,
        objectives=(),
        variants=(),
        epochs=3,
        output="output",
        resumes=True,
    ):
        (description,) = re.findall("^Description: (.*)$", text, re.MULTILINE)
        self.parser = argparse.ArgumentParser(description=description)
        self.tasks = {
            name: task
            for name, task in tasks.TASKS.items()
            if task.objective in [OBJECTIVES[x] for x in objectives]
        }
        if self.tasks:
            options.add_task(self.parser, self.tasks)
        self.add = adder(self.parser)
        self.objective, self.results = None, []
        self._add_training(variants, epochs, output, resumes)

    def _add_training(self, variants, epochs, output, resumes):
        if variants:
            self.add(
                "--variants",
                nargs="+",
                default=variants,
                metavar="X",
                help="names of synthesizers, a model each",
            )
        if self.tasks:
            text = "how many to train on; 0 for all, or 6000 that are generated"
            self.add("--examples", type=int, default=0, help=text)
        if epochs:
            text = "passes over the training examples"
            self.add("--epochs", type=int, default=epochs, help=text)
            text = "of initial weights, batches and dropout"
            self.add("--seed", type=int, default=0, help=text)
        self.add(
            "--output",
            type=pathlib.Path,
            default=pathlib.Path(output),
            help="folder for presets, results and pictures",
        )
        if epochs and resumes:
            text = "go on after the last epoch on disk"
            self.add("--resume", action="store_true", help=text)

    def parse(self):
        """Reads the command line; returns its settings.

        Ends the process with one line if there is something wrong with them,
        or a run in `--output` has not ended that is not to be resumed.
        """
        self.settings = self.parser.parse_args()
        least = {"epochs": 1, "seed": 0}
        least |= {"examples": 0} if self.tasks else {}
        given = {k: x for k, x in least.items() if hasattr(self.settings, k)}
        require_at_least(self.parser, self.settings, **given)
        if self.tasks:
            name = self.settings.task
            self.objective = self.tasks[name].objective
            with self.errors():
                require(self.objective.packages, f"--task {name}")
                tasks.check_source(name, options.source_of(self.settings))
        if not getattr(self.settings, "resume", True) and any(
            self._checkpoints().glob("*.npz")
        ):
            self.parser.error(
                f"a run in {self.settings.output} has not ended. Pass "
                "--resume to go on with it, or another --output"
            )
        return self.settings

    def errors(self):
        """A context where errors of arguments and files end in one line."""
        return running.errors_in_a_line(self.parser, self.settings)

    def check_variants(self, num_heads, hidden_dim, max_length):
        """Ends the process with one line if a variant cannot be made.

        Args:
            num_heads: Integer, heads of each layer.
            hidden_dim: Integer, width of the model.
            max_length: Integer, longest sequence, in tokens.
        """
        sizes = grid.Settings(
            "script", sequence_length=max_length, hidden_dim=hidden_dim
        )
        with self.errors():
            grid.runs(
                self.settings.variants,
                [num_heads],
                [self.settings.seed],
                [""],
                sizes,
                self.objective.needs if self.objective else (),
            )

    def load(self):
        """Reads the texts of `--task`.

        Returns:
            What `compare.tasks.load` returns: `(train, validation, test)`, and
            class names where there are any.
        """
        task, count = self.settings.task, self.settings.examples
        with self.errors():
            return tasks.load(
                task,
                options.source_of(self.settings),
                self.tasks[task].settings(task, examples=count),
            )

    def steps(self, batches):
        """The training steps of all epochs.

        Ends the process with one line if there is not even a batch.

        Args:
            batches: Dataset, what is trained on.
        """
        if not len(batches):
            self.parser.error(
                "there are too few examples to train on for one batch. Pass "
                "more of them"
            )
        return self.settings.epochs * len(batches)

    def named(self, presets):
        """Names presets by their folders.

        That of `keras-synth train` is always called `preset`: the folder
        around it names it. Ends the process with one line if two have the same
        name.

        Args:
            presets: List of strings, paths or handles.

        Returns:
            Dictionary: name -> preset.
        """
        found = {}
        for preset in presets:
            path = pathlib.Path(preset)
            name = path.parent.name if path.name == "preset" else path.name
            if name in found:
                self.parser.error(
                    f"two presets are called {name!r}: {found[name]} and "
                    f"{preset}. Rename a folder"
                )
            found[name] = preset
        return found

    def folder(self, name):
        """The folder for the preset of a variant."""
        return self.settings.output / re.sub(r"[^\w+.-]+", "_", name).strip("_")

    def checkpoint(self, name):
        """The path of a variant's checkpoint."""
        return self._checkpoints() / f"{self.folder(name).name}.npz"

    def _checkpoints(self):
        return self.settings.output / "checkpoints"

    def save(
        self,
        model,
        name,
        history,
        figures,
        data,
        words=(),
        **more,
    ):
        """Saves a trained model as a preset with a model card, for `report`.

        Args:
            model: A model of `keras_synth.models`.
            name: String, its variant.
            history: Dictionary of lists, what `EpochLog` notes.
            figures: Dictionary of floats: how good it is.
            data: String, Markdown: what it was trained on.
            words: As of `save_with_card`.
            **more: What else `results.json` holds of it.
        """
        from keras_synth.training.model_card import save_with_card

        given, parameters = vars(self.settings), model.count_params()
        task = given.get("task", pathlib.Path(self.parser.prog).stem)
        shown = {key: _shown(x) for key, x in figures.items()}
        print(f"{name}, test: {', '.join(map(' '.join, shown.items()))}")
        save_with_card(
            model,
            self.folder(name),
            task,
            name,
            f"`{task}`: {data}. Epochs: {given['epochs']}.",
            {f"{key}, test": figure for key, figure in shown.items()},
            getattr(self.objective, "card", ""),
            # What the package generates is its own; of files nothing is known.
            None if given.get("data") else "apache-2.0",
            words,
        )
        result = {"variant": name, "figures": figures, "history": history}
        self.results.append({**result, "parameters": parameters, **more})

    def draw(self, figure, name):
        """Writes a figure of Matplotlib to `--output`, as a PNG file.

        Args:
            figure: `matplotlib.figure.Figure`.
            name: String, that of the file, without its ending.
        """
        from keras_synth.training import reporting

        with self.errors():
            reporting.save_figure(self.settings.output / f"{name}.png", figure)

    def report(self, metric="loss"):
        """Prints a table, draws the curves and writes `results.json`.

        What the checkpoints hold is safe then, so they are removed.

        Args:
            metric: As of `reporting.draw_histories`.
        """
        from keras_synth._backend.execution import backend_version
        from keras_synth.training import reporting

        output, seed = self.settings.output, self.settings.seed
        reporting.print_table(
            f"{self.parser.prog}, {' '.join(backend_version())}, seed {seed}",
            [
                "variant",
                *self.results[0]["figures"],
                "training, s",
                "parameters",
            ],
            [
                [
                    run["variant"],
                    *map(_shown, run["figures"].values()),
                    f"{sum(run['history']['seconds']):.0f}",
                    f"{run['parameters']:,}",
                ]
                for run in self.results
            ],
        )
        curves = {run["variant"]: run["history"] for run in self.results}
        path = output / "learning_curves.png"
        reporting.draw_histories(path, curves, metric)
        with writing(output / "results.json") as file:
            json.dump(self.results, file, indent=1)
        for run in self.results:
            self.checkpoint(run["variant"]).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # there is none, or others use it
            self._checkpoints().rmdir()
        print(f"Presets, results.json and {path.name} are in {output}/")


def _shown(figure):
    return f"{figure:.4f}" if abs(figure) < 10 else f"{figure:.2f}"

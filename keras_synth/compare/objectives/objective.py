"""The contract of an objective, and what it speaks in."""

from typing import NamedTuple

from keras_synth.compare.objectives import recipes
from keras_synth.compare.settings import Settings
from keras_synth.training.model_card import save_with_card


class Score(NamedTuple):
    """A figure that says how good a model is.

    Attributes:
        name: What it is called.
        heading: What a narrow column calls it.
        scale: What it is shown times.
        digits: How many are shown after the point.
        unit: What is shown after them.
        higher_is_better: Whether it is.
    """

    name: str
    heading: str
    scale: float = 1.0
    digits: int = 2
    unit: str = ""
    higher_is_better: bool = True

    def show(self, value, fewer=0):
        """The figure alone, with `fewer` digits than usual."""
        return f"{self.scale * value:.{self.digits - fewer}f}"

    def describe(self, value):
        """The figure with its name and unit."""
        return f"{self.name} {self.show(value)}{self.unit}"


class Prepared(NamedTuple):
    """A task's examples as arrays, in memory or in a file.

    Attributes:
        train: Dictionary of arrays to train on.
        validation: Dictionary of arrays to validate on, after each epoch.
        test: Dictionary of arrays to test on, once.
        notes: Dictionary, what else a model needs, as JSON knows it:
            `"vocabulary_size"` and, where tokens are texts, `"vocabulary"`.
        digest: String. The same arrays have the same one.
    """

    train: dict
    validation: dict
    test: dict
    notes: dict
    digest: str = ""


class Objective:
    """Texts to arrays, arrays to batches, a model, and its score.

    Attributes:
        Settings: The settings that it reads. They alone are options of its
            tasks, and part of what a result is found by.
        data_settings: Names of those that the arrays depend on.
        score: `Score` of a result, on what is tested on.
        epoch_score: `Score` of each epoch, on what is validated on.
        packages: Names of packages that are needed beyond the usual ones.
        init_backbone: Class name of the backbone that `--init` must name.
        needs: Attributes of `keras_synth.mixers.Mixer` that must be true of a
            variant.
        card: What the model card says that models do.
        keeps: Whether a comparison saves its models, for others to start from.
    """

    Settings = Settings
    data_settings = ()
    score: Score
    epoch_score: Score
    packages = ()
    init_backbone = ""
    needs = ()
    card = ""
    keeps = False

    def sample(self, train, settings):
        """Returns `settings.examples` of what is trained on, always the same.

        Of lists or arrays, the first ones in a random order.
        """
        return recipes.sample(train, settings.examples)

    def prepare(self, examples, settings, preprocess, log):
        """Makes arrays of what a task's loader returned.

        Args:
            examples: What the task's loader returns.
            settings: `Settings`.
            preprocess: Function of a KerasHub preprocessor and a list of
                tuples, its inputs for all examples of each split. Yields its
                outputs as arrays.
            log: Function of a line that says what is going on.

        Returns:
            `Prepared`.
        """
        raise NotImplementedError

    def batches(self, settings, seed, prepared):
        """Returns batches to train, to validate and to test on, datasets.

        All have a length, the first one an `epoch` and `batch_lengths`, too.
        """
        raise NotImplementedError

    def build(self, settings, run, prepared, steps):
        """Returns the compiled model of a run of so many training steps."""
        raise NotImplementedError

    def scorer(self, model):
        """Returns a compiled model of the same layers, to evaluate with."""
        return model

    def evaluate(self, scorer, batches):
        """Scores a model on batches.

        Args:
            scorer: What `scorer` returned.
            batches: Dataset, one of those to validate or to test on.

        Returns:
            Dictionary of floats: `"score"`, `"loss"` and any further figures,
            which a result holds as `"metrics"`.
        """
        logs = scorer.evaluate(batches, verbose=0, return_dict=True)
        return {"score": logs["accuracy"], "loss": logs["loss"]}

    def finish(self, model, settings, prepared, emit):
        """Returns what a result holds beyond these scores, a dictionary.

        A `"score"` in it takes the place of that of `evaluate`; `emit` takes an
        event, a dictionary.
        """
        return {}

    def preprocessor(self, settings, prepared):
        """Returns what a preset holds beside the model, or `None`."""
        return None

    def keep(
        self, model, settings, run, prepared, result, folder, licence=None
    ):
        """Saves a trained model, as a preset with a model card.

        Args:
            model: The model of a run.
            settings: `Settings`.
            run: `Run`.
            prepared: `Prepared`.
            result: Dictionary, the run's result.
            folder: Path of the folder to save it in.
            licence: As of `write_model_card`.
        """
        model.preprocessor = self.preprocessor(settings, prepared)
        save_with_card(
            model,
            folder,
            settings.task,
            run.variant,
            f"The task `{settings.task}`: {self.trained_on(prepared)}, "
            f"in {len(result['losses']):,} steps of {settings.batch_size}.",
            {
                f"{self.score.name}, test": self.score.show(result["score"])
                + self.score.unit
            },
            self.card,
            licence,
            words=prepared.notes.get("vocabulary", ())
            if model.preprocessor is None
            else (),
        )

    def trained_on(self, prepared):
        """What there was to train on, for the model card."""
        first = next(iter(prepared.train.values()))
        return f"{len(first):,} examples"

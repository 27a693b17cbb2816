"""The contract of tasks, and the model that each of them trains."""

from typing import NamedTuple

import keras_synth  # its models take seconds to import, when first asked for
from keras_synth.compare import start
from keras_synth.compare.settings import SETTINGS
from keras_synth.training import (
    InverseSquareRoot,
    LabelSmoothedCrossentropy,
    LengthBuckets,
    adamw,
)

# Settings of all tasks; each has others of its own.
COMMON = """
    sequence_length num_layers num_heads hidden_dim intermediate_dim dropout
    epochs steps_per_epoch batch_size learning_rate warmup_steps schedule
    examples dtype_policy
""".split()
TOKENIZERS = {
    "word_pieces": "SynthesizerTokenizer",
    "subwords": "SynthesizerBytePairTokenizer",
    "words": "SynthesizerWordTokenizer",
    "bytes": "SynthesizerByteTokenizer",
}


class Score(NamedTuple):
    """A figure that says how good a model is; it is shown times `scale`."""

    name: str
    scale: float = 1.0
    digits: int = 2
    unit: str = ""
    higher_is_better: bool = True


class Task:
    """What is learned: examples to arrays, arrays to batches, and a model.

    Args:
        name: String.
        own: String of names of settings, besides the common ones.
        generator: Function of what is learned without files.
        options: Dictionary of `Source` options that differ from its defaults.
        **defaults: Settings that differ from the usual ones.

    Attributes:
        model: Name of a class of `keras_synth.models`.
        new: Arguments of its backbone, unless a preset has them.
        head: Names of settings that the model takes.
        compiled: Further arguments of its `compile`.
        validation: Which of Keras' logs is shown after each epoch, without
            its `"val_"`.
        needs: Attributes of `keras_synth.mixers.Mixer` that variants must
            have.
        sides: How many sequences its model reads.
        keeps: Whether all models are saved, for others to start from.
    """

    model = ""
    new: dict = {}
    head: tuple = ()
    compiled: dict = {}
    validation = "accuracy"
    needs: tuple = ()
    sides = 1
    keeps = False

    def __init__(self, name, own="", generator=None, options=None, **defaults):
        self.name, self.generator = name, generator
        self.options = options or {}
        names = [*COMMON, *own.split()]
        self.defaults = {x: SETTINGS[x][0] for x in names} | defaults

    def score(self, settings):
        """Returns the `Score` of the test."""
        raise NotImplementedError

    def prepare(self, settings, source, log):
        """Returns the arrays of three splits, dictionaries, and notes."""
        raise NotImplementedError

    def batches(self, arrays, settings, seed):
        """Returns datasets to train, to validate and to test on."""
        options = [{"seed": seed}, {"shuffle": False}, {"shuffle": False}]
        return [
            self.split(split, arrays.notes, settings, **own)
            for split, own in zip(arrays[:3], options, strict=True)
        ]

    def split(self, split, notes, settings, shuffle=True, seed=0):
        """Returns batches of a split: whole ones of all, or all in order."""
        features = dict(split)
        weight = features.pop("sample_weight", None)
        return LengthBuckets(
            features,
            features.pop("labels"),
            settings["batch_size"],
            settings.get("lengths", []),
            shuffle=shuffle,
            drop_remainder=shuffle,
            seed=seed,
            sample_weight=weight,
        )

    def build(self, variant, seed, settings, notes, steps):
        """Returns the compiled model of a run of so many training steps."""
        import keras

        cls = getattr(keras_synth.models, self.model)
        backbone = self.backbone(
            cls.backbone_cls, variant, seed, settings, notes
        )
        head = {x: settings[x] for x in self.head}
        if "class_names" in notes:
            names = notes["class_names"]
            head |= {"num_classes": len(names) or 1}
            head |= {"class_names": names or None}
        model = cls(backbone, **head)
        metrics = []
        if self.validation == "accuracy":
            metrics = [keras.metrics.SparseCategoricalAccuracy("accuracy")]
        model.compile(
            optimizer=optimizer(settings, steps),
            loss=self.loss(settings),
            metrics=[],
            weighted_metrics=metrics,
            **self.compiled,
        )
        return model

    def backbone(self, cls, variant, seed, settings, notes):
        """Returns a new backbone, or that of a preset with `--init`."""
        options = {}
        if "pairs" in notes:
            options["num_segments"] = 2 if notes["pairs"] else 0
        if settings.get("init"):
            return start.backbone(cls, variant, seed, settings, **options)
        width = settings["hidden_dim"]
        return cls(
            vocabulary_size=notes["vocabulary_size"],
            num_layers=settings["num_layers"],
            num_heads=settings["num_heads"],
            hidden_dim=width,
            intermediate_dim=settings["intermediate_dim"] or 4 * width,
            synthesizer=variant,
            dropout=settings["dropout"],
            max_sequence_length=settings["sequence_length"],
            **self.new,
            **options,
        )

    def loss(self, settings):
        """Returns the loss of logits."""
        return LabelSmoothedCrossentropy(settings.get("label_smoothing", 0.0))

    def preprocessor(self, settings, notes, **options):
        """Returns the preprocessor of a model."""
        cls = getattr(keras_synth.models, self.model).preprocessor_cls
        lengths = [settings["sequence_length"]] * self.sides
        return cls(tokenizer_of(notes), *lengths, **options)

    def test(self, model, batches, arrays, settings):
        """Returns figures of a trained model, a dictionary with `"score"`."""
        import keras

        logs = keras.Model.evaluate(model, batches, verbose=0, return_dict=True)
        return {**logs, "score": logs[self.validation]}


def optimizer(settings, steps):
    """AdamW, or Adam, with rates that rise to the highest, and fall again."""
    import keras

    peak = settings["learning_rate"]
    warmup = settings["warmup_steps"] or steps // 10
    warmup = max(1, min(warmup, steps // 2))
    if settings["schedule"] == "inverse_sqrt":
        rates = InverseSquareRoot(peak, warmup)
    else:
        rates = keras.optimizers.schedules.CosineDecay(
            0.0, max(1, steps - warmup), warmup_target=peak, warmup_steps=warmup
        )
    if "weight_decay" in settings:
        return adamw(rates, settings["weight_decay"])
    # The decay rates of Vaswani et al., 2017, 5.3.
    return keras.optimizers.Adam(rates, beta_2=0.98, epsilon=1e-9)


def learn_tokenizer(kind, texts, settings, log):
    """Returns a tokenizer of texts, or that of the preset with `--init`."""
    cls = getattr(keras_synth.models, TOKENIZERS[kind])
    if settings.get("init"):
        return start.tokenizer(cls, settings["init"])
    if kind == "bytes":
        return cls()
    log(f"Learning a vocabulary from {len(texts):,} texts")
    size = () if kind == "words" else (settings["vocabulary_size"],)
    return cls.from_texts(texts, *size)


def tokenizer_notes(tokenizer):
    """Returns notes, for JSON, that `tokenizer_of` makes it from again."""
    arguments = []
    if hasattr(tokenizer, "merges"):
        arguments = [dict(tokenizer.vocabulary), list(tokenizer.merges)]
    elif hasattr(tokenizer, "vocabulary"):
        arguments = [list(tokenizer.get_vocabulary())]
    return {
        "tokenizer": [type(tokenizer).__name__, arguments],
        "vocabulary_size": tokenizer.vocabulary_size(),
    }


def tokenizer_of(notes):
    """Returns the tokenizer of `tokenizer_notes`."""
    name, arguments = notes["tokenizer"]
    return getattr(keras_synth.models, name)(*arguments)

"""The contract of tasks, and the parts that several have in common."""

from typing import Any, NamedTuple

import numpy as np

import keras_synth  # its models take seconds to import, when first asked for
from keras_synth.compare import start
from keras_synth.compare.settings import SETTINGS
from keras_synth.training import InverseSquareRoot, LengthBuckets, adamw

TEST_BATCH_SIZE = 256
# Of all tasks; each has others of its own.
COMMON = """
    sequence_length num_layers num_heads hidden_dim intermediate_dim dropout
    epochs steps_per_epoch batch_size learning_rate warmup_steps schedule
    examples dtype_policy
""".split()


class Score(NamedTuple):
    """A figure that says how good a model is.

    Attributes:
        name: String.
        scale: What it is shown times.
        digits: How many are shown after the point.
        unit: What is shown after them.
        higher_is_better: Whether it is.
    """

    name: str
    scale: float = 1.0
    digits: int = 2
    unit: str = ""
    higher_is_better: bool = True


ACCURACY = Score("accuracy", 100, unit="%")


class Task:
    """What is learned: examples to arrays, arrays to batches, and a model.

    Args:
        name: String.
        own: String of names of settings, besides the common ones.
        options: Dictionary of `Source` options that differ from its defaults.
        **defaults: Settings that differ from the usual ones.

    Attributes:
        validation: Which of Keras' logs is shown after each epoch, without
            its `"val_"`.
        needs: Attributes of `keras_synth.mixers.Mixer` that variants must
            have.
        keeps: Whether all models are saved, for others to start from.
        generator: What is learned without files; `None` if nothing is.
    """

    validation = "accuracy"
    needs: tuple = ()
    keeps = False
    generator: Any = None

    def __init__(self, name, own="", generator=None, options=None, **defaults):
        self.name, self.options = name, options or {}
        self.generator = generator or self.generator
        names = [*COMMON, *own.split()]
        self.defaults = {x: SETTINGS[x][0] for x in names} | defaults

    def score(self, settings):
        """Returns the `Score` of the test."""
        return ACCURACY

    def prepare(self, settings, source, log):
        """Returns the arrays of three splits, dictionaries, and notes."""
        raise NotImplementedError

    def batches(self, arrays, settings, seed):
        """Returns datasets to train, to validate and to test on."""
        raise NotImplementedError

    def build(self, variant, seed, settings, notes, steps):
        """Returns the compiled model of a run of so many training steps."""
        raise NotImplementedError

    def preprocessor(self, settings, notes):
        """Returns the preprocessor of a preset."""
        return None

    def test(self, model, batches, arrays, settings):
        """Returns figures of a trained model, a dictionary with `"score"`."""
        import keras

        logs = keras.Model.evaluate(model, batches, verbose=0, return_dict=True)
        return {"score": logs[self.validation]}


# What models are made of


def rates(settings, steps):
    """Learning rates of so many steps: up to the highest, and down again."""
    import keras

    peak = settings["learning_rate"]
    warmup = settings["warmup_steps"] or steps // 10
    warmup = max(1, min(warmup, steps // 2))
    if settings["schedule"] == "inverse_sqrt":
        return InverseSquareRoot(peak, warmup)
    return keras.optimizers.schedules.CosineDecay(
        0.0, max(1, steps - warmup), warmup_target=peak, warmup_steps=warmup
    )


def optimizer(settings, steps):
    """AdamW that follows `rates`."""
    return adamw(rates(settings, steps), settings["weight_decay"])


def backbone(cls, variant, seed, settings, notes, new=None, **options):
    """The backbone of a run: a new one, or that of a preset with `--init`.

    Args:
        cls: Class of the backbone.
        variant: String.
        seed: Integer, of the run.
        settings: Dictionary.
        notes: Dictionary with `"vocabulary_size"`.
        new: Optional dictionary of arguments of new backbones only.
        **options: Arguments of either.
    """
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
        **(new or {}),
        **options,
    )


def length_buckets(arrays, settings, seed, test_batch_size=TEST_BATCH_SIZE):
    """Batches of about equally long texts, of three splits."""

    def buckets(split, size, **options):
        features = dict(split)
        labels = features.pop("labels")
        weight = features.pop("sample_weight", None)
        lengths = settings["lengths"]
        options["sample_weight"] = weight
        return LengthBuckets(features, labels, size, lengths, **options)

    size = settings["batch_size"]
    return buckets(arrays.train, size, drop_remainder=True, seed=seed), *(
        buckets(x, test_batch_size, shuffle=False) for x in arrays[1:3]
    )


def learn_tokenizer(kind, texts, settings, log):
    """A tokenizer of texts, or that of the preset with `--init`.

    Args:
        kind: String, a key of `TOKENIZERS`.
        texts: List of strings.
        settings: Dictionary.
        log: Function of a line.
    """
    cls = tokenizer_class(kind)
    if settings.get("init"):
        return start.tokenizer(cls, settings["init"])
    if kind == "bytes":
        return cls()
    log(f"Learning a vocabulary from {len(texts):,} texts")
    if kind == "words":
        return cls.from_texts(texts)
    return cls.from_texts(texts, settings["vocabulary_size"])


TOKENIZERS = {
    "word_pieces": "SynthesizerTokenizer",
    "subwords": "SynthesizerBytePairTokenizer",
    "words": "SynthesizerWordTokenizer",
    "bytes": "SynthesizerByteTokenizer",
}


def tokenizer_class(kind):
    """The class of a kind of tokens."""
    return getattr(keras_synth.models, TOKENIZERS[kind])


def tokenizer_notes(kind, tokenizer):
    """Notes that make a tokenizer anew."""
    notes = {"kind": kind, "vocabulary_size": tokenizer.vocabulary_size()}
    if kind == "subwords":
        notes["vocabulary"] = dict(tokenizer.vocabulary)
        notes["merges"] = list(tokenizer.merges)
    elif kind != "bytes":
        notes["vocabulary"] = list(tokenizer.get_vocabulary())
    return notes


def tokenizer_of(notes):
    """The tokenizer of `tokenizer_notes`."""
    names = [x for x in ("vocabulary", "merges") if x in notes]
    return tokenizer_class(notes["kind"])(*(notes[x] for x in names))


def majority(train, test):
    """The score of whoever says the most frequent label."""
    values, counts = np.unique(train, return_counts=True)
    share = np.mean(np.asarray(test) == values[counts.argmax()])
    return {"name": "the majority", "score": float(share)}

"""Texts to learn to go on with, word by word or byte by byte."""

import collections
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import keras_synth  # its models take seconds to import, when first asked for
from keras_synth import datasets
from keras_synth.compare.kinds.kind import Kind, Prepared, Score
from keras_synth.compare.kinds.recipes import adamw, backbone_options
from keras_synth.compare.kinds.some import check_count

UNKNOWN = "<unk>"  # a word that is not among those of the training text


class LanguageModel(Kind):
    """A text to train on, others to predict.

    Args:
        unit: `Unit`, what texts are sequences of.
    """

    data_settings = ("task", "sequence_length", "examples")
    unused = (
        "lengths",
        "keep",
        "vocabulary_size",
        "label_smoothing",
        "pooling",
    )

    def __init__(self, unit):
        self.unit = unit
        self.score = self.epoch_score = unit.score

    def some(self, train, settings):
        check_count(settings.examples, len(train) // settings.sequence_length)
        return train[: settings.examples * settings.sequence_length]

    def prepare(self, examples, settings, preprocess, say):
        train, validation, test = examples
        say(
            f"{len(train):,} {self.unit.name} to train on, "
            f"{len(validation):,} to validate on, {len(test):,} to test on"
        )
        *splits, notes = self.unit.tokens(*examples)
        return Prepared(*({"tokens": ids} for ids in splits), notes)

    def batches(self, settings, seed, prepared):
        shape = settings.sequence_length, settings.batch_size
        train, *others = (split["tokens"] for split in prepared[:3])
        return datasets.TokenWindows(train, *shape, seed=seed), *(
            datasets.TokenWindows(other, *shape, shuffle=False)
            for other in others
        )

    def build(self, settings, run, prepared, steps):
        backbone = keras_synth.models.SynthesizerBackbone(
            **backbone_options(settings, run, prepared),
            causal=True,
            positions="learned",
        )
        model = keras_synth.models.SynthesizerCausalLM(backbone)
        model.compile(
            optimizer=adamw(settings, steps),
            loss=keras_synth.losses.LabelSmoothedCrossentropy(),
            weighted_metrics=[],
        )
        return model

    def scorer(self, model):
        import keras

        # By itself: in training a metric over all words would take a third
        # of a step's time, and tell what the loss tells.
        scorer = keras.Model(model.input, model.output)
        scorer.compile(
            loss=model.loss,
            weighted_metrics=[keras_synth.metrics.TokenCrossentropy()],
        )
        return scorer

    def scores(self, logs):
        nats = logs["crossentropy"]
        return float(self.unit.of_loss(nats)), nats

    def finish(self, model, settings, prepared, tell):
        return {}


class Unit(NamedTuple):
    """What a text is a sequence of.

    Attributes:
        name: What several are called.
        score: `Score`.
        of_loss: Function of the loss in nats, returning the score.
        tokens: Function of a text to train on and of others, returning the ids
            of all, and notes.
    """

    name: str
    score: Score
    of_loss: Callable
    tokens: Callable


def _words(train, *others):
    counts = collections.Counter(train)
    counts[UNKNOWN] += 0
    words = sorted(counts, key=lambda word: (-counts[word], word))
    ids = {word: i for i, word in enumerate(words)}
    return (
        np.array([ids[word] for word in train], "int32"),
        *(
            np.array([ids.get(word, ids[UNKNOWN]) for word in other], "int32")
            for other in others
        ),
        {"vocabulary_size": len(words), "vocabulary": words},
    )


def _bytes(*texts):
    return (
        *(np.frombuffer(text, "uint8") for text in texts),
        {"vocabulary_size": 256},
    )


WORDS = Unit(
    "words",
    Score("perplexity per word", "perplexity", higher_is_better=False),
    np.exp,
    _words,
)
BYTES = Unit(
    "bytes",
    Score("bits per byte", "bits per byte", digits=3, higher_is_better=False),
    lambda loss: loss / np.log(2),
    _bytes,
)

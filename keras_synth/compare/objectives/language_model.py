"""Texts to learn to go on with, word by word or byte by byte."""

import dataclasses

import numpy as np

import keras_synth  # its models take seconds to import, when first asked for
from keras_synth import datasets
from keras_synth.compare import settings
from keras_synth.compare.objectives.objective import Objective, Prepared, Score
from keras_synth.compare.objectives.recipes import (
    adamw,
    backbone_options,
    check_count,
)
from keras_synth.vocabulary import WordVocabulary

UNITS = {
    "words": Score("perplexity per word", "perplexity", higher_is_better=False),
    "bytes": Score(
        "bits per byte", "bits per byte", digits=3, higher_is_better=False
    ),
}


@dataclasses.dataclass(frozen=True)
class _Settings(settings.Settings):
    weight_decay: float = settings.WEIGHT_DECAY()


class LanguageModel(Objective):
    """A text to train on, others to predict.

    Args:
        unit: String, what texts are sequences of: `"words"` or `"bytes"`.
    """

    Settings = _Settings
    data_settings = ("task", "sequence_length", "examples")

    needs = ("supports_causal_mask",)

    def __init__(self, unit):
        self.unit = unit
        self.score = self.epoch_score = UNITS[unit]

    def sample(self, train, settings):
        check_count(settings.examples, len(train) // settings.sequence_length)
        return train[: settings.examples * settings.sequence_length]

    def prepare(self, examples, settings, preprocess, log):
        train, validation, test = (f"{len(x):,}" for x in examples)
        log(
            f"{train} {self.unit} to train on, {validation} to validate on, "
            f"{test} to test on"
        )
        if self.unit == "words":
            vocabulary = WordVocabulary.from_text(examples[0])
            splits = map(vocabulary.encode, examples)
            notes = {
                "vocabulary_size": len(vocabulary.words),
                "vocabulary": vocabulary.words,
            }
        else:
            splits = (np.frombuffer(text, "uint8") for text in examples)
            notes = {"vocabulary_size": 256}
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
        return keras_synth.metrics.token_scorer(model)

    def evaluate(self, scorer, batches):
        logs = scorer.evaluate(batches, verbose=0, return_dict=True)
        nats = logs["crossentropy"]
        by_unit = {"words": np.exp(nats), "bytes": nats / np.log(2)}
        return {"score": float(by_unit[self.unit]), "loss": nats}

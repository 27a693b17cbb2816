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
    byte_pair_notes,
    byte_pair_tokenizer,
    check_count,
)
from keras_synth.training.vocabulary import ByteVocabulary, WordVocabulary

PERPLEXITY = Score("perplexity per word", "perplexity", higher_is_better=False)


@dataclasses.dataclass(frozen=True)
class _Settings(settings.Settings):
    weight_decay: float = settings.WEIGHT_DECAY()


class LanguageModel(Objective):
    """Base class: a text to train on, others to predict.

    Attributes:
        unit: String, what texts are sequences of.
    """

    Settings = _Settings
    data_settings = ("task", "sequence_length", "examples")
    card = "It goes on with a text."
    needs = ("supports_causal_mask",)
    unit = ""

    def sample(self, train, settings):
        check_count(settings.examples, len(train) // settings.sequence_length)
        return train[: settings.examples * settings.sequence_length]

    def prepare(self, examples, settings, preprocess, log):
        train, validation, test = (f"{len(x):,}" for x in examples)
        log(
            f"{train} {self.unit} to train on, {validation} to validate on, "
            f"{test} to test on"
        )
        splits, notes = self.encode(examples, settings, log)
        return Prepared(*splits, notes)

    def encode(self, examples, settings, log):
        """Returns the arrays of each split, `"tokens"` among them, and notes.

        Args and notes are those of `prepare`.
        """
        raise NotImplementedError

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
        return {"score": float(self.score_of(nats, batches)), "loss": nats}

    def score_of(self, nats, batches):
        """The score of so many nats per token on these batches."""
        raise NotImplementedError

    def trained_on(self, prepared):
        return f"{len(prepared.train['tokens']):,} tokens"


class WordLanguageModel(LanguageModel):
    """Words, all of the training text: perplexity per word."""

    unit = "words"
    score = epoch_score = PERPLEXITY

    def encode(self, examples, settings, log):
        vocabulary = WordVocabulary.from_text(examples[0])
        notes = {
            "vocabulary_size": len(vocabulary),
            "vocabulary": vocabulary.words,
        }
        return [{"tokens": vocabulary.encode(x)} for x in examples], notes

    def score_of(self, nats, batches):
        return np.exp(nats)


class ByteLanguageModel(LanguageModel):
    """Bytes: bits per byte."""

    unit = "bytes"
    score = epoch_score = Score(
        "bits per byte", "bits per byte", digits=3, higher_is_better=False
    )

    def encode(self, examples, settings, log):
        vocabulary = ByteVocabulary()
        splits = [{"tokens": vocabulary.encode(x)} for x in examples]
        return splits, {"vocabulary_size": len(vocabulary)}

    def score_of(self, nats, batches):
        return nats / np.log(2)


@dataclasses.dataclass(frozen=True)
class _SubwordSettings(_Settings):
    vocabulary_size: int = settings.VOCABULARY_SIZE()


class SubwordLanguageModel(LanguageModel):
    """Byte pairs, scored by perplexity per word as models of words are.

    The probability of a word is the product of those of its pieces, so that
    the nats of all pieces are shared among the words, ends of lines included.
    """

    Settings = _SubwordSettings
    data_settings = (*LanguageModel.data_settings, "vocabulary_size")
    unit = "words"
    score = epoch_score = PERPLEXITY

    def encode(self, examples, settings, log):
        texts = [_lines(words) for words in examples]
        log(f"Training a vocabulary on {len(texts[0]):,} lines")
        tokenizer = keras_synth.models.SynthesizerBytePairTokenizer.from_texts(
            texts[0], settings.vocabulary_size
        )
        log(f"Tokenizing {sum(map(len, texts)):,} lines")
        splits = [
            {
                "tokens": np.concatenate(tokenizer(lines)).astype("int32"),
                "words": np.array(len(words)),
            }
            for lines, words in zip(texts, examples, strict=True)
        ]
        return splits, byte_pair_notes(tokenizer)

    def batches(self, settings, seed, prepared):
        made = super().batches(settings, seed, prepared)
        for windows, split in zip(made, prepared[:3], strict=True):
            # The first piece is not predicted.
            pieces = len(split["tokens"]) - 1
            windows.pieces_per_word = pieces / int(split["words"])
        return made

    def score_of(self, nats, batches):
        return np.exp(nats * batches.pieces_per_word)

    def preprocessor(self, settings, prepared):
        return keras_synth.models.SynthesizerCausalLMPreprocessor(
            byte_pair_tokenizer(prepared.notes), settings.sequence_length
        )


def _lines(words):
    """The lines of a text that is a list of words, `"<eos>"` at their ends."""
    text = " ".join(words).replace(" <eos>", "\n").replace("<eos>", "\n")
    return [line + "\n" for line in text.split("\n")[:-1]]

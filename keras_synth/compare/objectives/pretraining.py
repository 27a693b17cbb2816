"""Texts without labels, to pre-train on: masked tokens, span corruption."""

import dataclasses
import random

import keras_synth  # its models take seconds to import, when first asked for
from keras_synth.compare import settings
from keras_synth.compare.objectives.objective import Objective, Prepared, Score
from keras_synth.compare.objectives.recipes import (
    adamw,
    backbone_options,
    byte_pair_notes,
    byte_pair_tokenizer,
    check_count,
)

LOG_PERPLEXITY = Score(
    "log-perplexity", "log-perpl.", digits=3, higher_is_better=False
)
TOKENS = ("start", "end", "mask")  # that packing and hiding ask for
SPECIAL = ("[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]")  # never hidden
VOCABULARY_LINES = 100_000
SENTINELS = 100  # of T5's vocabulary, at its end


@dataclasses.dataclass(frozen=True)
class _Settings(settings.Settings):
    vocabulary_size: int = settings.VOCABULARY_SIZE()
    weight_decay: float = settings.WEIGHT_DECAY()


@dataclasses.dataclass(frozen=True)
class _SettingsWithoutVocabulary(settings.Settings):
    weight_decay: float = settings.WEIGHT_DECAY()


class Pretraining(Objective):
    """Base class of the objectives on texts alone.

    Scores are log-perplexities: nats per token that is guessed, the paper's
    figures of pre-training.

    A result has a preset beside it, model and tokenizer, to start from with
    `--init`.
    """

    Settings = _Settings
    data_settings = ("task", "vocabulary_size", "examples", "sequence_length")
    score = epoch_score = LOG_PERPLEXITY
    keeps = True

    def sample(self, train, settings):
        # Texts are counted in windows when their tokens are known.
        return train

    def prepare(self, examples, settings, preprocess, log):
        train, *others = ([*_lines(texts)] for texts in examples)
        tokenizer = self.learn(train, settings, log)
        log(f"Tokenizing {len(train) + sum(map(len, others)):,} lines")
        inputs = [(lines,) for lines in (train, *others)]
        splits = [*preprocess(lambda x: tokenizer(x).flat_values, inputs)]
        if settings.examples:
            length = settings.sequence_length
            check_count(settings.examples, len(splits[0]) // length)
            splits[0] = splits[0][: settings.examples * length]
        counts = (f"{len(ids):,}" for ids in splits)
        log("{} tokens to train on, {} to validate, {} to test".format(*counts))
        return Prepared(
            *({"tokens": ids.astype("int32")} for ids in splits),
            self.describe(tokenizer),
        )

    def learn(self, lines, settings, log):
        """Returns a tokenizer of the lines to train on."""
        raise NotImplementedError

    def describe(self, tokenizer):
        """Returns the notes of `prepare`: what makes it anew."""
        raise NotImplementedError

    def scorer(self, model):
        return keras_synth.metrics.token_scorer(model)

    def evaluate(self, scorer, batches):
        logs = scorer.evaluate(batches, verbose=0, return_dict=True)
        return {"score": logs["crossentropy"], "loss": logs["crossentropy"]}

    def trained_on(self, prepared):
        return f"{len(prepared.train['tokens']):,} tokens of plain text"


class MaskedLanguageModel(Pretraining):
    """Tokens that are hidden, to be guessed: BERT's objective."""

    card = "It guesses 15% of the tokens, which are hidden, as BERT."

    def learn(self, lines, settings, log):
        return keras_synth.models.SynthesizerTokenizer.from_texts(
            _sample(lines, log), settings.vocabulary_size
        )

    def describe(self, tokenizer):
        vocabulary = list(tokenizer.get_vocabulary())
        special = [vocabulary.index(x) for x in SPECIAL]
        notes = {"vocabulary": vocabulary, "special": special}
        return {**notes, **_ids(tokenizer)}

    def tokenizer(self, notes):
        """Returns the tokenizer of `describe`."""
        return keras_synth.models.SynthesizerTokenizer(notes["vocabulary"])

    def batches(self, settings, seed, prepared):
        notes = prepared.notes

        def batches(split, **options):
            return keras_synth.pretraining.MaskedTokens(
                keras_synth.pretraining.pack_tokens(
                    split["tokens"],
                    settings.sequence_length,
                    notes["start"],
                    notes["end"],
                ),
                mask_token_id=notes["mask"],
                vocabulary_size=notes["vocabulary_size"],
                special_token_ids=notes["special"],
                batch_size=settings.batch_size,
                **options,
            )

        train, *others = prepared[:3]
        return batches(train, drop_remainder=True, seed=seed), *(
            batches(split, shuffle=False) for split in others
        )

    def build(self, settings, run, prepared, steps):
        model = keras_synth.models.SynthesizerMaskedLM(
            keras_synth.models.SynthesizerBackbone(
                **backbone_options(settings, run, prepared)
            )
        )
        return compiled(model, settings, steps)

    def preprocessor(self, settings, prepared):
        return keras_synth.models.SynthesizerMaskedLMPreprocessor(
            self.tokenizer(prepared.notes),
            sequence_length=settings.sequence_length,
        )


class MaskedWords(MaskedLanguageModel):
    """Words between spaces with 15% of them hidden; each word is a token."""

    Settings = _SettingsWithoutVocabulary
    data_settings = ("task", "examples", "sequence_length")

    def learn(self, lines, settings, log):
        return keras_synth.models.SynthesizerWordTokenizer.from_texts(lines)

    def tokenizer(self, notes):
        return keras_synth.models.SynthesizerWordTokenizer(notes["vocabulary"])


class MaskedBytes(MaskedWords):
    """Bytes with 15% of them hidden."""

    def learn(self, lines, settings, log):
        return self.tokenizer({})

    def describe(self, tokenizer):
        ids = _ids(tokenizer)
        special = [tokenizer.pad_token_id, *(ids[name] for name in TOKENS)]
        return {"special": special, **ids}

    def tokenizer(self, notes):
        return keras_synth.models.SynthesizerByteTokenizer()


class SpanCorruption(Pretraining):
    """Texts with holes in, what was in the holes out: T5's objective."""

    card = "It writes what was cut out of a text, as T5."
    needs = ("supports_causal_mask",)

    def learn(self, lines, settings, log):
        return keras_synth.models.SynthesizerBytePairTokenizer.from_texts(
            _sample(lines, log), settings.vocabulary_size - SENTINELS
        )

    def describe(self, tokenizer):
        known = byte_pair_notes(tokenizer)
        return {
            **known,
            "vocabulary_size": known["vocabulary_size"] + SENTINELS,
            "start": tokenizer.start_token_id,
            "end": tokenizer.end_token_id,
        }

    def batches(self, settings, seed, prepared):
        notes = prepared.notes
        return tuple(
            keras_synth.pretraining.SpanCorruption(
                split["tokens"],
                settings.sequence_length,
                notes["vocabulary_size"],
                end_token_id=notes["end"],
                start_token_id=notes["start"],
                batch_size=settings.batch_size,
                **options,
            )
            for split, options in zip(
                prepared[:3],
                [{"seed": seed}, {"shuffle": False}, {"shuffle": False}],
                strict=True,
            )
        )

    def build(self, settings, run, prepared, steps):
        width = settings.hidden_dim
        own = {"num_heads": run.num_heads, "key_dim": width // run.num_heads}
        config = keras_synth.models.config(
            "t5_tiny",
            run.variant,
            vocabulary_size=prepared.notes["vocabulary_size"],
            num_layers=settings.num_layers,
            hidden_dim=width,
            intermediate_dim=settings.intermediate_dim or 4 * width,
            dropout=settings.dropout,
            max_sequence_length=settings.sequence_length,
            **own,
            **{f"cross_{name}": count for name, count in own.items()},
        )
        model = keras_synth.models.SynthesizerSeq2SeqLM(
            keras_synth.models.SynthesizerSeq2SeqBackbone(**config)
        )
        return compiled(model, settings, steps)

    def preprocessor(self, settings, prepared):
        lengths = 2 * (settings.sequence_length,)
        return keras_synth.models.SynthesizerSeq2SeqLMPreprocessor(
            byte_pair_tokenizer(prepared.notes), *lengths
        )


def _lines(texts):
    """The lines of texts that are not blank."""
    for text in texts:
        yield from filter(str.strip, text.split("\n"))


def _sample(lines, log):
    """The lines that a vocabulary of parts of words is learned from."""
    if len(lines) > VOCABULARY_LINES:  # all of them would take an hour
        lines = random.Random(0).sample(lines, VOCABULARY_LINES)
    log(f"Training a vocabulary on {len(lines):,} lines")
    return lines


def _ids(tokenizer):
    """The size of a vocabulary and the ids of `TOKENS`."""
    return {
        "vocabulary_size": tokenizer.vocabulary_size(),
        **{x: getattr(tokenizer, f"{x}_token_id") for x in TOKENS},
    }


def compiled(model, settings, steps):
    """The model, compiled to be trained on tokens with weights."""
    model.compile(
        optimizer=adamw(settings, steps),
        loss=keras_synth.losses.LabelSmoothedCrossentropy(),
        weighted_metrics=[],
    )
    return model

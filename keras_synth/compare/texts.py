"""Tasks on plain texts: next tokens and hidden tokens."""

import random

import numpy as np

import keras_synth  # its models need seconds for their import, at first use
from keras_synth import datasets, pretraining
from keras_synth.compare import data
from keras_synth.compare.task import (
    Score,
    Task,
    learn_tokenizer,
    tokenizer_of,
)

LEARNED_FROM = 100_000  # maximum lines for word pieces and byte pairs
SENTINELS = 100  # of T5's vocabulary, at its end


class Texts(Task):
    """Base class of tasks on plain texts.

    Attributes:
        subwords: Kind of tokens for `--tokens subwords`.
        held_out: Per cent of each text for validation, and for the test.
    """

    keeps = True
    validation = "loss"
    own = "tokens vocabulary_size weight_decay"
    subwords = "word_pieces"
    held_out = 1

    def __init__(self, name, **options):
        super().__init__(name, datasets.generated_translations, **options)

    def score(self, settings):
        return Score("log-perplexity", digits=3, higher_is_better=False)

    def prepare(self, settings, source, log):
        if source.data:
            splits = data.text_splits(source, self.held_out)
        else:
            splits = [
                [f"{line}\n" for line in lines]
                for lines, _ in data.examples(self, settings, source)
            ]
        splits = [self.lines(lines, settings) for lines in splits]
        kind, known = settings.get("tokens", "subwords"), splits[0]
        if kind == "subwords":
            kind = self.subwords
            if len(known) > LEARNED_FROM:
                known = random.Random(0).sample(known, LEARNED_FROM)
        notes = learn_tokenizer(kind, known, settings, log)
        tokenizer = tokenizer_of(notes)
        log(f"Tokenizing {sum(map(len, splits)):,} lines")
        found = [
            np.concatenate([np.asarray(x, "int32") for x in tokenizer(lines)])
            for lines in splits
        ]
        if settings["examples"] and source.data:
            most = settings["examples"] * settings["sequence_length"]
            found[0] = found[0][:most]
        notes |= self.notes(tokenizer, settings, found[2], splits[2])
        # Tokens by their frequency.
        size = max(notes["vocabulary_size"], 1 + max(x.max() for x in found))
        counts = np.bincount(found[0], minlength=size) + 1.0
        nats = float(-np.log(counts / counts.sum())[found[2]].mean())
        score = self.figure(nats, notes, settings)
        notes["baseline"] = {"name": "frequencies", "score": score}
        counts = (f"{len(ids):,}" for ids in found)
        log("Tokens: {} training, {} validation, {} test".format(*counts))
        return [{"tokens": ids} for ids in found], notes

    def lines(self, lines, settings):
        """Returns the lines to tokenize."""
        return [line for line in lines if line.strip()]

    def notes(self, tokenizer, settings, ids, lines):
        """Returns further notes, given the tokens and lines of the test."""
        return {}

    def figure(self, nats, notes, settings):
        """Returns the score for a loss in nats per token."""
        return nats

    def test(self, model, batches, arrays, settings):
        import keras_hub

        perplexity = keras_hub.metrics.Perplexity(from_logits=True)
        model.compile(loss=self.loss(settings), weighted_metrics=[perplexity])
        figures = super().test(model, batches, arrays, settings)
        nats = float(np.log(figures["perplexity"]))
        return {"score": self.figure(nats, arrays.notes, settings)}


class LanguageModel(Texts):
    """Language models of words, bytes or byte pairs."""

    model = "SynthesizerCausalLM"
    new = {"causal": True, "positions": "learned"}
    needs = ("supports_causal_mask",)
    keeps = False
    subwords = "subwords"
    held_out = 10

    def score(self, settings):
        if settings["tokens"] == "bytes":
            return Score("bits per byte", digits=3, higher_is_better=False)
        return Score("perplexity per word", higher_is_better=False)

    def lines(self, lines, settings):
        if settings["tokens"] == "words":
            return [" ".join([*line.split(), "<eos>"]) for line in lines]
        return lines

    def notes(self, tokenizer, settings, ids, lines):
        if settings["tokens"] != "subwords":
            return {"tokens_per_word": 1.0}
        words = sum(1 + len(line.split()) for line in lines)
        return {"tokens_per_word": len(ids) / words}

    def figure(self, nats, notes, settings):
        if settings["tokens"] == "bytes":
            return float(nats / np.log(2))
        return float(np.exp(nats * notes["tokens_per_word"]))

    def split(self, split, notes, settings, **options):
        tokens, length = split["tokens"], settings["sequence_length"]
        count = -(-(len(tokens) - 1) // length)
        padded = np.zeros(count * length + 1, "int32")
        padded[: len(tokens)] = tokens
        rows = count, length
        mask = np.arange(1, len(padded)) < len(tokens)
        mask = mask.astype("int32").reshape(rows)
        windows = {
            "token_ids": padded[:-1].reshape(rows),
            "labels": padded[1:].reshape(rows),
            "padding_mask": mask,
            "sample_weight": mask,
        }
        return super().split(windows, notes, settings, **options)


class MaskedLM(Texts):
    """BERT's objective: hidden tokens."""

    model = "SynthesizerMaskedLM"

    def notes(self, tokenizer, settings, *_):
        names = "start", "end", "mask"
        ids = {x: getattr(tokenizer, f"{x}_token_id") for x in names}
        preprocessor = keras_synth.models.SynthesizerMaskedLMPreprocessor(
            tokenizer, settings["sequence_length"]
        )
        special = preprocessor.special_token_ids
        return {**ids, "special": list(map(int, special))}

    def use(self, notes):
        mask = tokenizer_of(notes).mask_token
        return f"print(model.fill_mask({f'a {mask} text'!r}))"

    def split(self, split, notes, settings, **options):
        rows = pretraining.pack_tokens(
            split["tokens"],
            settings["sequence_length"],
            notes["start"],
            notes["end"],
        )
        return pretraining.MaskedTokens(
            rows,
            mask_token_id=notes["mask"],
            vocabulary_size=notes["vocabulary_size"],
            special_token_ids=notes["special"],
            batch_size=settings["batch_size"],
            drop_remainder=options.get("shuffle", True),
            **options,
        )


class SpanCorruption(Texts):
    """T5's objective: removed spans."""

    model = "SynthesizerSeq2SeqLM"
    needs = ("supports_causal_mask",)
    sides = 2
    own = "vocabulary_size weight_decay"
    subwords = "subwords"

    def notes(self, tokenizer, settings, *_):
        return {
            "vocabulary_size": tokenizer.vocabulary_size() + SENTINELS,
            "start": int(tokenizer.start_token_id),
            "end": int(tokenizer.end_token_id),
        }

    def split(self, split, notes, settings, **options):
        return pretraining.SpanCorruption(
            split["tokens"],
            settings["sequence_length"],
            notes["vocabulary_size"],
            end_token_id=notes["end"],
            start_token_id=notes["start"],
            batch_size=settings["batch_size"],
            **options,
        )

    def arguments(self, variant, sizes):
        heads = sizes["num_heads"]
        sizes |= {"key_dim": sizes["hidden_dim"] // heads}
        sizes |= {"cross_num_heads": heads, "cross_key_dim": sizes["key_dim"]}
        return keras_synth.models.config("t5_tiny", variant, **sizes)

"""Tasks that learn from plain texts: what follows, and what is hidden."""

import random

import numpy as np

import keras_synth  # its models take seconds to import, when first asked for
from keras_synth import datasets
from keras_synth.compare import data
from keras_synth.compare.task import (
    Score,
    Task,
    backbone,
    learn_tokenizer,
    length_buckets,
    optimizer,
    tokenizer_notes,
    tokenizer_of,
)
from keras_synth.training import LabelSmoothedCrossentropy

LEARNED_FROM = 100_000  # lines, at most, for word pieces and byte pairs
SENTINELS = 100  # of T5's vocabulary, at its end
SPECIAL = ("[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]")  # never hidden


class Texts(Task):
    """Base class of tasks that learn from plain texts.

    Args:
        own: String, names of settings of its own.
        cuts: Per cent of each text where the splits that are held out begin.
        **options: As for `Task`.
    """

    keeps = True
    validation = "loss"

    def __init__(self, name, own, cuts=(98, 99), **options):
        super().__init__(name, f"{own} weight_decay", **options)
        self.cuts = cuts

    def score(self, settings):
        return Score("log-perplexity", digits=3, higher_is_better=False)

    def lines(self, settings, source):
        """Lists of the lines of three splits, with their ends."""
        if source.data:
            return data.text_splits(source, self.cuts)
        count = settings["examples"] or data.GENERATED
        pairs = datasets.generated_translations(1_000 + count)
        return [
            [f"{line}\n" for line in sources]
            for sources, _ in data.distinct(pairs, 500)
        ]

    def kind(self, settings):
        """The kind of tokens."""
        return settings["tokens"]

    def prepare(self, settings, source, log):
        splits = [
            [self.line(x, settings) for x in lines if self.wanted(x, settings)]
            for lines in self.lines(settings, source)
        ]
        kind, known = self.kind(settings), splits[0]
        if kind in ("word_pieces", "subwords") and len(known) > LEARNED_FROM:
            known = random.Random(0).sample(known, LEARNED_FROM)
        tokenizer = learn_tokenizer(kind, known, settings, log)
        notes = tokenizer_notes(kind, tokenizer) | self.ids(tokenizer, settings)
        log(f"Tokenizing {sum(map(len, splits)):,} lines")
        found = [
            np.concatenate([np.asarray(x) for x in tokenizer(lines)])
            for lines in splits
        ]
        if settings["examples"] and source.data:
            most = settings["examples"] * settings["sequence_length"]
            found[0] = found[0][:most]
        notes["per_unit"] = self.per_unit(found[2], splits[2], settings)
        notes["baseline"] = self.baseline(found, notes, settings)
        arrays = [{"tokens": ids.astype("int32")} for ids in found]
        counts = (f"{len(ids):,}" for ids in found)
        log("{} tokens to train on, {} to validate, {} to test".format(*counts))
        return arrays, notes

    def line(self, line, settings):
        """A line, as it is tokenized."""
        return line

    def wanted(self, line, settings):
        """Whether a line counts."""
        return bool(line.strip())

    def ids(self, tokenizer, settings):
        """Notes of special tokens."""
        return {}

    def per_unit(self, ids, lines, settings):
        """Tokens for each unit that scores are about."""
        return 1.0

    def figure(self, nats, notes, settings):
        """The score of so many nats per token."""
        return nats

    def baseline(self, found, notes, settings):
        """The score of whoever knows how frequent tokens are."""
        size = max(notes["vocabulary_size"], 1 + max(x.max() for x in found))
        counts = np.bincount(found[0], minlength=size) + 1.0
        nats = float(-np.log(counts / counts.sum())[found[2]].mean())
        score = self.figure(nats, notes, settings)
        return {"name": "frequencies", "score": score}

    def compile(self, model, settings, steps):
        """Compiles a model to be trained on tokens with weights."""
        model.compile(
            optimizer=optimizer(settings, steps),
            loss=LabelSmoothedCrossentropy(),
            weighted_metrics=[],
        )
        return model

    def test(self, model, batches, arrays, settings):
        import keras
        import keras_hub

        perplexity = keras_hub.metrics.Perplexity(from_logits=True)
        model.compile(
            loss=LabelSmoothedCrossentropy(), weighted_metrics=[perplexity]
        )
        logs = keras.Model.evaluate(model, batches, verbose=0, return_dict=True)
        nats = float(np.log(logs["perplexity"]))
        return {"score": self.figure(nats, arrays.notes, settings)}


class LanguageModel(Texts):
    """A text to go on with: its words, bytes or byte pairs."""

    needs = ("supports_causal_mask",)
    keeps = False

    def __init__(self, name, **options):
        own = "tokens vocabulary_size"
        super().__init__(name, own, cuts=(80, 90), **options)

    def score(self, settings):
        if settings["tokens"] == "bytes":
            return Score("bits per byte", digits=3, higher_is_better=False)
        return Score("perplexity per word", higher_is_better=False)

    def figure(self, nats, notes, settings):
        if settings["tokens"] == "bytes":
            return float(nats / np.log(2))
        return float(np.exp(nats * notes["per_unit"]))

    def line(self, line, settings):
        if settings["tokens"] == "words":
            return " ".join([*line.split(), "<eos>"])
        return line

    def wanted(self, line, settings):
        return True

    def per_unit(self, ids, lines, settings):
        if settings["tokens"] != "subwords":
            return 1.0
        return len(ids) / sum(1 + len(line.split()) for line in lines)

    def batches(self, arrays, settings, seed):
        length = settings["sequence_length"]
        made = []
        for split in arrays[:3]:
            count = -(-(len(split["tokens"]) - 1) // length)
            padded = np.zeros(count * length + 1, "int32")
            padded[: len(split["tokens"])] = split["tokens"]
            mask = np.arange(1, len(padded)) < len(split["tokens"])
            x, y, mask = (
                values.reshape(count, length)
                for values in (padded[:-1], padded[1:], mask.astype("int32"))
            )
            made.append(
                {
                    "token_ids": x,
                    "padding_mask": mask,
                    "labels": y,
                    "sample_weight": mask,
                }
            )
        arrays = data.Arrays(*made, arrays.notes)
        options = {**settings, "lengths": []}
        return length_buckets(arrays, options, seed, settings["batch_size"])

    def build(self, variant, seed, settings, notes, steps):
        models = keras_synth.models
        known = {"causal": True, "positions": "learned"}
        model = models.SynthesizerCausalLM(
            backbone(
                models.SynthesizerBackbone,
                variant,
                seed,
                settings,
                notes,
                new=known,
            )
        )
        return self.compile(model, settings, steps)

    def preprocessor(self, settings, notes):
        return keras_synth.models.SynthesizerCausalLMPreprocessor(
            tokenizer_of(notes), settings["sequence_length"]
        )


class MaskedLM(Texts):
    """Tokens that are hidden, to be guessed: BERT's objective."""

    def __init__(self, name, **options):
        super().__init__(name, "tokens vocabulary_size", **options)

    def kind(self, settings):
        kind = settings["tokens"]
        return "word_pieces" if kind == "subwords" else kind

    def ids(self, tokenizer, settings):
        names = "start", "end", "mask", "pad"
        ids = {x: getattr(tokenizer, f"{x}_token_id") for x in names}
        special = [*ids.values()]
        if settings["tokens"] != "bytes":
            special = [*map(tokenizer.token_to_id, SPECIAL)]
        return {**ids, "special": list(map(int, special))}

    def batches(self, arrays, settings, seed):
        notes = arrays.notes

        def batches(split, **options):
            return keras_synth.pretraining.MaskedTokens(
                keras_synth.pretraining.pack_tokens(
                    split["tokens"],
                    settings["sequence_length"],
                    notes["start"],
                    notes["end"],
                ),
                mask_token_id=notes["mask"],
                vocabulary_size=notes["vocabulary_size"],
                special_token_ids=notes["special"],
                batch_size=settings["batch_size"],
                **options,
            )

        train, *others = arrays[:3]
        return batches(train, drop_remainder=True, seed=seed), *(
            batches(split, shuffle=False) for split in others
        )

    def build(self, variant, seed, settings, notes, steps):
        models = keras_synth.models
        model = models.SynthesizerMaskedLM(
            backbone(models.SynthesizerBackbone, variant, seed, settings, notes)
        )
        return self.compile(model, settings, steps)

    def preprocessor(self, settings, notes):
        return keras_synth.models.SynthesizerMaskedLMPreprocessor(
            tokenizer_of(notes), sequence_length=settings["sequence_length"]
        )


class SpanCorruption(Texts):
    """Texts with gaps in, what was in the gaps out: T5's objective."""

    needs = ("supports_causal_mask",)

    def __init__(self, name, **options):
        super().__init__(name, "vocabulary_size", **options)

    def kind(self, settings):
        return "subwords"

    def ids(self, tokenizer, settings):
        return {
            "vocabulary_size": tokenizer.vocabulary_size() + SENTINELS,
            "start": int(tokenizer.start_token_id),
            "end": int(tokenizer.end_token_id),
        }

    def batches(self, arrays, settings, seed):
        notes = arrays.notes
        train, *others = (
            keras_synth.pretraining.SpanCorruption(
                split["tokens"],
                settings["sequence_length"],
                notes["vocabulary_size"],
                end_token_id=notes["end"],
                start_token_id=notes["start"],
                batch_size=settings["batch_size"],
                **options,
            )
            for split, options in zip(
                arrays[:3],
                [{"seed": seed}, {"shuffle": False}, {"shuffle": False}],
                strict=True,
            )
        )
        return train, *others

    def build(self, variant, seed, settings, notes, steps):
        models, width = keras_synth.models, settings["hidden_dim"]
        heads = settings["num_heads"]
        own = {"num_heads": heads, "key_dim": width // heads}
        config = models.config(
            "t5_tiny",
            variant,
            vocabulary_size=notes["vocabulary_size"],
            num_layers=settings["num_layers"],
            hidden_dim=width,
            intermediate_dim=settings["intermediate_dim"] or 4 * width,
            dropout=settings["dropout"],
            max_sequence_length=settings["sequence_length"],
            **own,
            **{f"cross_{name}": count for name, count in own.items()},
        )
        model = models.SynthesizerSeq2SeqLM(
            models.SynthesizerSeq2SeqBackbone(**config)
        )
        return self.compile(model, settings, steps)

    def preprocessor(self, settings, notes):
        length = settings["sequence_length"]
        return keras_synth.models.SynthesizerSeq2SeqLMPreprocessor(
            tokenizer_of(notes), length, length
        )

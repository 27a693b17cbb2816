"""Texts and what to write for them: translations, summaries, answers."""

import json
import time

import numpy as np

import keras_synth  # its models take seconds to import, when first asked for
from keras_synth import datasets
from keras_synth.compare.kinds.kind import Kind, Prepared, Score
from keras_synth.compare.kinds.metrics import BLEU
from keras_synth.compare.kinds.recipes import adam, backbone_options
from keras_synth.compare.kinds.some import some
from keras_synth.compare.kinds.writing import write

SAMPLES = 10


class Translation(Kind):
    """Texts and what to write for them, scored when all has been written.

    Args:
        metric: `Metric` of the texts that are written.
    """

    epoch_score = Score("token accuracy", "accuracy", 100, unit="%")
    data_settings = ("task", "sequence_length", "vocabulary_size", "examples")
    unused = ("keep", "pooling", "weight_decay")

    def __init__(self, metric=BLEU):
        self.metric = metric
        self.score, self.packages = metric.score, (metric.package,)

    def some(self, train, settings):
        return some(train, settings.examples)

    def prepare(self, examples, settings, preprocess, say):
        train, validation, (sources, references) = examples
        references = [[r] if isinstance(r, str) else r for r in references]
        say(f"Training a vocabulary on {len(train[0]):,} pairs")
        preprocessor = _preprocessor(train, settings)
        kept = _short_enough(train, preprocessor.tokenizer, settings, say)
        counts = [len(side) for side in (kept[0], validation[0], sources)]
        say(f"Tokenizing {sum(counts):,} pairs")
        features, labels, weight = preprocess(
            preprocessor,
            {
                "encoder_text": [*kept[0], *validation[0], *sources],
                "decoder_text": [
                    *kept[1],
                    *validation[1],
                    *(texts[0] for texts in references),
                ],
            },
        )
        arrays = {**features, "labels": labels, "sample_weight": weight}
        ends = np.cumsum(counts)[:-1]
        parts = [np.split(x, ends) for x in arrays.values()]
        splits = [
            dict(zip(arrays, part, strict=True))
            for part in zip(*parts, strict=True)
        ]
        # Bytes, so that they count in the digest as all arrays do.
        texts = json.dumps([sources, references]).encode()
        splits[2]["texts"] = np.frombuffer(texts, "uint8")
        dropped = len(train[0]) - len(kept[0])
        return Prepared(
            *splits, {**_notes(preprocessor.tokenizer), "dropped": dropped}
        )

    def batches(self, settings, seed, prepared):
        return _buckets(
            prepared.train, settings, drop_remainder=True, seed=seed
        ), *(
            _buckets(other, settings, shuffle=False)
            for other in (prepared.validation, prepared.test)
        )

    def build(self, settings, run, prepared, steps):
        backbone = keras_synth.models.SynthesizerSeq2SeqBackbone(
            **backbone_options(settings, run, prepared), positions="sinusoidal"
        )
        model = keras_synth.models.SynthesizerSeq2SeqLM(backbone)
        model.compile(
            optimizer=adam(settings, steps),
            loss=keras_synth.losses.LabelSmoothedCrossentropy(
                settings.label_smoothing
            ),
            weighted_metrics=[keras_synth.metrics.TokenAccuracy()],
            sampler="greedy",
        )
        return model

    def scores(self, logs):
        return logs["accuracy"], logs["loss"]

    def finish(self, model, settings, prepared, tell):
        started = time.perf_counter()
        written = write(model, prepared, tell)
        seconds = time.perf_counter() - started
        sources, references = json.loads(prepared.test["texts"].tobytes())
        score, signature = self.metric.compute(written, references)
        return {
            "score": score,
            "signature": signature,
            "samples": _samples(sources, references, written),
            "generate_seconds": seconds,
            "dropped": prepared.notes["dropped"],
        }


def _preprocessor(pairs, settings):
    models = keras_synth.models
    sources, targets = pairs
    return models.SynthesizerSeq2SeqLMPreprocessor(
        models.SynthesizerBytePairTokenizer.from_texts(
            [*sources, *targets], settings.vocabulary_size
        ),
        settings.sequence_length,
        settings.sequence_length,
    )


def _short_enough(pairs, tokenizer, settings, say):
    """The pairs that need not be cut: half a translation teaches wrongly."""
    most = settings.sequence_length
    # Sources have a start and an end token; one of them is left of targets,
    # since what is read and what is written lie one apart.
    rooms = most - 2, most - 1
    fit = [
        np.array([len(ids) <= room for ids in tokenizer(list(side))])
        for side, room in zip(pairs, rooms, strict=True)
    ]
    rows = np.flatnonzero(fit[0] & fit[1])
    if len(rows) < len(fit[0]):
        say(
            f"Left out {len(fit[0]) - len(rows):,} pairs to train on that are "
            f"longer than --sequence-length {most}"
        )
    if not len(rows):
        raise ValueError(
            "All pairs to train on are longer than --sequence-length. Pass a "
            f"larger one. Received: {most} tokens"
        )
    return tuple([side[i] for i in rows] for side in pairs)


def _notes(tokenizer):
    """What a tokenizer is made of, tokens in the order of their ids."""
    ids = tokenizer.vocabulary
    return {
        "vocabulary_size": len(ids),
        "vocabulary": sorted(ids, key=ids.get),
        "merges": list(tokenizer.merges),
    }


def _buckets(arrays, settings, **options):
    arrays = {k: x for k, x in arrays.items() if k != "texts"}
    labels, weight = arrays.pop("labels"), arrays.pop("sample_weight")
    return datasets.LengthBuckets(
        arrays,
        labels,
        settings.batch_size,
        settings.lengths,
        sample_weight=weight.astype("float32"),
        **options,
    )


def _samples(sources, references, written):
    """Some examples from all over the test set."""
    rows = np.linspace(0, len(written) - 1, min(SAMPLES, len(written)))
    return [
        {
            "source": sources[i],
            "reference": references[i][0],
            "written": written[i],
        }
        for i in rows.astype(int)
    ]

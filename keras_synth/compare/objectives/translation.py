"""Texts and what to write for them: translations, summaries, answers."""

import dataclasses
import json
import time

import numpy as np

import keras_synth  # its models take seconds to import, when first asked for
from keras_synth.compare import settings
from keras_synth.compare.objectives import recipes
from keras_synth.compare.objectives.objective import Objective, Prepared, Score
from keras_synth.compare.objectives.recipes import length_batches, schedule

SAMPLES = 10
WRITTEN_AT_ONCE = 64  # one shape, since JAX and XLA compile for each
# Functions of `keras_synth.metrics`: their scores, their packages, and those
# that are computed, too.
METRICS = {
    "bleu": (Score("BLEU", "BLEU"), "sacrebleu", ("chrf",)),
    "rouge_l": (Score("ROUGE-L", "ROUGE-L"), "rouge_score", ()),
}


@dataclasses.dataclass(frozen=True)
class _Settings(settings.Settings):
    lengths: tuple = settings.LENGTHS()
    vocabulary_size: int = settings.VOCABULARY_SIZE()
    init: str = settings.INIT()
    init_weights: str = settings.INIT_WEIGHTS()
    label_smoothing: float = settings.setting(
        0.0, "share of a label's probability that all tokens get", settings.RATE
    )


class Translation(Objective):
    """Texts and what to write for them, scored when all has been written.

    Args:
        metric: String, a key of `METRICS`.
    """

    Settings = _Settings
    data_settings = (
        "task",
        "sequence_length",
        "vocabulary_size",
        "examples",
        "init",
    )
    init_backbone = "SynthesizerSeq2SeqBackbone"
    epoch_score = Score("token accuracy", "accuracy", 100, unit="%")
    card = "It reads a text and writes another."
    needs = ("supports_causal_mask",)

    def __init__(self, metric="bleu"):
        self.metric = metric
        self.score, package, self.further = METRICS[metric]
        self.packages = (package,)

    def prepare(self, examples, settings, preprocess, log):
        train, validation, (sources, references) = examples
        references = [[r] if isinstance(r, str) else r for r in references]
        tokenizer = recipes.tokenizer(
            keras_synth.models.SynthesizerBytePairTokenizer,
            [*train[0], *train[1]],
            settings,
            log,
        )
        kept = _short_enough(train, tokenizer, settings, log)
        splits = kept, validation, (sources, [x[0] for x in references])
        log(f"Tokenizing {sum(len(split[0]) for split in splits):,} pairs")
        inputs = [({"encoder_text": x, "decoder_text": y},) for x, y in splits]
        arrays = [
            {**features, "labels": labels, "sample_weight": weight}
            for features, labels, weight in preprocess(
                _preprocessor(tokenizer, settings), inputs
            )
        ]
        # Bytes, so that they count in the digest as all arrays do.
        texts = json.dumps([sources, references]).encode()
        arrays[2]["texts"] = np.frombuffer(texts, "uint8")
        notes = {
            **recipes.byte_pair_notes(tokenizer),
            "dropped": len(train[0]) - len(kept[0]),
        }
        return Prepared(*arrays, notes)

    def batches(self, settings, seed, prepared):
        return length_batches(settings, seed, prepared, settings.batch_size)

    def build(self, settings, run, prepared, steps):
        import keras

        backbone = recipes.backbone(
            keras_synth.models.SynthesizerSeq2SeqBackbone,
            settings,
            run,
            prepared,
            new={"positions": "sinusoidal"},
        )
        model = keras_synth.models.SynthesizerSeq2SeqLM(backbone)
        model.compile(
            # The decay rates of Vaswani et al., 2017, 5.3.
            optimizer=keras.optimizers.Adam(
                schedule(settings, steps), beta_2=0.98, epsilon=1e-9
            ),
            loss=keras_synth.losses.LabelSmoothedCrossentropy(
                settings.label_smoothing
            ),
            weighted_metrics=[keras_synth.metrics.TokenAccuracy()],
            sampler="greedy",
        )
        return model

    def finish(self, model, settings, prepared, emit):
        sources, references = json.loads(prepared.test["texts"].tobytes())
        lengths = prepared.test["encoder_padding_mask"].sum(axis=1)
        started = time.perf_counter()
        model.preprocessor = self.preprocessor(settings, prepared)
        written = write_all(model, sources, lengths, emit)
        seconds = time.perf_counter() - started
        (score, *others), signatures = zip(
            *(
                getattr(keras_synth.metrics, name)(written, references)
                for name in (self.metric, *self.further)
            ),
            strict=True,
        )
        rows = np.linspace(0, len(written) - 1, min(SAMPLES, len(written)))
        samples = [
            {
                "source": sources[i],
                "reference": references[i][0],
                "written": written[i],
            }
            for i in rows.astype(int)
        ]
        return {
            "score": score,
            "metrics": dict(zip(self.further, others, strict=True)),
            "signature": "; ".join(signatures),
            "samples": samples,
            "generate_seconds": seconds,
            "dropped": prepared.notes["dropped"],
        }

    def preprocessor(self, settings, prepared):
        tokenizer = recipes.byte_pair_tokenizer(prepared.notes)
        return _preprocessor(tokenizer, settings)


def _preprocessor(tokenizer, settings):
    length = settings.sequence_length
    return keras_synth.models.SynthesizerSeq2SeqLMPreprocessor(
        tokenizer, length, length
    )


def _short_enough(pairs, tokenizer, settings, log):
    """The pairs that need not be cut: half a translation teaches wrongly."""
    most = settings.sequence_length
    # Sources have a start and an end token; one of them is left of targets,
    # since what is read and what is written lie one apart.
    fit = [
        np.array([len(ids) <= longest for ids in tokenizer(list(side))])
        for side, longest in zip(pairs, (most - 2, most - 1), strict=True)
    ]
    rows = np.flatnonzero(fit[0] & fit[1])
    if len(rows) < len(fit[0]):
        log(
            f"Left out {len(fit[0]) - len(rows):,} pairs to train on that are "
            f"longer than --sequence-length {most}"
        )
    if not len(rows):
        raise ValueError(
            "All pairs to train on are longer than --sequence-length. Pass a "
            f"larger one. Received: {most} tokens"
        )
    return tuple([side[i] for i in rows] for side in pairs)


def write_all(model, sources, lengths=None, emit=None):
    """Returns what a model writes for many sources, in batches of one size.

    Args:
        model: A `SynthesizerSeq2SeqLM` with a preprocessor.
        sources: List of strings.
        lengths: Optional sequence of integers, that of each source in tokens;
            by default in characters. Batches take as long as their longest
            text, so equal lengths go together.
        emit: Optional function that takes an event, a dictionary.
    """
    lengths = [*map(len, sources)] if lengths is None else lengths
    order = np.argsort(lengths, kind="stable")
    size = min(WRITTEN_AT_ONCE, len(order))
    written = [""] * len(order)
    for start in range(0, len(order), size):
        rows = order[start : start + size]
        filled = np.resize(rows, size)  # the last batch repeats its rows
        made = model.generate([sources[i] for i in filled])
        for row, text in zip(rows, made, strict=False):
            written[row] = text
        if emit is not None:
            emit({"note": f"written {start + len(rows)} of {len(order)}"})
    return written

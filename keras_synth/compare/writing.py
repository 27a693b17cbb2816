"""Tasks of text generation: translations, summaries, answers."""

from importlib.metadata import version

import numpy as np

from keras_synth.compare import data
from keras_synth.compare.task import (
    Score,
    Task,
    learn_tokenizer,
    tokenizer_of,
)

AT_ONCE = 64  # texts to write in one shape, because compilers need fixed ones


class Writing(Task):
    """Texts to read and texts to write, scored by BLEU or ROUGE-L."""

    own = "lengths vocabulary_size label_smoothing init init_weights"
    model = "SynthesizerSeq2SeqLM"
    new = {"positions": "sinusoidal"}
    compiled = {"sampler": "greedy"}
    needs = ("supports_causal_mask",)
    sides = 2

    def __init__(self, name, metric="BLEU", **options):
        super().__init__(name, **options)
        self.metric = metric

    def score(self, settings):
        return Score(self.metric)

    def use(self, notes):
        return 'model.compile(sampler="greedy")\n' + super().use(notes)

    def prepare(self, settings, source, log):
        train, validation, (sources, references) = data.examples(
            self, settings, source
        )
        references = [[x] if isinstance(x, str) else x for x in references]
        notes = learn_tokenizer(
            "subwords", [*train[0], *train[1]], settings, log
        )
        notes["references"], notes["sources"] = references, sources
        copied = self.figures(sources, references)
        notes["baseline"] = {"name": "the source", "score": copied["score"]}
        train = _short_enough(train, tokenizer_of(notes), settings, log)
        splits = train, validation, (sources, [x[0] for x in references])
        preprocessor = self.preprocessor(settings, notes)

        def tokenize(encoder, decoder):
            texts = {"encoder_text": encoder, "decoder_text": decoder}
            return preprocessor(texts)

        return data.tokenized(tokenize, splits, log), notes

    def test(self, model, batches, arrays, settings):
        model.preprocessor = self.preprocessor(settings, arrays.notes)
        written = write_all(model, arrays.notes["sources"])
        return self.figures(written, arrays.notes["references"])

    def figures(self, written, references):
        """Returns scores of sacrebleu or rouge_score, and their signature."""
        if self.metric == "ROUGE-L":
            from rouge_score import rouge_scorer

            scorer = rouge_scorer.RougeScorer(["rougeL"], use_stemmer=True)
            best = [
                scorer.score_multi(several, text)["rougeL"].fmeasure
                for text, several in zip(written, references, strict=True)
            ]
            signature = f"rouge_score {version('rouge-score')}, stemmed"
            score = 100 * float(np.mean(best))
            return {"score": score, "signature": signature}
        from sacrebleu.metrics import BLEU, CHRF

        most = max(map(len, references))
        # Each reference of all texts, or the first one of a text with fewer.
        columns = [
            [x[i] if i < len(x) else x[0] for x in references]
            for i in range(most)
        ]
        bleu, chrf = BLEU(), CHRF()
        return {
            "score": bleu.corpus_score(written, columns).score,
            "chrf": chrf.corpus_score(written, columns).score,
            "signature": str(bleu.get_signature()),
        }


def write_all(model, sources):
    """Returns a model's texts for sources, in batches of equal size."""
    order = np.argsort([*map(len, sources)], kind="stable")
    size = min(AT_ONCE, len(order))
    written = [""] * len(order)
    for first in range(0, len(order), size):
        rows = order[first : first + size]
        full = np.resize(rows, size)  # the last batch repeats its rows
        made = model.generate([sources[i] for i in full])
        for row, text in zip(rows, made, strict=False):
            written[row] = text
    return written


def _short_enough(pairs, tokenizer, settings, log):
    """The pairs that fit, because half a translation would be wrong."""
    most = settings["sequence_length"]
    # Sources have a start and an end token. Targets have the start token as
    # decoder input, and the end token as label.
    fit = [
        np.array([len(ids) <= longest for ids in tokenizer(list(side))])
        for side, longest in zip(pairs, (most - 2, most - 1), strict=True)
    ]
    rows = np.flatnonzero(fit[0] & fit[1])
    if len(rows) < len(fit[0]):
        log(
            f"Omitted {len(fit[0]) - len(rows):,} training pairs that are "
            f"longer than --sequence-length {most}"
        )
    if not len(rows):
        raise ValueError(
            "All training pairs are longer than --sequence-length. Pass a "
            f"larger one. Received: {most}"
        )
    return data.take(pairs, rows)

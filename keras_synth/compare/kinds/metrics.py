"""Scores of what a model wrote: BLEU and ROUGE-L."""

from collections.abc import Callable
from importlib import metadata
from typing import NamedTuple

import numpy as np

from keras_synth.compare.kinds.kind import Score


class Metric(NamedTuple):
    """How texts are scored.

    Attributes:
        score: `Score`.
        package: Name of the package that computes it.
        compute: Function of a list of texts and a list of lists of
            references, all of the same length. Returns the score and a
            string, the signature, that says how it was computed.
    """

    score: Score
    package: str
    compute: Callable


def _bleu(written, references):
    import sacrebleu

    metric = sacrebleu.metrics.BLEU()
    # The first references of all texts, then the second ones.
    columns = list(map(list, zip(*references, strict=True)))
    score = metric.corpus_score(written, columns).score
    return score, str(metric.get_signature())


def _rouge_l(written, references):
    from rouge_score import rouge_scorer

    scorer = rouge_scorer.RougeScorer(["rougeL"], use_stemmer=True)
    best = [
        scorer.score_multi(some, text)["rougeL"].fmeasure
        for some, text in zip(references, written, strict=True)
    ]
    signature = (
        "mean of the best F for each text|stemmer:yes|version:"
        f"{metadata.version('rouge-score')}"
    )
    return 100 * float(np.mean(best)), signature


BLEU = Metric(Score("BLEU", "BLEU"), "sacrebleu", _bleu)
ROUGE_L = Metric(Score("ROUGE-L", "ROUGE-L"), "rouge_score", _rouge_l)

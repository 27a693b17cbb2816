"""Metrics: per token, of generated texts, of predicted classes and scores."""

import itertools
from collections.abc import Sequence
from importlib import metadata
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_synth.types import Identifier, Tensor


class _TokenMean(keras.metrics.Metric):
    """`sum(weight * value) / sum(weight)` over all tokens of all batches."""

    def __init__(self, name: str, dtype: Identifier | None = None) -> None:
        super().__init__(name=name, dtype=dtype)
        self.total = self.add_variable((), "zeros", name="total")
        self.count = self.add_variable((), "zeros", name="count")

    def values(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        """One number for each token."""
        raise NotImplementedError

    def update_state(
        self,
        y_true: Tensor,
        y_pred: Tensor,
        sample_weight: Tensor | None = None,
    ) -> None:
        values = ops.cast(self.values(y_true, y_pred), self.dtype)
        if sample_weight is None:
            weight = ops.ones_like(values)
        else:
            weight = ops.cast(sample_weight, self.dtype)
            missing = (1,) * (len(values.shape) - len(weight.shape))
            weight = ops.reshape(weight, (*ops.shape(weight), *missing))
            weight = ops.broadcast_to(weight, ops.shape(values))
        self.total.assign_add(ops.sum(values * weight))
        self.count.assign_add(ops.sum(weight))

    def result(self) -> Tensor:
        return ops.divide_no_nan(self.total, self.count)


@keras.saving.register_keras_serializable(package="keras_synth")
class TokenCrossentropy(_TokenMean):
    """Cross-entropy of logits with integer labels, in nats per token.

    `sum(weight * loss) / sum(weight)` over the tokens of all batches, however
    long and padded each of them is. `exp` of it is the perplexity, and for
    models of bytes it is `log(2)` times the bits per byte.

    What Keras reports as the loss is the mean of the batches' means, and
    `keras.metrics.SparseCategoricalCrossentropy` the mean of the sequences'
    sums over their padded lengths: neither counts tokens alike where padding
    differs.

    Args:
        name: String.
        dtype: Of the sums.

    Call arguments:
        y_true: Integer tensor `(B, T)`.
        y_pred: Tensor `(B, T, V)`, logits.
        sample_weight: Optional tensor `(B, T)`, 0 for padding, or `(B,)`.
            Goes to what is passed to `compile` as `weighted_metrics`.

    Example:

    >>> metric = keras_synth.metrics.TokenCrossentropy()
    >>> labels, padding_mask = np.array([[1, 0]]), np.array([[1, 0]])
    >>> metric.update_state(labels, np.zeros((1, 2, 4)), padding_mask)
    >>> float(np.exp(metric.result()))  # perplexity of 4 equal logits
    4.0
    """

    def __init__(
        self, name: str = "crossentropy", dtype: Identifier | None = None
    ) -> None:
        super().__init__(name, dtype)

    def values(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        return keras.losses.sparse_categorical_crossentropy(
            y_true, ops.cast(y_pred, self.dtype), from_logits=True
        )


@keras.saving.register_keras_serializable(package="keras_synth")
class TokenAccuracy(_TokenMean):
    """Share of the tokens whose label has the highest logit.

    Tokens count as those of `TokenCrossentropy` do, and all arguments are the
    same.

    Example:

    >>> metric = keras_synth.metrics.TokenAccuracy()
    >>> logits = np.array([[[0.0, 4.0], [4.0, 0.0], [4.0, 0.0]]], "float32")
    >>> labels, real = np.array([[1, 0, 1]]), np.array([[1, 1, 0]])
    >>> metric.update_state(labels, logits, real)
    >>> float(metric.result())
    1.0
    """

    def __init__(
        self, name: str = "accuracy", dtype: Identifier | None = None
    ) -> None:
        super().__init__(name, dtype)

    def values(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        best = ops.argmax(y_pred, axis=-1)
        return ops.equal(best, ops.cast(y_true, best.dtype))


def token_scorer(model: keras.Model) -> keras.Model:
    """A language model's layers, compiled to be evaluated in nats per token.

    By itself: in training a metric over all words would take a third of a
    step's time, and say what the loss says.

    Args:
        model: Compiled language model; it gives logits `(B, T, V)`.

    Returns:
        `keras.Model` that shares all layers. Its `evaluate` returns
        `"crossentropy"` (see `TokenCrossentropy`).
    """
    scorer = keras.Model(model.input, model.output)
    scorer.compile(loss=model.loss, weighted_metrics=[TokenCrossentropy()])
    return scorer


def _check_pairs(**sides):
    """Raises unless there is something to score, and as much on both sides.

    Args:
        **sides: Two sequences by the names that errors call them.
    """
    counts = {name: len(side) for name, side in sides.items()}
    (first, count), (second, other) = counts.items()
    if not count and not other:
        raise ValueError(
            f"There is nothing to score. Pass at least one pair of {first} and "
            f"{second}. Received: both empty"
        )
    if count != other:
        raise ValueError(
            f"{first} and {second} must be equally many. Received: {count} "
            f"and {other}"
        )


def _check_references(texts, references):
    _check_pairs(texts=texts, references=references)
    for at, given in enumerate(references):
        if isinstance(given, str) or not len(given):
            raise ValueError(
                "Each text must have a list of references, one or more. "
                f"Received: references[{at}]={given!r:.60}"
            )


def bleu(texts: Sequence[str], references: Any) -> tuple[float, str]:
    """BLEU of a corpus, as sacrebleu computes it.

    Args:
        texts: List of strings, what was generated.
        references: List of as many lists of strings, at least one each.

    Returns:
        `(score, signature)`: a float from 0 to 100, and a string that says how
        it was computed.

    Raises:
        ValueError: There are no texts, not as many references, or none for a
            text.
    """
    import sacrebleu

    return _of_corpus(sacrebleu.metrics.BLEU(), texts, references)


def chrf(texts: Sequence[str], references: Any) -> tuple[float, str]:
    """F2 of the n-grams of characters of a corpus, as sacrebleu computes it.

    Short texts, and words that are nearly right, tell more by it than by
    BLEU.

    Args, returns and errors are those of `bleu`.

    Example:

    >>> texts = ["the dogs ran", "a cat sleeps"]
    >>> references = [["the dog ran"], ["a cat slept"]]
    >>> score, signature = keras_synth.metrics.chrf(texts, references)
    >>> round(score, 1)
    64.6

    References:
        - [Popovic, 2015](https://aclanthology.org/W15-3049/)
    """
    import sacrebleu

    return _of_corpus(sacrebleu.metrics.CHRF(), texts, references)


def _of_corpus(metric, texts, references):
    """The score and the signature of a metric of sacrebleu."""
    _check_references(texts, references)
    most = max(map(len, references))
    # The first references of all texts, then the second ones.
    columns = [[x[i % len(x)] for x in references] for i in range(most)]
    score = metric.corpus_score(texts, columns).score
    return score, str(metric.get_signature())


def entity_f1(true: Any, predicted: Any) -> float:
    """F1 of entities in IOB labels, as seqeval and conlleval compute it.

    Precision is the share of the predicted entities that are right, kind and
    all words; recall that of the true ones that are found; F1 their harmonic
    mean, of all kinds together. An entity starts at `"B-"`, or where the kind
    changes.

    Args:
        true: List of lists of strings, a label for each word of each sentence:
            `"O"`, `"B-PER"`, `"I-PER"`.
        predicted: The same, such as
            `keras_synth.models.SynthesizerTokenClassifier.tag` returns.

    Returns:
        Float from 0 to 1; 0 where there are no entities.

    Raises:
        ValueError: Labels are not in IOB, or not equally many.
        ImportError: seqeval is not installed.

    Example:

    >>> true = [["B-PER", "I-PER", "O", "B-LOC"]]
    >>> predicted = [["B-PER", "O", "O", "B-LOC"]]
    >>> keras_synth.metrics.entity_f1(true, predicted)
    0.5
    """
    try:
        from seqeval.metrics import f1_score
    except ModuleNotFoundError as error:
        if error.name.partition(".")[0] != "seqeval":
            raise
        raise ImportError(
            'entity_f1 needs seqeval: pip install "keras-synth[compare]"'
        ) from None

    if not len(true) and not len(predicted):
        _check_pairs(true=true, predicted=predicted)
    lengths = [[*map(len, labels)] for labels in (true, predicted)]
    if lengths[0] != lengths[1]:
        raise ValueError(
            "true and predicted must have as many sentences and labels. Pass "
            "a label for each word. Received: "
            f"{len(true)} sentences with {sum(lengths[0])} labels and "
            f"{len(predicted)} with {sum(lengths[1])}"
        )
    for label in itertools.chain(*true, *predicted):
        if not (label == "O" or label[:2] in ("B-", "I-")):
            raise ValueError(
                'Labels must be "O", or start with "B-" or "I-". Give entities '
                "IOB labels; parts of speech have no F1 of entities. "
                f"Received: {label!r}"
            )
    # Made floats: seqeval returns NumPy's.
    return float(f1_score(true, predicted, zero_division=0))


def rouge_l(texts: Sequence[str], references: Any) -> tuple[float, str]:
    """The mean of the best ROUGE-L F for each text, stemmed.

    Args, returns and errors are those of `bleu`.
    """
    from rouge_score import rouge_scorer

    _check_references(texts, references)
    scorer = rouge_scorer.RougeScorer(["rougeL"], use_stemmer=True)
    best = [
        scorer.score_multi(targets, text)["rougeL"].fmeasure
        for targets, text in zip(references, texts, strict=True)
    ]
    version = metadata.version("rouge-score")
    signature = (
        f"mean of the best F for each text|stemmer:yes|version:{version}"
    )
    return 100 * float(np.mean(best)), signature


def accuracy(labels: Any, predictions: Any) -> float:
    """Share of the predictions that are the label.

    Args:
        labels: Integer array `(N,)`.
        predictions: Integer array `(N,)`, the predicted classes.

    Returns:
        Float from 0 to 1.

    Raises:
        ValueError: There are none, or not as many of both. So of the scores
            below.
    """
    _check_pairs(labels=labels, predictions=predictions)
    return float(np.mean(np.equal(labels, predictions)))


def f1(labels: Any, predictions: Any) -> float:
    """F1 of class 1, as scikit-learn computes it.

    Args:
        labels: Integer array `(N,)` of 0 and 1.
        predictions: Integer array `(N,)`, the predicted classes.

    Returns:
        Float from 0 to 1; 0 where class 1 is never predicted.

    Example:

    >>> round(keras_synth.metrics.f1([0, 1, 1, 1], [1, 1, 1, 0]), 4)
    0.6667
    """
    from sklearn.metrics import f1_score

    _check_pairs(labels=labels, predictions=predictions)
    return float(f1_score(labels, predictions, zero_division=0.0))


def matthews(labels: Any, predictions: Any) -> float:
    """Matthews' correlation of classes, as scikit-learn computes it.

    Args:
        labels: Integer array `(N,)`.
        predictions: Integer array `(N,)`, the predicted classes.

    Returns:
        Float from -1 to 1; 0 where either is always the same class.

    Example:

    >>> round(keras_synth.metrics.matthews([0, 0, 1, 1], [0, 1, 1, 1]), 4)
    0.5774
    """
    from sklearn.metrics import matthews_corrcoef

    return _correlation(matthews_corrcoef, labels, predictions)


def pearson(labels: Any, predictions: Any) -> float:
    """Pearson's correlation of scores, as SciPy computes it.

    Args:
        labels: Float array `(N,)`.
        predictions: Float array `(N,)`.

    Returns:
        Float from -1 to 1; 0 where either is constant.

    Example:

    >>> round(keras_synth.metrics.pearson([0.0, 1.0, 5.0], [1.0, 2.0, 3.0]), 4)
    0.9449
    """
    from scipy import stats

    return _correlation(
        lambda *sides: stats.pearsonr(*sides).statistic, labels, predictions
    )


def spearman(labels: Any, predictions: Any) -> float:
    """Spearman's correlation of ranks, as SciPy computes it.

    Args and returns are those of `pearson`.
    """
    from scipy import stats

    return _correlation(
        lambda *sides: stats.spearmanr(*sides).statistic, labels, predictions
    )


def _correlation(compute, labels, predictions):
    """A correlation, or 0 of a constant, where none is defined."""
    _check_pairs(labels=labels, predictions=predictions)
    # In double precision, whatever the model computes in.
    sides = np.asarray(labels, "float64"), np.asarray(predictions, "float64")
    if min(map(np.ptp, sides)) == 0:
        return 0.0
    return float(compute(*sides))
